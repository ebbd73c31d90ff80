"""Frames of a drawn pair as a judge is shown them, without a video file in between."""

import hashlib
from collections.abc import Sequence

import numpy as np

from vrthinker_core.training.drawn_world.scenes import DrawnPair, SceneRenderer
from vrthinker_core.training.drawn_world.video_files import FRAME_RATE
from vrthinker_core.types import Frame, FrameRef, Side


class DrawnFrames:
    """A `FrameSource` over both scenes of a pair; a frame is drawn once."""

    def __init__(self, pair: DrawnPair, size: int = 112) -> None:
        """`size`: pixels per side of a frame."""
        self._pair, self._size = pair, size
        self._name = hashlib.sha256(repr(pair).encode()).hexdigest()[:16]
        self._renderers: dict[Side, SceneRenderer] = {}
        self._frames: dict[FrameRef, Frame] = {}

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs, in their order; slot i is frame i."""
        return tuple(self._frames.get(ref) or self._draw(ref) for ref in refs)

    def _draw(self, ref: FrameRef) -> Frame:
        if ref.side not in self._renderers:
            self._renderers[ref.side] = SceneRenderer(self._pair.scenes[ref.side], self._size, wear=self._pair.wear)
        pixels = np.ascontiguousarray(self._renderers[ref.side].frame(ref.slot))
        key = f"drawn {self._name}:{int(ref.side)}:{ref.slot}:{self._size}"
        times = ref.slot / FRAME_RATE, (ref.slot + 1) / FRAME_RATE
        self._frames[ref] = frame = Frame(ref, ref.slot, *times, self._size, self._size, key, pixels.tobytes())
        return frame
