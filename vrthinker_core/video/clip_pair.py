"""Both clips of a comparison, each decoded by its own worker process.

The clips open at the same time and are read as one source of frames.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from copy import copy
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import VideoError, VideoUnavailable, VrThinkerError
from vrthinker_core.types import Frame, FrameRef, Side, VideoPair
from vrthinker_core.types.frames import FrameLayout, FramePlan, FrameSource
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video.clip import Clip, ClipOpening
from vrthinker_core.video.process import DecoderPool

POLL_SECONDS = 0.1  # between two checks for cancellation, while videos open and decode


def frame_plan(layout: FrameLayout, side: Side) -> FramePlan:
    """Return the frame plan of one of the two videos."""
    first = frozenset(ref.slot for ref in layout.opening_refs if ref.side is side)
    return FramePlan(layout.grid, layout.opening, layout.later, first)


class PairOpening:
    """Both clips while threads open them; close it after use."""

    def __init__(
        self, pair: VideoPair, layout: FrameLayout, decoders: DecoderPool, executor: Executor
    ) -> None:
        """Start to open both clips in threads of `executor`."""
        sides = ((Side.FIRST, Path(pair.first)), (Side.SECOND, Path(pair.second)))
        self._openings = [
            ClipOpening(path, side, frame_plan(layout, side), decoders=decoders)
            for side, path in sides
        ]
        self._futures = [executor.submit(opening.open) for opening in self._openings]
        self._shares = 0.0, 0.0  # as returned last
        self._closed = False

    def swapped(self) -> "PairOpening":
        """Return the same opening with the second clip first."""
        other = copy(self)
        other._openings, other._futures = self._openings[::-1], self._futures[::-1]
        return other

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
                1.0 if future.done() else opening.share
                for opening, future in zip(self._openings, self._futures, strict=True)
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
                failed[side] = error
        named = {side: type(error)(f"Video {int(side)}: {error}") for side, error in failed.items()}
        return clips[0], clips[1], _first_error(named)

    def close(self) -> None:
        """Close open clips and abort the others; idempotent."""
        self._closed = True
        for opening in self._openings:
            opening.break_off()
        for future in self._futures:
            if not future.cancel() and future.exception() is None:
                future.result().close()


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
        found: dict[FrameRef, Frame] = {}
        for side, future in futures.items():
            for frame in future.result():
                ref = FrameRef(frame.ref.slot, side)
                found[ref] = frame if frame.ref == ref else replace(frame, ref=ref)
        return tuple(found[ref] for ref in refs)

    return frames
