"""Both clips of a comparison: opened at the same time, each by a worker process of its own, and read as one source of frames."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from copy import copy
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import VideoError, VideoUnavailable, VrThinkerError
from vrthinker_core.types import Frame, FrameRef, Side, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video.clip import Clip, ClipOpening
from vrthinker_core.video.frames.plan import FramePlan
from vrthinker_core.video.processes.pool import DecoderPool

POLL_SECONDS = 0.1  # between two looks whether the run was cancelled, while its videos are being opened and decoded


def frame_plan(layout: FrameLayout, side: Side) -> FramePlan:
    """What the layout asks of one of the two videos."""
    first = frozenset(ref.slot for ref in layout.opening_refs if ref.side is side)
    return FramePlan(layout.grid, layout.opening, layout.later, first)


class PairOpening:
    """Both clips while they are being opened, each in a thread. Whoever makes one closes it."""

    def __init__(
        self, pair: VideoPair, layout: FrameLayout, decoders: DecoderPool, executor: Executor
    ) -> None:
        """Begins to open the first clip and the second, in threads of `executor`."""
        sides = ((Side.FIRST, Path(pair.first)), (Side.SECOND, Path(pair.second)))
        self._openings = [
            ClipOpening(path, side, frame_plan(layout, side), decoders=decoders)
            for side, path in sides
        ]
        self._futures = [executor.submit(opening.open) for opening in self._openings]
        self._shares = 0.0, 0.0  # As they were told last
        self._closed = False

    def swapped(self) -> "PairOpening":
        """The same clips, the second one first."""
        other = copy(self)
        other._openings, other._futures = self._openings[::-1], self._futures[::-1]
        return other

    def next_shares(self, cancelled: Cancelled) -> tuple[float, float] | None:
        """Wait until more has been read of a clip that takes long; gives how much of each has been, 0 to 1.

        None when both are open or refused. Once `cancelled`, both are closed.
        """
        while wait(self._futures, POLL_SECONDS).not_done:
            if cancelled():
                self.close()
                return None
            if (shares := self._read_so_far()) != self._shares and any(
                0 < share < 1 for share in shares
            ):
                self._shares = shares
                return shares
        return None

    def _read_so_far(self) -> tuple[float, float]:
        first, second = (
            1.0 if future.done() else opening.share
            for opening, future in zip(self._openings, self._futures, strict=True)
        )
        return first, second

    def clips(self) -> tuple[Clip | None, Clip | None, VrThinkerError | None]:
        """Wait for both clips; None for one that cannot be opened, and the first error. Once closed, neither and no error."""
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
        """Close what is open, and break off what is still being opened. May be called again."""
        self._closed = True
        for opening in self._openings:
            opening.break_off()
        for future in self._futures:
            if not future.cancel() and future.exception() is None:
                future.result().close()


def _first_error(failed: Mapping[Side, VrThinkerError]) -> VrThinkerError | None:
    """The first error, with the sides of all videos that cannot be read; a file that may be read later is none of them."""
    first = next(iter(failed.values()), None)
    if isinstance(first, VideoError):
        unreadable = (side for side, error in failed.items() if isinstance(error, VideoError))
        first.sides = tuple(
            side for side in unreadable if not isinstance(failed[side], VideoUnavailable)
        )
    return first


def frame_source(clips: tuple[Clip, Clip], cancelled: Cancelled = lambda: False) -> FrameSource:
    """Reads frames of both clips, in the order of the references. Both worker processes decode at the same time.

    The first clip gives the frames of the first side, whichever side it was opened for. Once `cancelled`, both clips are closed in
    the middle of their work, and VideoError is raised.
    """

    def frames(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        slots_by_side = [[ref.slot for ref in refs if ref.side is side] for side in Side]
        executor = ThreadPoolExecutor(len(clips))
        futures = [
            executor.submit(clip.frames, slots)
            for clip, slots in zip(clips, slots_by_side, strict=True)
        ]
        executor.shutdown(wait=False)  # its threads end with what they do, or with the clips
        while wait(futures, POLL_SECONDS).not_done:
            if cancelled():
                for clip in clips:
                    clip.close()
        by_side = dict(zip(Side, futures, strict=True))
        if error := _first_error(
            {
                side: e
                for side, future in by_side.items()
                if isinstance(e := future.exception(), VideoError)
            }
        ):
            raise error
        found = {
            (ref := FrameRef(frame.ref.slot, side)): frame
            if frame.ref == ref
            else replace(frame, ref=ref)
            for side, future in by_side.items()
            for frame in future.result()
        }
        return tuple(found[ref] for ref in refs)

    return frames
