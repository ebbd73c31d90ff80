"""The picture of a run, 1200 × 630 pixels: one copies it, and a link shows it as its preview."""

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import cycle, islice
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont, ImageOps, features

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.protocols.factory import protocol_of
from vrthinker_core.types import Thumbnail
from vrthinker_core.types.events import Started, Trace
from vrthinker_core.types.frames import Sizing
from vrthinker_core.types.wording import DEMO_RUN, SAME_IN_BOTH
from vrthinker_core.ui import words
from vrthinker_core.ui.run import FoundVideos
from vrthinker_core.ui.view import RunView
from vrthinker_core.video import Clip
from vrthinker_core.video.limits import Limits
from vrthinker_core.words import encodable, shortened

Face = tuple[ImageFont.FreeTypeFont, float]  # a font, and the scale in which it writes

SIZE = WIDTH, HEIGHT = 1200, 630
MARGIN, GAP, RADIUS, CHIP, CAPTION = 54, 20, 12, 64, 30
ROOM = WIDTH - 2 * MARGIN
LINE = 1.34  # heights of a line in its size
BESIDE, NARROW = 660, 2.4  # the most that frames beside the text take, and how wide they may be
MAX_PROMPT = 400  # characters
# Traces hold small frames, some squashed: the video has sharper ones, if it is quickly read
SHARP, QUICK = Sizing("area", area=600_000), Limits(cpu_seconds=3.0, wall_seconds=6.0)

# By file name, as Pillow finds them in the system's folders: of Debian, then of Windows and macOS
BOLD = ("OpenSans-Bold.ttf", "NotoSans-Bold.ttf", "DejaVuSans-Bold.ttf", "segoeuib.ttf")
PLAIN = (
    *("OpenSans-Regular.ttf", "NotoSans-Regular.ttf", "DejaVuSans.ttf", "wqy-microhei.ttc"),
    *("NotoSansCJK-Regular.ttc", "segoeui.ttf", "msyh.ttc", "Arial Unicode.ttf"),
)
EMOJI, EMOJI_SIZE = "NotoColorEmoji.ttf", 109  # its only one, in pixels
SIGN = "\u231a-\u23ff\u2600-\u27bf\u2b1b-\u2b55\U0001f000-\U0001faff"
SIGNS = re.compile(f"([{SIGN}][{SIGN}\u200d\ufe0f]*)")
CJK = "\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
# A line may end behind each, but not before a closing mark
WORD = re.compile(rf"\s*(?:[{CJK}][、。，．！？：；」』）】”]*|[^\s{CJK}]{{1,24}})")
# Would turn the text around, or pile marks up
UNRULY = re.compile("[\u202a-\u202e\u2066-\u2069]|(?<=[\u0300-\u036f]{2})[\u0300-\u036f]+")


class Theme(NamedTuple):
    """The page's colours."""

    paper: str
    ink: str
    faint: str
    well: str
    accent: str
    sides: tuple[str, str]  # of both videos


LIGHT = Theme("#ffffff", "#18201f", "#5c6966", "#f1f5f4", "#0b7a6f", ("#1f5fc0", "#a4510a"))
DARK = Theme("#111817", "#edf3f1", "#a3b1ae", "#1d2725", "#2bb3a3", ("#86b4ff", "#ffb066"))


def _fonts(names: Iterable[str], size: int) -> Iterator[Face]:
    """Yield the fonts at hand; Pillow's own, which is Latin, comes last."""
    for name in names:
        with suppress(OSError):
            if name == EMOJI:
                yield ImageFont.truetype(name, EMOJI_SIZE), 1.1 * size / EMOJI_SIZE
            else:
                yield ImageFont.truetype(name, size), 1.0
    own = ImageFont.load_default(size)
    assert isinstance(own, ImageFont.FreeTypeFont)
    yield own, 1.0


def _writes(face: Face, text: str) -> bool:
    """Whether the font has all glyphs; joiners and selectors need none."""

    def look(char: str) -> object:
        return face[0].getbbox(char), bytes(face[0].getmask(char))

    missing, needed = look("\U000ffffe"), set(text) - {*" \u200c\u200d\ufe0e\ufe0f"}
    return all(look(char) != missing for char in needed)


def _faces(text: str, size: int, bold: bool) -> list[Face]:
    """Return the fonts of letters and of signs; [] if none writes the text."""
    letters, signs = SIGNS.sub("", text) + "…", "".join(SIGNS.findall(text))
    parts = (letters, (*BOLD * bold, *PLAIN)), (signs, (EMOJI, *PLAIN))
    fonts = ((face for face in _fonts(names, size) if _writes(face, part)) for part, names in parts)
    faces = [face for found in fonts for face in islice(found, 1)]
    is_shaped = any(unicodedata.bidirectional(char) in ("R", "AL", "NSM") for char in letters)
    can_shape = features.check("raqm") and not signs  # a sign would split what goes to the left
    return faces if len(faces) == 2 and (can_shape or not is_shaped) else []


class Lettering:
    """A text in one size and colour."""

    def __init__(self, text: str, size: int, colour: str, bold: bool = False) -> None:
        """Write in ASCII what no font at hand writes."""
        faces, plain = _faces(text, size, bold), text.encode("ascii", "replace").decode()
        self.is_whole, self.text = bool(faces), text if faces else plain
        self._faces = faces or _faces(plain, size, bold)
        self.size, self._colour = size, colour
        strong = (unicodedata.bidirectional(char) for char in self.text)
        self._is_right = next((each for each in strong if each in ("L", "R", "AL")), "L") != "L"

    def _pieces(self, line: str) -> Iterator[tuple[Face, str]]:
        return zip(cycle(self._faces), SIGNS.split(line), strict=False)

    def length(self, line: str) -> float:
        """Return the pixels that a line of it takes."""
        return sum(font.getlength(piece) * scale for (font, scale), piece in self._pieces(line))

    def lines(self, width: float, most: int = 99) -> list[str]:
        """Return it in at most so many lines; an ellipsis stands for the rest."""
        lines = [""]
        for word in WORD.findall(self.text):
            if lines[-1] and self.length(lines[-1] + word) > width:
                lines.append(word.lstrip())
            else:
                lines[-1] += word
        if len(lines) > most:
            last = lines[most - 1]
            while self.length(f"{last}…") > width:
                last = last[:-1]
            lines = [*lines[: most - 1], f"{last.rstrip(' ,;:.')}…"]
        return lines

    def write(self, image: Image.Image, x: int, y: int, width: int, most: int = 99) -> int:
        """Write below y, from the right if the text begins so; return where it ends."""
        pen = ImageDraw.Draw(image)
        for line in self.lines(width, most):
            left, base = x + (width - self.length(line)) * self._is_right, y + self.size
            for (font, scale), piece in self._pieces(line):
                if scale == 1.0:
                    pen.text((left, base), piece, self._colour, font, "ls")
                elif piece:
                    tile = Image.new("RGBA", (round(font.getlength(piece)), 128))
                    sign = ImageDraw.Draw(tile)
                    sign.text((0, 101), piece, font=font, anchor="ls", embedded_color=True)
                    small = ImageOps.scale(tile, scale)
                    image.paste(small, (round(left), base - round(101 * scale)), small)
                left += font.getlength(piece) * scale
            y += round(self.size * LINE)
        return y


def _panel(image: Image.Image, place: tuple[int, int], filled: Image.Image) -> None:
    """Draw a colour or a picture with round corners."""
    mask = Image.new("L", (4 * filled.width, 4 * filled.height))
    box = 0, 0, mask.width - 1, mask.height - 1
    ImageDraw.Draw(mask).rounded_rectangle(box, 4 * RADIUS, "white")
    image.paste(filled, place, mask.resize(filled.size))


def _frame(started: Started, frame: Thumbnail, videos: FoundVideos) -> tuple[Image.Image, float]:
    """Return a frame, and width / height of its video: a judge's own may be squashed."""
    side, protocol = frame.ref.side, protocol_of(started)
    clip, video = started.clips[side - 1], videos[side - 1]
    picture = Image.new("RGB", (16, 9), "grey")
    with suppress(OSError):  # a saved file may hold a damaged one
        picture = Image.open(io.BytesIO(frame.jpeg), formats=["JPEG"]).convert("RGB")
    if clip and protocol and video:
        plan = replace(protocol.frame_plan, opening=SHARP, later=SHARP)
        source = Clip(video, side, plan, limits=QUICK)
        with suppress(VrThinkerError, ValueError), source.open() as opened:
            (found,) = opened.frames([frame.ref.slot])
            if (opened.info.digest, found.index) == (clip.digest, frame.index):
                picture = found.image
    shape = (clip.width, clip.height) if clip and clip.width and clip.height else picture.size
    return picture, shape[0] / shape[1]


def _verdict(view: RunView, theme: Theme, column: int, most: int) -> list[Lettering]:
    """Return the outcome, as large as `most` lines allow, and who says it in which orders."""
    told = view.answer() or {"headline": words.NEVER_ENDED, "says": "", "note": ""}
    outcome, note = told["headline"], told["note"]
    if view.outside_scope:
        outcome, note = DEMO_RUN, view.headline
    for size in (46, 40, 35, 30):
        large = Lettering(outcome, size, theme.ink, bold=True)
        if len(large.lines(column)) <= most:
            break
    parts = [part for part in (told["says"], note) if part]
    parts = [" · ".join(parts)] if most == 1 else parts
    looks = [theme.accent if SAME_IN_BOTH in part else theme.faint for part in parts]
    return [large, *(Lettering(part, 20, look) for part, look in zip(parts, looks, strict=True))]


def _write(image: Image.Image, view: RunView, theme: Theme, column: int, floor: int) -> int:
    """Write name, prompt and verdict above `floor`; return where they end."""
    brand, y, width = Lettering(words.TITLE, 20, theme.accent, bold=True), MARGIN - 10, column
    if is_beside := column < ROOM:
        y = brand.write(image, MARGIN, y, width) + 14
    else:
        brand.write(image, WIDTH - MARGIN - int(brand.length(words.TITLE)), y, width)
        width -= 160
    verdict = _verdict(view, theme, column, 2 if is_beside else 1)
    needs = sum(len(text.lines(column)) * round(text.size * LINE) for text in verdict)
    prompt = UNRULY.sub("", encodable(view.started.prompt[:2000])) if view.started else ""
    quoted = Lettering(f"“{shortened(' '.join(prompt.split()), MAX_PROMPT)}”", 24, theme.faint)
    if prompt.strip() and quoted.is_whole:
        left = (floor - y - needs - 2 * GAP) // round(24 * LINE)
        y = quoted.write(image, MARGIN, y, width, max(1, left) if is_beside else 2) + 12
    for text in verdict:
        y = text.write(image, MARGIN, y, column) + 6
    return y


def draw(trace: Trace, videos: FoundVideos = (None, None), dark: bool = False) -> Image.Image:
    """Draw prompt, deciding frames, verdict and swap test of a run that is over.

    `videos`: sharper frames are read from them. A prompt that no font at hand writes is left out.
    """
    view, theme = RunView(trace), DARK if dark else LIGHT
    image, chips = Image.new("RGB", SIZE, theme.paper), [] if view.scripted else view.labels
    winner = chips[0]["value"] if chips else None
    shown = [frame for _, frame in sorted(view.deciding_pair().items())]
    frames = [(*_frame(trace.started, each, videos), int(each.ref.side)) for each in shown]
    ratios = [ratio for _, ratio, _ in frames]
    column, columns, half = ROOM, 4, (ROOM - GAP) // 2
    # Narrow frames stand beside the text, others below it, each in its half
    if is_beside := 0 < sum(ratios) < NARROW:
        height = min(HEIGHT - 2 * MARGIN - CAPTION, int((BESIDE - GAP) / sum(ratios)))
        column, columns = ROOM - GAP - sum(int(ratio * height) + GAP for ratio in ratios), 2
    floor = HEIGHT - MARGIN - len(chips) // columns * (CHIP + GAP)  # of what is above the chips
    end = _write(image, view, theme, column, floor)

    if is_beside:
        x, y = MARGIN + column + 2 * GAP, (HEIGHT - height - CAPTION) // 2
    else:
        x, y = MARGIN, end + 14
        height = max(1, floor - y - CAPTION)
    for picture, ratio, side in frames:
        wide = max(1, min(half, int(ratio * height)))
        size, colour = (wide, max(1, min(height, round(wide / ratio)))), theme.sides[side - 1]
        if side == winner:
            around = size[0] + 8, size[1] + 8
            _panel(image, (x - 4, y - 4), Image.new("RGB", around, colour))
        is_barred = trace.started.settings.fit == "letterbox"  # bars go
        shaped = ImageOps.fit(picture, size) if is_barred else picture.resize(size)
        _panel(image, (x, y), shaped)
        name = Lettering(f"Video {side}", 18, colour, bold=side == winner)
        name.write(image, x, y + size[1] + 5, half)
        x += (wide if is_beside else half) + GAP
    wide = (column + GAP) // columns - GAP
    for number, row in enumerate(chips):
        x = MARGIN + number % columns * (wide + GAP)
        y = floor + GAP + number // columns * (CHIP + GAP)
        _panel(image, (x, y), Image.new("RGB", (wide, CHIP), theme.well))
        Lettering(row["name"], 17, theme.faint).write(image, x + 18, y + 4, wide)
        Lettering(row["label"], 22, theme.ink, bold=True).write(image, x + 18, y + 27, wide)
    return image
