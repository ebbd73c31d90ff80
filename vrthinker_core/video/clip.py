"""The clips of a comparison, each decoded in a worker process of its own.

If a file crashes or hangs the decoder, only its comparison fails.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from pathlib import Path

from vrthinker_core.errors import DecoderDied, VideoError, VideoUnavailable, VrThinkerError
from vrthinker_core.types import ClipInfo, Frame, FrameRef, Side, VideoPair
from vrthinker_core.types.frames import FramePlan, FrameSource, ReadMode
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video.files import open_local, shown_name
from vrthinker_core.video.limits import Limits
from vrthinker_core.video.process import DecoderPool, Header, Worker, start_worker

POLL_SECONDS = 0.1  # between two checks for cancellation, while videos open and decode


@dataclass(eq=False)
class Clip(contextlib.AbstractContextManager["Clip"]):
    """A clip that one thread opens and any thread reads or closes.

    Close it, or use it in a `with` statement. `decoders` starts the worker process, after a wait
    for a free slot; without a pool, a fresh process starts at once.
    """

    path: Path
    side: Side
    plan: FramePlan | None  # None: the clip is only measured
    _: KW_ONLY
    limits: Limits = field(default_factory=Limits)
    read_mode: ReadMode = "auto"  # of an open clip "whole" or "seek"
    decoders: DecoderPool | None = None
    info: ClipInfo = field(init=False, repr=False)  # of an open clip, with health notes
    pid: int = field(init=False, repr=False)  # process id of the worker
    share: float = field(default=0.0, init=False)  # reported part of the opening, 0 to 1

    def __post_init__(self) -> None:
        self._name = shown_name(self.path)
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._failure = ""
        self._worker: Worker | None = None

    def open(self) -> Clip:
        """Open the clip and return it.

        Raises `VideoError` with one sentence about the file, also if closed meanwhile, and
        `DecoderDied` if the worker crashed, hung or passed its limits.
        """
        open_local(self.path).close()
        settings = {"limits": asdict(self.limits), "read_mode": self.read_mode}
        plan = self.plan and asdict(self.plan)
        request = {"path": str(self.path.resolve()), "side": self.side, "plan": plan}
        pool = self.decoders
        with pool.opening_slot(self._closed.is_set) if pool else contextlib.nullcontext():
            worker = self._worker = pool.start_worker() if pool else start_worker()
            self.pid = worker.process.pid
            weakref.finalize(self, worker.end)
            try:
                if self._closed.is_set():  # before there was a worker to end
                    self.close()
                deque(self._request(request | settings), maxlen=0)
            except BaseException:
                self.close()
                raise
        return self

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
        assert self.plan is not None, "a measured clip gives no frames"
        if not all(0 <= slot < self.plan.grid.slots for slot in slots):
            raise ValueError(f"slots run from 0 to {self.plan.grid.slots - 1}, not {list(slots)}")
        missing = set(slots)
        for frame in self._request({"slots": sorted(missing)}) if slots else ():
            missing.discard(frame.ref.slot)
            yield frame
            del frame  # frees the pixels before the next frame arrives
        if missing:
            raise VideoError(f"{self._name}: the decoder left frames out.")

    def close(self) -> None:
        """Kill the worker process, even while it opens or decodes; idempotent."""
        self._closed.set()
        if self._worker is not None:
            self._worker.end()
            with self._lock:  # no other thread reads from the connection then
                self._worker.connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, request: Header) -> Iterator[Frame]:
        """Send one request, yield the frames of its responses, update `info`."""
        with self._lock:
            if self._failure:
                raise DecoderDied(self._failure)
            worker = self._worker
            assert worker is not None, "open the clip first"
            try:
                for header, payload in worker.request(request, self.limits.wall_seconds):
                    yield from self._read_response(header, payload)
            except (EOFError, OSError, ValueError, TypeError, KeyError):
                if self._closed.is_set():
                    raise VideoError(f"{self._name} was closed.") from None
                self._failure = f"{self._name}: {worker.cause_of_death(self.limits)}."
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
            self.share = share
        else:
            frame = dict(header["frame"])
            slots = frame.pop("slots")
            if len(payload) != frame["width"] * frame["height"] * 3:
                raise ValueError("a frame of another size than announced")
            yield from (Frame(FrameRef(slot, self.side), rgb=payload, **frame) for slot in slots)


class PairOpening:
    """Both clips while threads open them; close it after use."""

    def __init__(
        self,
        pair: VideoPair,
        plan: FramePlan | None,
        decoders: DecoderPool | None,
        executor: Executor,
        kind: type[Clip] = Clip,
    ) -> None:
        """Start to open both clips in threads of `executor`."""
        self._clips = [
            kind(Path(path), side, plan, decoders=decoders)
            for side, path in zip(Side, (pair.first, pair.second), strict=True)
        ]
        self._futures = [executor.submit(clip.open) for clip in self._clips]
        self._shares = 0.0, 0.0  # as returned last
        self._closed = False

    def next_shares(self, cancelled: Cancelled) -> tuple[float, float] | None:
        """Wait for progress of a slow clip; return both shares.

        A share is 0 to 1. Returns None if both clips are open or failed. If `cancelled`, closes
        both clips and returns None.
        """
        while wait(self._futures, POLL_SECONDS).not_done:
            if cancelled():
                self.close()
                return None
            first, second = (
                1.0 if future.done() else clip.share
                for clip, future in zip(self._clips, self._futures, strict=True)
            )
            shares = first, second
            if shares != self._shares and any(0 < share < 1 for share in shares):
                self._shares = shares
                return shares
        return None

    def clips(self) -> tuple[Clip | None, Clip | None, VrThinkerError | None]:
        """Wait for both clips; return them and the first error.

        A clip that cannot be opened is None. After `close`, all three are None.
        """
        if self._closed:
            return None, None, None
        clips: list[Clip | None] = []
        failed: dict[Side, VrThinkerError] = {}
        for side, future in zip(Side, self._futures, strict=True):
            try:
                clips.append(future.result())
            except VrThinkerError as error:
                clips.append(None)
                failed[side] = type(error)(f"Video {int(side)}: {error}")
        return clips[0], clips[1], _first_error(failed)

    def close(self) -> None:
        """Close both clips, open or not, and wait for their threads; idempotent."""
        self._closed = True
        for clip in self._clips:
            clip.close()
        for future in self._futures:
            if not future.cancel():
                future.exception()


def _first_error(failed: Mapping[Side, VrThinkerError]) -> VrThinkerError | None:
    """Return the first error, its `sides` naming all unreadable videos.

    A `VideoUnavailable` file may be readable later, so its side is left out.
    """
    first = next(iter(failed.values()), None)
    if isinstance(first, VideoError):
        first.sides = tuple(
            side
            for side, error in failed.items()
            if isinstance(error, VideoError) and not isinstance(error, VideoUnavailable)
        )
    return first


def frame_source(clips: tuple[Clip, Clip], cancelled: Cancelled = lambda: False) -> FrameSource:
    """Return a function that reads frames of both clips by reference.

    Frames come in the order of the references. Both worker processes decode at the same time.
    The first clip gives the frames of the first side, whichever side it was opened for.
    If `cancelled`, the function closes both clips while they decode and raises `VideoError`.
    """

    def frames(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        executor = ThreadPoolExecutor(len(clips))
        futures = {
            side: executor.submit(clip.frames, [ref.slot for ref in refs if ref.side is side])
            for side, clip in zip(Side, clips, strict=True)
        }
        executor.shutdown(wait=False)  # threads end when decoding ends or the clips close
        while wait(futures.values(), POLL_SECONDS).not_done:
            if cancelled():
                for clip in clips:
                    clip.close()
        errors = {side: future.exception() for side, future in futures.items()}
        failed = {side: each for side, each in errors.items() if isinstance(each, VideoError)}
        if error := _first_error(failed):
            raise error
        found = {side: iter(future.result()) for side, future in futures.items()}
        return tuple(replace(next(found[ref.side]), ref=ref) for ref in refs)

    return frames
