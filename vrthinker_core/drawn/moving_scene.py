"""A scene: all facts of one clip, where its solid is, how it moves; and its renderer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from vrthinker_core.drawn.facts import SceneFacts
from vrthinker_core.drawn.faults import CLEAR, FRAMES, MotionFault, PictureFault
from vrthinker_core.drawn.renderer import Background, Camera, Renderer
from vrthinker_core.drawn.solids import BOUNDS, Solid
from vrthinker_core.drawn.textures import Pixels

# World units that the ground's coordinates 0..1 cover, sideways and towards the camera
WIDTH, DEPTH = 5.2, 6.4


@dataclass(frozen=True, slots=True)
class Scene:
    """A clip of a solid that moves on a ground."""

    facts: SceneFacts
    background: Background
    moving: Solid  # As it stands at the clip's start, but in the middle of the ground
    spin: float  # How far it rotates during the clip, radians
    # Its first position: ground coordinates, 0..1 rightwards and towards the camera
    start: tuple[float, float]
    travel: tuple[float, float]  # During the clip, in the ground's coordinates
    still: tuple[Solid, ...] = ()  # Solids at the back that do not move
    picture_fault: PictureFault | None = field(default=None, kw_only=True)
    motion_fault: MotionFault | None = field(default=None, kw_only=True)

    def position(self, index: int) -> tuple[float, float]:
        """Return the solid's middle in frame `index`, in ground coordinates."""
        time, sideways = self.time_and_offset(index)
        x, y = (at + time * length for at, length in zip(self.start, self.travel, strict=True))
        return (x, y + sideways) if self.travel[0] else (x + sideways, y)

    def solids(self, index: int) -> tuple[Solid, ...]:
        """Return all solids of frame `index`, as they stand there."""
        return (*self.still, self._moved(index))

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """Return (time, sideways offset) of frame `index`; the clip takes time 0..1."""
        if self.motion_fault:
            return self.motion_fault.time_and_offset(index)
        return index / (FRAMES - 1), 0.0

    def picture_state(self, index: int) -> str:
        """Return the state of frame `index`: "clear" or one of the damages."""
        return self.picture_fault.state(index) if self.picture_fault else CLEAR

    def place(self, index: int) -> tuple[float, float] | None:
        """Return the solid's middle in the picture, 0..1 rightwards and downwards.

        None if it has left the picture.
        """
        if self.visible_share(index) < 0.1:
            return None
        solid = self._moved(index)
        # Most of a cone is near the ground
        height = (0.32 if solid.shape == "cone" else 0.5) * BOUNDS[solid.shape][1] * solid.size
        middle = np.array([(solid.x, height, solid.z)], np.float32)
        x, y = self._camera().project(middle)[0].tolist()
        return x, y

    def visible_share(self, index: int) -> float:
        """Estimate the share of the solid that is in the picture.

        It counts as an ellipse; points spread evenly over it are tested.
        """
        corners = self._camera().project(self._moved(index).corners)
        low, high = corners.min(0), corners.max(0)
        # A solid covers less than the box of all its rotations
        middle, half = (low + high) / 2, (high - low) / 2 * np.float32(0.85)
        points = middle + _DISC * half
        return float(((points >= 0) & (points <= 1)).all(-1).mean())

    def _moved(self, index: int) -> Solid:
        """Return the solid as it stands in frame `index`."""
        x, y = self.position(index)
        turned = self.spin * self.time_and_offset(index)[0]
        x, z = (x - 0.5) * WIDTH, (y - 0.55) * DEPTH
        return replace(self.moving, x=x, z=z, rotation=self.moving.rotation + turned)

    def _camera(self) -> Camera:
        return _camera_at(self.background.yaw, self.background.pitch, 1)


_camera_at = lru_cache(maxsize=64)(Camera)  # Computes the axes of each once


_LINE = np.linspace(-0.9, 0.9, 7)
_GRID = np.stack(np.meshgrid(_LINE, _LINE), -1).reshape(-1, 2)
_DISC = _GRID[(_GRID**2).sum(-1) <= 1]  # Points spread evenly over a disc of radius 1


class SceneRenderer:
    """A scene at one size, drawn frame by frame in any order."""

    def __init__(self, scene: Scene, size: int, supersample: int = 1) -> None:
        """Draw the ground once, `size` pixels a side.

        Edges of solids get `supersample` x `supersample` samples a pixel.
        """
        self._scene = scene
        self._renderer = Renderer(scene.background, size, supersample)

    def frame(self, index: int) -> Pixels:
        """Return frame `index` (0..127) of the clip: RGB [size, size, 3]."""
        pixels, fault = self._renderer.render(self._scene.solids(index)), self._scene.picture_fault
        return fault.apply(pixels, index) if fault else pixels
