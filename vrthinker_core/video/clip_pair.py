"""Both clips of a comparison: opened side by side, each in a process of its own, and asked for frames as one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Frame, FrameRef, Side, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.video import Clip, DecoderPool, FramePlan, open_clip


def submit_opening(pair: VideoPair, layout: FrameLayout, decoders: DecoderPool, pool: Executor) -> list[Future[Clip]]:
    """Open the first clip and the second, as `layout` says. Whoever asks for it must `close_opened` each."""
    sides = ((Side.FIRST, Path(pair.first)), (Side.SECOND, Path(pair.second)))
    return [pool.submit(_open_one, path, side, layout, decoders) for side, path in sides]


def opened_clips(opening: Sequence[Future[Clip]]) -> tuple[Clip | None, Clip | None, VrThinkerError | None]:
    """Both clips, once they are open; the first error, if any, beside what could be opened."""
    found: list[Clip | None] = []
    trouble: VrThinkerError | None = None
    for side, future in zip(Side, opening, strict=True):
        try:
            found.append(future.result())
        except VrThinkerError as error:
            found.append(None)
            trouble = trouble or type(error)(f"Video {int(side)}: {error}")
    return found[0], found[1], trouble


def close_clip(opening: Future[Clip]) -> None:
    """Close a clip that was opened, or is being opened."""
    if not opening.cancel() and opening.exception() is None:
        opening.result().close()


def frame_source(clips: tuple[Clip, Clip]) -> FrameSource:
    """Frames of both clips, in the order they are asked for. Both processes work at the same time."""

    def frames(refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        wanted = [[ref.slot for ref in refs if ref.side is side] for side in Side]
        with ThreadPoolExecutor(len(clips)) as pool:
            both = pool.map(lambda clip, slots: clip.frames(slots), clips, wanted)
            found = {frame.ref: frame for frames in both for frame in frames}
        return tuple(found[ref] for ref in refs)

    return frames


def _open_one(path: Path, side: Side, layout: FrameLayout, decoders: DecoderPool) -> Clip:
    first = frozenset(ref.slot for ref in layout.opening_refs if ref.side is side)
    return open_clip(path, side, FramePlan(layout.grid, layout.opening, layout.later, first), decoders=decoders)
