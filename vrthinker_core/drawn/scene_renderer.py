"""Draws the frames of a scene."""

import cv2
import numpy as np

from vrthinker_core.drawn.moving_scene import Scene
from vrthinker_core.drawn.photographs import FlatRenderer
from vrthinker_core.drawn.renderer import Renderer
from vrthinker_core.drawn.textures import Pixels
from vrthinker_core.drawn.wear import Wear


class SceneRenderer:
    """A scene ready to be drawn at one size: the ground is drawn once, then any frame in any order."""

    def __init__(
        self, scene: Scene, size: int, supersample: int = 1, wear: Wear | None = None
    ) -> None:
        """Draw the ground, `size` pixels a side. Edges of solids get `supersample` x `supersample` samples a pixel."""
        self.scene, self._wear, self._shown = scene, wear, size
        self._size = size = wear.drawn if wear else size
        self._renderer = Renderer(scene.background, size, supersample) if scene.background else None
        self._flat = FlatRenderer(scene.view, size) if scene.view else None

    def frame(self, index: int) -> Pixels:
        """Frame `index` (0..127) of the clip: RGB [size, size, 3]."""
        return (
            self._wear.apply(self._drawn, index, self._shown) if self._wear else self._drawn(index)
        )

    def _drawn(self, index: int) -> Pixels:
        pixels = self._shifted(self._clean(index), index)
        return self.scene.picture_fault.apply(pixels, index) if self.scene.picture_fault else pixels

    def _clean(self, index: int) -> Pixels:
        if self._renderer is not None:
            return self._renderer.render(self.scene.solids(index))
        assert self._flat is not None
        return self._flat.render(*self.scene.time_and_offset(index))

    def _shifted(self, pixels: Pixels, index: int) -> Pixels:
        """The picture moved as the scene says; what comes into view is the mirror image of what is beside it."""
        right, down = self.scene.shift(index)
        if not (right or down):
            return pixels
        matrix = np.array([[1, 0, right * self._size], [0, 1, down * self._size]], np.float32)
        return np.asarray(
            cv2.warpAffine(pixels, matrix, (self._size, self._size), borderMode=cv2.BORDER_REFLECT),
            np.uint8,
        )
