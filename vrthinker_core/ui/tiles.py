"""The frames of a turn as tiles: both videos side by side if the judge saw the slot of both."""

import contextlib
import hashlib
import math
import shutil
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from vrthinker_core.errors import TraceError
from vrthinker_core.traces import load
from vrthinker_core.types import ClipInfo, FrameRef, Side, Thumbnail
from vrthinker_core.types.events import Trace
from vrthinker_core.types.progress import count
from vrthinker_core.ui import words
from vrthinker_core.video.thumbnails import jpeg_size


@dataclass(frozen=True, slots=True)
class ImageSource:
    """A thumbnail's address (URL or data URI) and its size in pixels."""

    src: str
    width: int
    height: int


ImageSources = Callable[[Thumbnail], ImageSource]  # gives the source of a thumbnail


class HalfJson(TypedDict):
    """One video's frame of a tile."""

    src: str
    ratio: float  # width divided by height
    time: float  # when the frame appears, in seconds: the one time that a frame is shown with
    at: float  # seconds to seek to
    place: float  # where the frame stands in its clip, 0 to 1
    gone: NotRequired[Literal[True]]  # the frame has left the judge's view


class TileJson(TypedDict):
    """A tile; a half is None if the judge did not see that video."""

    label: str
    slot: int
    halves: list[HalfJson | None]


@dataclass(frozen=True, slots=True)
class Tile:
    """One slot of one turn. `halves` holds the sides that were sent, one or both."""

    halves: Mapping[Side, Thumbnail]

    @property
    def label(self) -> str:
        """The number that the judge saw; both if counted apart."""
        numbers = (f"#{half.number}" for _, half in sorted(self.halves.items()))
        return " · ".join(dict.fromkeys(numbers))

    def to_json(
        self,
        clips: tuple[ClipInfo | None, ClipInfo | None],
        in_view: Set[FrameRef],
        images: ImageSources,
    ) -> TileJson:
        """Return the page's tile; frames not `in_view` are marked as gone."""
        halves: list[HalfJson | None] = [None, None]
        for place, (side, clip) in enumerate(zip(Side, clips, strict=True)):
            if frame := self.halves.get(side):
                image = images(frame)
                halves[place] = half = HalfJson(
                    src=image.src,
                    ratio=round(image.width / image.height, 3),
                    time=_finite(frame.seconds),
                    at=seek_time(frame),
                    place=timeline_position(frame, clip),
                )
                if frame.ref not in in_view:
                    half["gone"] = True
        slot = min(half.ref.slot for half in self.halves.values())  # the same of both
        return {"label": self.label, "slot": slot, "halves": halves}


def group_tiles(frames: Iterable[Thumbnail]) -> list[Tile]:
    """Return frames grouped by slot, in the order of first appearance."""
    slots: dict[int, dict[Side, Thumbnail]] = {}
    for frame in frames:
        slots.setdefault(frame.ref.slot, {}).setdefault(frame.ref.side, frame)
    return [Tile(halves) for halves in slots.values()]


def seek_time(frame: Thumbnail) -> float:
    """Return seconds to the middle of the frame's interval.

    Browsers show the exact frame there (17 of 17; at its timestamp 10 to 12).
    """
    return _finite((frame.seconds + max(frame.seconds, frame.until)) / 2)


def timeline_position(frame: Thumbnail, clip: ClipInfo | None) -> float:
    """Return the frame's place in its clip, 0 to 1: equal places are one moment."""
    index = min(max(frame.index, 0), 2**31)
    frames = max(clip.frames if clip else 0, index + 1)
    return round((index + 0.5) / frames, 5)


def _finite(seconds: float) -> float:
    return round(seconds, 5) if math.isfinite(seconds) else 0.0


class ThumbnailFiles:
    """Thumbnails of one run in `folder`, served under the relative `url`."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._sources: dict[bytes, ImageSource] = {}
        self._lock = threading.Lock()
        self._removed = False

    def __call__(self, frame: Thumbnail) -> ImageSource:
        """Return the source; `src` is "" on a full disk or after removal."""
        if frame.jpeg not in self._sources:
            self._sources[frame.jpeg] = image_source(self.add(frame.jpeg, ".jpg"), frame.jpeg)
        return self._sources[frame.jpeg]

    def remove(self) -> None:
        """Remove the folder; what a thread adds later is not written."""
        with self._lock:
            self._removed = True
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, data: bytes, suffix: str) -> str:
        """Write a picture; return its address, "" if it could not be written."""
        path = self._folder / f"{hashlib.blake2b(data, digest_size=10).hexdigest()}{suffix}"
        with self._lock:
            if self._removed:
                return ""
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            except OSError:
                path.unlink(missing_ok=True)
                return ""
        return f"{self._url}/{path.name}"

    def discard(self, src: str) -> None:
        """Remove the picture at that address, as `add` gave it."""
        (self._folder / Path(src).name).unlink(missing_ok=True)


def image_source(src: str, jpeg: bytes) -> ImageSource:
    """Return the picture at this address; no JPEG counts one pixel."""
    width, height = jpeg_size(jpeg)
    return ImageSource(src, max(width, 1), max(height, 1))


class CardJson(TypedDict):
    """An example as the page shows it."""

    name: str  # its folder, by which the page opens it
    row: str  # the heading of the row it stands in
    title: str
    prompt: str
    judge: str
    pictures: list[str]  # the address of one picture of each video, "" without


@dataclass(frozen=True, slots=True)
class SavedExample:
    """One saved run, and the files it compared."""

    name: str
    trace: Trace
    videos: tuple[Path, Path]


class Examples:
    """The readable examples in `folder`, by their rows and names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[SavedExample] = []
        rows = list(words.EXAMPLE_ROWS)

        def order(path: Path) -> tuple[int, str]:
            kind = path.parent.name.partition("-")[0]  # those in no row come last
            return rows.index(kind) if kind in rows else len(rows), path.parent.name

        for path in sorted(folder.glob("*/trace.json"), key=order):
            videos = (path.with_name("first.mp4"), path.with_name("second.mp4"))
            with contextlib.suppress(TraceError):
                self.all.append(SavedExample(path.parent.name, load(path), videos))

    def find(self, name: str) -> SavedExample | None:
        """Return the example of that name; None if there is none."""
        return next((example for example in self.all if example.name == name), None)

    def cards(self, thumbnails_of: Callable[[str], ThumbnailFiles]) -> list[CardJson]:
        """Return the examples for the page. `thumbnails_of(name)` holds an example's thumbnails."""
        cards: list[CardJson] = []
        for example in self.all:
            thumbnails = thumbnails_of(example.name)
            started, turns = example.trace.started, example.trace.turns
            tiles = group_tiles(turns[0].frames) if turns else []
            halves = tiles[len(tiles) // 2].halves if tiles else {}
            kind, _, rest = example.name.partition("-")
            title = rest if kind in words.EXAMPLE_ROWS else example.name
            title = title.lstrip("0123456789-").replace("-", " ")
            pictures = [thumbnails(halves[side]).src if side in halves else "" for side in Side]
            card = CardJson(
                name=example.name,
                row=words.EXAMPLE_ROWS.get(kind, words.EXAMPLES),
                title=title[:1].upper() + title[1:],
                prompt=started.prompt,
                judge=f"{words.judge_line(started.judge)} · {count(len(turns), 'turn')}",
                pictures=pictures,
            )
            cards.append(card)
        return cards
