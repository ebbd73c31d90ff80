"""An opened clip, decoded in a worker process.

If a file crashes or hangs the decoder, only its comparison fails.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path

from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.types import ClipInfo, Frame, FrameRef, Side
from vrthinker_core.types.frames import FramePlan, ReadMode
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import Limits
from vrthinker_core.video.process import DecoderPool, Header, start_worker


@dataclass(eq=False)
class ClipOpening:
    """A clip that one thread opens for a comparison; others read its progress or abort.

    The `read_mode` "auto" chooses by the length of the clip. `decoders` starts the worker process,
    after a wait for a free slot; without a pool, a fresh process starts at once.
    """

    path: Path
    side: Side
    plan: FramePlan
    _: KW_ONLY
    limits: Limits = field(default_factory=Limits)
    read_mode: ReadMode = "auto"
    decoders: DecoderPool | None = None
    _clip: Clip | None = field(default=None, init=False)
    _broken_off: threading.Event = field(default_factory=threading.Event, init=False)

    @property
    def share(self) -> float:
        """Share of the opening that the worker has reported, 0 to 1."""
        return self._clip.opened_share if self._clip else 0.0

    def open(self) -> Clip:
        """Open the clip.

        Raises `VideoError` with one sentence about the file, also if aborted, and `DecoderDied` if
        the worker crashed, hung or passed its limits.
        """
        open_local(self.path).close()
        request = {
            "path": str(self.path.resolve()),
            "plan": asdict(self.plan) | {"first": list(self.plan.first)},
            "limits": asdict(self.limits),
            "read_mode": self.read_mode,
        }
        decoders, broken_off = self.decoders, self._broken_off.is_set
        with decoders.opening_slot(broken_off) if decoders else contextlib.nullcontext():
            slots = self.plan.grid.slots
            clip = self._clip = Clip(self.path, self.side, slots, self.limits, decoders)
            try:
                if broken_off():
                    clip.close()
                deque(clip._request(request), maxlen=0)
            except BaseException:
                clip.close()
                raise
        return clip

    def break_off(self) -> None:
        """Kill the worker process; `open` then raises `VideoError`."""
        self._broken_off.set()
        # Without a clip yet, `open` checks the event right after it has made one.
        if self._clip is not None:
            self._clip.close()


class Clip(contextlib.AbstractContextManager["Clip"]):
    """An opened, thread-safe clip; close it, or use `with`."""

    info: ClipInfo  # with health notes
    read_mode: ReadMode  # "whole" or "seek", never "auto"

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
        self._worker = decoders.start_worker() if decoders else start_worker()
        self._end = weakref.finalize(self, self._worker.end)
        self.opened_share = 0.0  # 0 to 1

    @property
    def pid(self) -> int:
        """Process id of the worker."""
        return self._worker.process.pid

    def frames(self, slots: Sequence[int]) -> tuple[Frame, ...]:
        """Return the frames of `slots`, in the same order.

        Raises `VideoError`, `DecoderDied`, and `ValueError` if a number is not a slot.
        """
        found = {frame.ref.slot: frame for frame in self.stream(slots)}
        return tuple(found[slot] for slot in slots)

    def stream(self, slots: Sequence[int]) -> Iterator[Frame]:
        """Yield the frames of `slots` as they are decoded, in any order.

        If timestamps prove wrong, a slot may come twice; the last frame counts.
        Leaving the iteration early closes the clip. Raises the same errors as `frames`.
        """
        if not all(0 <= slot < self._slots for slot in slots):
            raise ValueError(f"slots run from 0 to {self._slots - 1}, not {list(slots)}")
        missing = set(slots)
        for frame in self._request({"slots": sorted(missing)}) if slots else ():
            missing.discard(frame.ref.slot)
            yield frame
            del frame  # frees the pixels before the next frame arrives
        if missing:
            raise VideoError(f"{self._name}: the decoder left frames out.")

    def close(self) -> None:
        """Kill the worker process, even while it decodes; idempotent."""
        self._end()
        with self._lock:  # no other thread reads from the connection then
            self._worker.connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, request: Header) -> Iterator[Frame]:
        """Send one request, yield the frames of its responses, update `info`."""
        with self._lock:
            if self._failure is not None:
                raise DecoderDied(self._failure)
            if not self._end.alive:
                raise VideoError(f"{self._name} was closed.")
            try:
                for header, payload in self._worker.request(request, self._limits.wall_seconds):
                    yield from self._read_response(header, payload)
            except (EOFError, OSError, ValueError, TypeError, KeyError):
                if not self._end.alive:
                    raise VideoError(f"{self._name} was closed.") from None
                self._failure = f"{self._name}: {self._worker.cause_of_death(self._limits)}."
                self.close()
                raise DecoderDied(self._failure) from None
            except GeneratorExit:
                # Unread responses would be taken for the answer to the next request.
                self.close()
                raise

    def _read_response(self, header: Header, payload: bytes) -> Iterator[Frame]:
        """Check a response of a process that decodes hostile files."""
        if header["done"]:
            info = header["info"]
            self.info = ClipInfo(**(info | {"notes": tuple(info["notes"])}))
            self.read_mode = header["read_mode"]
        elif "share" in header:
            share = header["share"]
            if not isinstance(share, float) or not 0 <= share <= 1:
                raise ValueError("no share of the work")
            self.opened_share = share
        else:
            frame = dict(header["frame"])
            slots = frame.pop("slots")
            if len(payload) != frame["width"] * frame["height"] * 3:
                raise ValueError("a frame of another size than announced")
            yield from (Frame(FrameRef(slot, self._side), rgb=payload, **frame) for slot in slots)
