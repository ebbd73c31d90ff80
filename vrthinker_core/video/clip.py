"""An opened clip. A worker process decodes it: a file that crashes or hangs the decoder fails one comparison and nothing else."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.types import ClipInfo, Frame, FrameRef, Side
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.frames.plan import FramePlan, ReadMode
from vrthinker_core.video.limits import DEFAULT, Limits
from vrthinker_core.video.processes.pool import DecoderPool
from vrthinker_core.video.processes.process import CLIP_WORKER, start_worker
from vrthinker_core.video.worker_io import Header


def open_clip(
    path: Path,
    side: Side,
    plan: FramePlan,
    *,
    limits: Limits = DEFAULT,
    read_mode: ReadMode = "auto",
    decoders: DecoderPool | None = None,
) -> Clip:
    """Open a video file for one comparison.

    `read_mode` is chosen by the length of the clip unless it is forced. `decoders` starts the worker process, and may make this
    wait until there is room to open a clip; without it a fresh process is started at once. Raises VideoError with one sentence
    about the file, DecoderDied when the worker crashed, hung or passed its limits.
    """
    return ClipOpening(
        path, side, plan, limits=limits, read_mode=read_mode, decoders=decoders
    ).open()


class ClipOpening:
    """A clip that one thread opens, while others see how far it has come, and may break it off."""

    def __init__(
        self,
        path: Path,
        side: Side,
        plan: FramePlan,
        *,
        limits: Limits = DEFAULT,
        read_mode: ReadMode = "auto",
        decoders: DecoderPool | None = None,
    ) -> None:
        """As `open_clip`, which opens it at once."""
        self._path, self._side, self._plan = path, side, plan
        self._limits, self._read_mode, self._decoders = limits, read_mode, decoders
        self._clip: Clip | None = None
        self._broken_off = threading.Event()

    @property
    def share(self) -> float:
        """The share of the work that is done, 0 to 1, as far as the worker process has told."""
        return self._clip.opened_share if self._clip else 0.0

    def open(self) -> Clip:
        """Open the clip. Raises as `open_clip` does; VideoError, too, when the opening was broken off."""
        open_local(self._path).close()
        sent_plan = asdict(self._plan) | {"first": list(self._plan.first)}
        request = {
            "path": str(self._path.resolve()),
            "plan": sent_plan,
            "limits": asdict(self._limits),
        }
        decoders, broken_off = self._decoders, self._broken_off.is_set
        with decoders.opening_slot(broken_off) if decoders else contextlib.nullcontext():
            clip = self._clip = Clip(
                self._path, self._side, self._plan.grid.slots, self._limits, decoders
            )
            try:
                if broken_off():
                    clip.close()
                deque(clip._request(request | {"read_mode": self._read_mode}), maxlen=0)
            except BaseException:
                clip.close()
                raise
        return clip

    def break_off(self) -> None:
        """End the worker process in the middle of its work: `open` raises VideoError soon."""
        self._broken_off.set()
        if (
            self._clip is not None
        ):  # else `open` sees the event: it looks after it has made the clip
            self._clip.close()


class Clip(contextlib.AbstractContextManager["Clip"]):
    """An opened clip. Close it, or use it in a `with` statement. Safe for threads."""

    info: ClipInfo  # what is known about the file, health notes included
    read_mode: ReadMode  # how frames are found: "whole" or "seek", never "auto"

    def __init__(
        self,
        path: Path,
        side: Side,
        slots: int,
        limits: Limits,
        decoders: DecoderPool | None = None,
    ) -> None:
        self._name = shown_name(path)
        self._side = side
        self._slots = slots
        self._limits = limits
        self._lock = threading.RLock()
        self._failure: str | None = None
        self._worker = decoders.start_worker() if decoders else start_worker(CLIP_WORKER)
        self._end = weakref.finalize(self, self._worker.end)
        self.opened_share = 0.0  # of the opening, 0 to 1

    @property
    def pid(self) -> int:
        """The number of the worker process."""
        return self._worker.process.pid

    def frames(self, slots: Sequence[int]) -> tuple[Frame, ...]:
        """The frames of `slots`, in the same order. Raises VideoError, DecoderDied; ValueError for a number that is no slot."""
        found = {frame.ref.slot: frame for frame in self.stream(slots)}
        return tuple(found[slot] for slot in slots)

    def stream(self, slots: Sequence[int]) -> Iterator[Frame]:
        """As `frames`, each when it is decoded, in any order; where timestamps prove wrong, one may come again: the last counts.

        Whoever does not read it to its end closes the clip.
        """
        if not all(0 <= slot < self._slots for slot in slots):
            raise ValueError(f"slots run from 0 to {self._slots - 1}, not {list(slots)}")
        missing = set(slots)
        for frame in self._request({"slots": sorted(missing)}) if slots else ():
            missing.discard(frame.ref.slot)
            yield frame
            del frame  # before the next one is received
        if missing:
            raise VideoError(f"{self._name}: the decoder left frames out.")

    def close(self) -> None:
        """Kill the worker process, also in the middle of its work. May be called again."""
        self._end()
        with self._lock:  # a thread that reads from the connection has left it then
            self._worker.connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, request: Header) -> Iterator[Frame]:
        """Send one request and yield the frames of the responses; updates what is known about the clip."""
        with self._lock:
            if self._failure is not None:
                raise DecoderDied(self._failure)
            if not self._end.alive:
                raise VideoError(f"{self._name} was closed.")
            try:
                yield from self._responses(request)
            except (EOFError, OSError, ValueError, TypeError, KeyError):
                raise self._death_error() from None
            except (
                GeneratorExit
            ):  # what is still to come would be taken for the answer to the next request
                self.close()
                raise

    def _responses(self, request: Header) -> Iterator[Frame]:
        for header, payload in self._worker.request(request, self._limits.wall_seconds):
            if header["done"]:
                info = header["info"]
                self.info = ClipInfo(**(info | {"notes": tuple(info["notes"])}))
                self.read_mode = header["read_mode"]
            elif "share" in header:
                self.opened_share = _checked_share(header["share"])
            else:
                frame = dict(header["frame"])
                slots = frame.pop("slots")
                if len(payload) != frame["width"] * frame["height"] * 3:
                    raise ValueError("a frame of another size than announced")
                yield from (
                    Frame(FrameRef(slot, self._side), rgb=payload, **frame) for slot in slots
                )

    def _death_error(self) -> VideoError:
        if not self._end.alive:
            return VideoError(f"{self._name} was closed.")
        self._failure = f"{self._name}: {self._worker.cause_of_death(self._limits)}."
        self.close()
        return DecoderDied(self._failure)


def _checked_share(share: object) -> float:
    """The process that sends it decodes hostile files. Raises ValueError for what is no share."""
    if not isinstance(share, float) or not 0 <= share <= 1:
        raise ValueError("no share of the work")
    return share
