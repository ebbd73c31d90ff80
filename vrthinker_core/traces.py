"""The stored record of a run: a JSON file with small pictures. Each turn replaces it whole."""

import io
import math
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

from vrthinker_core.errors import BadInput, TraceError, data_errors, type_adapter
from vrthinker_core.storage import remove_parts, write_atomically
from vrthinker_core.types import ClipInfo, Frame, ProtocolName, Thumbnail
from vrthinker_core.types.events import Run, Trace, shown_slots
from vrthinker_core.words import encodable

MAX_BYTES = 64 * 2**20
# Commas between values, and a fifth as many brackets: parsing cost grows with these, not with bytes
MAX_ITEMS = 1_000_000
MAX_CHARACTERS = 12 * 2**20  # All texts of a trace
MAX_FRAMES = 2048  # All turns of a trace
# An unclosed string reaches to the end of the file
_STRING = re.compile(rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)
NOT_SAVED = "The trace could not be saved"  # Start of the note if the record went elsewhere
THUMBNAIL_HEIGHT = 224
MAX_SIDE = 8 * THUMBNAIL_HEIGHT  # in pixels
MAX_JPEG_BYTES = 256 * 2**10


def to_json(trace: Trace) -> bytes:
    """Return the ended turns of a trace as UTF-8 JSON, thumbnails in base64."""
    unsaved: Any = {"open": True, "swapped": {"open"}}
    return type_adapter(Trace).dump_json(trace, indent=1, exclude=unsaved)


def from_json(data: bytes) -> Trace:
    """Read a trace that may come from a stranger. Raises `TraceError` with one sentence."""
    if len(data) > MAX_BYTES:
        raise TraceError(f"This trace is too large: at most {MAX_BYTES // 2**20} MB are read.")
    # Commas inside strings do not count. At most 3 * MAX_ITEMS strings are taken out: more strings
    # than that are too many values anyway.
    if _has_many_items(data) and _has_many_items(_STRING.sub(b"", data, count=3 * MAX_ITEMS)):
        raise TraceError(
            "This is not a VR-Thinker trace: it holds far more values than any run has."
        )
    with data_errors("This is not a VR-Thinker trace", TraceError):
        trace: Trace = type_adapter(Trace).validate_json(data)
    _check(trace)
    return _without_open_turns(trace)


def _has_many_items(data: bytes) -> bool:
    return data.count(b",") > MAX_ITEMS or data.count(b"[") + data.count(b"{") > MAX_ITEMS // 5


def _check(trace: Trace) -> None:
    """Check what single fields cannot; the limits are for both runs together."""
    runs = trace.runs
    if (frames := sum(len(turn.frames) for run in runs for turn in run.turns)) > MAX_FRAMES:
        raise TraceError(f"This trace shows {frames} frames; at most {MAX_FRAMES} are read.")
    if (characters := sum(map(len, _texts(trace)))) > MAX_CHARACTERS:
        raise TraceError(
            f"The texts of this trace have {characters} characters; at most {MAX_CHARACTERS} are "
            "read."
        )
    for run in runs:
        _check_run(run)
    if trace.swapped is not None:
        first, second = trace.started, trace.swapped.started
        digests = [[clip and clip.digest for clip in each.clips] for each in (first, second)]
        same = [(each.prompt, each.judge, each.dialect) for each in (first, second)]
        judged = trace.finished is not None and trace.finished.verdict is not None
        if not judged or digests[0] != digests[1][::-1] or same[0] != same[1]:
            raise TraceError(
                "This trace is damaged: its second run did not compare the same pair with the "
                "sides swapped."
            )
    if trace.vote is not None and not shown_slots(runs).issuperset(trace.vote.slots):
        raise TraceError("This trace is damaged: its vote names frames that were never shown.")


def _check_run(run: Run) -> None:
    for expected, turn in enumerate(run.turns, start=1):
        if turn.number != expected:
            raise TraceError(f"This trace is incomplete: turn {expected} is missing.")
        length = len(turn.completion.text)
        if sum(turn.completion.pieces) != length:
            raise TraceError(
                f"This trace is damaged: the pieces of turn {expected} do not make up its text."
            )
        if any(token.offset >= length for token in turn.completion.label_tokens):
            raise TraceError(
                f"This trace is damaged: turn {expected} has a label probability behind the end "
                "of its text."
            )
    if run.started.dialect not in get_args(ProtocolName):
        raise TraceError(f"This trace uses an unknown protocol, {run.started.dialect[:40]!r}.")
    for turn in run.turns:
        files = [frame.jpeg for frame in turn.frames]
        if any(
            len(each) > MAX_JPEG_BYTES or not 0 < max(jpeg_size(each)) <= MAX_SIDE for each in files
        ):
            raise TraceError(
                f"This trace is damaged: a frame of turn {turn.number} is no small JPEG picture."
            )


def _texts(value: object) -> Iterator[str]:
    """Yield every string in a value of our types."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name))


def load(file: Path | str) -> Trace:
    """Read a trace file. Raises `TraceError` if it cannot be read or is no valid trace."""
    path = Path(file)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise TraceError(
                f"{path.name} has {size / 2**20:.0f} MB; at most {MAX_BYTES // 2**20} MB are read."
            )
        with path.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)  # A device has no size and no end
    except OSError as error:
        raise TraceError(
            f"Cannot read the trace {path.name or path}: {error.strerror or error}."
        ) from None
    return from_json(data)


load_trace = load  # Its public name


def check_replaceable(path: Path) -> Trace | None:
    """Return the trace at `path`, or None. Raises `BadInput` for any other file or link."""
    try:
        is_file = stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # Nothing is there, or writing will fail and say why
        return None
    except ValueError:
        raise BadInput("The name of the trace holds a NUL character: name another file.") from None
    with suppress(TraceError):
        if is_file:
            return load(path)
    raise BadInput(
        f"{encodable(str(path))} exists and is not a trace: name a new file, or an earlier trace."
    )


def check_trace_option(path: Path) -> None:
    """Check the path of a trace before a judge is opened.

    Opening a judge can take minutes. Raises `BadInput` like `check_replaceable`, and if the folder
    is missing.
    """
    check_replaceable(path)
    if not path.absolute().parent.is_dir():
        raise BadInput(
            f"There is no folder {encodable(str(path.parent))}: make it first, or name another "
            "file for the trace."
        )


def _has_own_text(trace: Trace | None) -> bool:
    """Return whether a judge wrote text in a turn not taken over."""
    return trace is not None and any(
        turn.completion.text and not trace.started.is_taken_over(turn.number)
        for turn in trace.turns
    )


class TraceWriter:
    """The writer of a run's trace to a file, or to nowhere without a path.

    If the path cannot be written, the trace goes to the system's temporary folder and `save` says
    so: a run never ends because its record could not be kept. If the path must not be replaced,
    `refused` is set and nothing is written. An earlier trace with text of a judge stays until the
    judge has written text in this run.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self.refused: BadInput | None = None  # Why the run must not begin
        self._path = None if path is None else Path(path)
        self._keeps_earlier = False  # Until the judge has written text in this run
        self._warning = ""
        try:
            if self._path is not None:
                self._keeps_earlier = _has_own_text(check_replaceable(self._path))
        except BadInput as error:
            self.refused, self._path = error, None
        if self._path is not None:
            remove_parts(self._path.parent)

    def save(self, trace: Trace) -> str:
        """Write the trace; return why it is not kept as asked, or ""."""
        if self._path is None:
            return self._warning
        wanted = encodable(str(self._path))  # The warnings below are stored in the trace
        self._keeps_earlier = self._keeps_earlier and not _has_own_text(trace)
        if self._keeps_earlier:
            if not trace.finished:
                return ""
            return f"{wanted} still holds the earlier run: in this one the judge wrote nothing."
        try:
            data = to_json(trace)
        except ValueError as error:  # From pydantic, for a value that JSON cannot hold
            self._warning = f"{NOT_SAVED} as {wanted} ({type(error).__name__}); it is only shown."
            self._path = None
            return self._warning
        try:
            write_atomically(self._path, data)
        except OSError as error:
            self._save_elsewhere(data, wanted, error.strerror or type(error).__name__)
        return self._warning

    def _save_elsewhere(self, data: bytes, wanted: str, reason: str) -> None:
        folder: Path | None = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="vr-thinker-"))
            write_atomically(folder / "trace.json", data)
        except OSError as second:
            self._path = None
            if folder is not None:
                folder.rmdir()
            self._warning = (
                f"{NOT_SAVED} as {wanted} ({reason}) nor anywhere else ({second.strerror}); it is "
                "only shown."
            )
            return
        self._path = folder / "trace.json"
        self._warning = f"{NOT_SAVED} as {wanted} ({reason}); it was saved as {encodable(str(self._path))} instead."


def merge_traces(latest: Trace, stored: Trace) -> Trace:
    """Return `latest` with an order check or vote of `stored`."""
    if latest.started != stored.started:
        return latest
    votes = sorted(filter(None, (stored.vote, latest.vote)), key=lambda vote: vote.at)
    checked = latest.swapped or (stored.swapped if latest.finished == stored.finished else None)
    return storable(replace(latest, swapped=checked, vote=votes[-1] if votes else None))


def _without_open_turns(trace: Trace) -> Trace:
    swapped = trace.swapped and replace(trace.swapped, open=None)
    return replace(trace, open=None, swapped=swapped)


def storable(trace: Trace) -> Trace:
    """Return the trace as a file holds it.

    Without turns that go on, and without marks of a vote for frames that the trace lacks.
    """
    trace = _without_open_turns(trace)
    if trace.vote is None:
        return trace
    shown = shown_slots(trace.runs)
    slots = tuple(slot for slot in trace.vote.slots if slot in shown)
    return replace(trace, vote=replace(trace.vote, slots=slots))


def make_thumbnail(frame: Frame, number: str) -> Thumbnail:
    """Return a frame as the JPEG thumbnail of a trace.

    At most 224 pixels high and 1792 wide, and small enough to be read back.
    """
    from PIL import Image

    picture = Image.frombytes("RGB", (frame.width, frame.height), frame.rgb)
    scale = min(THUMBNAIL_HEIGHT / picture.height, MAX_SIDE / picture.width)
    if scale < 1:
        size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
        # `reducing_gap` averages whole pixels first: a tenth of the time, enough for 448 x 448.
        picture = picture.resize(size, Image.Resampling.BICUBIC, reducing_gap=1.0)
    # Grey noise at the largest size takes 305 KiB at the first quality, 172 KiB at the last.
    for quality in (82, 60, 30):
        buffer = io.BytesIO()
        picture.save(buffer, "JPEG", quality=quality)
        if buffer.tell() <= MAX_JPEG_BYTES:
            break
    times, jpeg = (frame.seconds, frame.until), buffer.getvalue()
    return Thumbnail(frame.ref, number, frame.index, *times, jpeg, frame.note)


def jpeg_size(data: bytes) -> tuple[int, int]:
    """Return (width, height) in pixels from a JPEG header, else (0, 0)."""
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        # `Image.open` raises and warns about large pictures, and may find several in one file.
        with JpegImageFile(io.BytesIO(data)) as picture:
            return picture.size
    except (OSError, ValueError, SyntaxError):
        return 0, 0


def seek_time(frame: Thumbnail) -> float:
    """Return seconds to the middle of its interval: browsers show the exact frame there."""
    return finite((frame.seconds + max(frame.seconds, frame.until)) / 2)


def timeline_position(frame: Thumbnail, clip: ClipInfo | None) -> float:
    """Return the frame's place in its clip, 0 to 1: equal places are one moment."""
    index = min(max(frame.index, 0), 2**31)
    frames = max(clip.frames if clip else 0, index + 1)
    return round((index + 0.5) / frames, 5)


def finite(seconds: float) -> float:
    """Return rounded seconds; 0 for what is no finite number."""
    return round(seconds, 5) if math.isfinite(seconds) else 0.0
