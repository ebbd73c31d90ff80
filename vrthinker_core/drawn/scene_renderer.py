"""The renderer of a scene."""

import cv2
import numpy as np

from vrthinker_core.drawn.damage import CodecNoise
from vrthinker_core.drawn.moving_scene import Scene
from vrthinker_core.drawn.photographs import FlatRenderer
from vrthinker_core.drawn.renderer import Renderer
from vrthinker_core.drawn.textures import Pixels


class SceneRenderer:
    """A scene at one size, drawn frame by frame in any order."""

    def __init__(
        self, scene: Scene, size: int, supersample: int = 1, codec_noise: CodecNoise | None = None
    ) -> None:
        """Draw the ground once, `size` pixels a side.

        Edges of solids get `supersample` x `supersample` samples a pixel.
        """
        self.scene, self._codec_noise, self._shown = scene, codec_noise, size
        self._size = size = codec_noise.drawn if codec_noise else size
        self._renderer = Renderer(scene.background, size, supersample) if scene.background else None
        self._flat = FlatRenderer(scene.view, size) if scene.view else None

    def frame(self, index: int) -> Pixels:
        """Return frame `index` (0..127) of the clip: RGB [size, size, 3]."""
        if self._codec_noise:
            return self._codec_noise.apply(self._drawn, index, self._shown)
        return self._drawn(index)

    def _drawn(self, index: int) -> Pixels:
        if self._renderer is not None:
            pixels = self._renderer.render(self.scene.solids(index))
        else:
            assert self._flat is not None
            pixels = self._flat.render(*self.scene.time_and_offset(index))
        right, down = self.scene.shift(index)
        if right or down:  # What comes into view is the mirror image of what is beside it
            size, border = (self._size, self._size), cv2.BORDER_REFLECT
            matrix = np.array([[1, 0, right * self._size], [0, 1, down * self._size]], np.float32)
            pixels = np.asarray(cv2.warpAffine(pixels, matrix, size, borderMode=border), np.uint8)
        return self.scene.picture_fault.apply(pixels, index) if self.scene.picture_fault else pixels
