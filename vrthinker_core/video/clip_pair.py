"""Both clips of a comparison: opened at the same time, each by a worker process of its own, and read as one source of frames."""

from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Frame, FrameRef, Side, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.video import Clip, DecoderPool, FramePlan, open_clip


def submit_opening(pair: VideoPair, layout: FrameLayout, decoders: DecoderPool, pool: Executor) -> list[Future[Clip]]:
    """Start to open the first clip and the second. The caller must pass each future to `close_clip`."""
    sides = ((Side.FIRST, Path(pair.first)), (Side.SECOND, Path(pair.second)))
    return [pool.submit(open_clip, path, side, frame_plan(layout, side), decoders=decoders) for side, path in sides]


def frame_plan(layout: FrameLayout, side: Side) -> FramePlan:
    """What the layout asks of one of the two videos."""
    first = frozenset(ref.slot for ref in layout.opening_refs if ref.side is side)
    return FramePlan(layout.grid, layout.opening, layout.later, first)


def opened_clips(opening: Sequence[Future[Clip]]) -> tuple[Clip | None, Clip | None, VrThinkerError | None]:
    """Wait for both clips; None for one that cannot be opened, and the first error."""
    clips: list[Clip | None] = []
    first_error: VrThinkerError | None = None
    for side, future in zip(Side, opening, strict=True):
        try:
            clips.append(future.result())
        except VrThinkerError as error:
            clips.append(None)
            first_error = first_error or type(error)(f"Video {int(side)}: {error}")
    return clips[0], clips[1], first_error


def close_clip(opening: Future[Clip]) -> None:
    """Close a clip that was opened, or is being opened. Waits for the latter."""
    if not opening.cancel() and opening.exception() is None:
        opening.result().close()


def frame_source(clips: tuple[Clip, Clip]) -> FrameSource:
    """Reads frames of both clips, in the order of the references. Both worker processes decode at the same time.

    The first clip gives the frames of the first side, whichever side it was opened for.
    """

    def frames(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        slots_by_side = [[ref.slot for ref in refs if ref.side is side] for side in Side]
        with ThreadPoolExecutor(len(clips)) as pool:
            frames_by_side = pool.map(lambda clip, slots: clip.frames(slots), clips, slots_by_side)
            found = {
                (ref := FrameRef(frame.ref.slot, side)): frame if frame.ref == ref else replace(frame, ref=ref)
                for side, frames in zip(Side, frames_by_side, strict=True)
                for frame in frames
            }
        return tuple(found[ref] for ref in refs)

    return frames
