"""Frames of a drawn pair as a judge is shown them, without a video file in between."""

import hashlib
from collections.abc import Sequence

import numpy as np

from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.drawn.video_files import FRAME_RATE
from vrthinker_core.drawn.world import DrawnPair, SceneRenderer
from vrthinker_core.types import Frame, FrameRef, Side
from vrthinker_core.types.frames import Grid

EVERY_FRAME = Grid(FRAMES, "floor")  # As in `paired`: slot i is frame i


class DrawnFrames:
    """A `FrameSource` over both scenes of a pair that draws once."""

    def __init__(self, pair: DrawnPair, size: int = 112, grid: Grid = EVERY_FRAME) -> None:
        """Draw frames of `size` pixels a side; `grid` maps slots to frames."""
        self._pair, self._size, self._grid = pair, size, grid
        self._name = hashlib.sha256(repr(pair).encode()).hexdigest()[:16]
        self._renderers: dict[Side, SceneRenderer] = {}
        self._frames: dict[FrameRef, Frame] = {}

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """Return the frames of the refs, in their order."""
        for ref in refs:
            if ref in self._frames:
                continue
            side, size, index = ref.side, self._size, self._grid.index(ref.slot, FRAMES)
            if side not in self._renderers:
                scene, codec_noise = self._pair.scenes[side], self._pair.codec_noise
                self._renderers[side] = SceneRenderer(scene, size, codec_noise=codec_noise)
            pixels = np.ascontiguousarray(self._renderers[side].frame(index)).tobytes()
            key = f"drawn {self._name}:{int(side)}:{index}:{size}"
            times = index / FRAME_RATE, (index + 1) / FRAME_RATE
            self._frames[ref] = Frame(ref, index, *times, size, size, key, pixels)
        return tuple(self._frames[ref] for ref in refs)
