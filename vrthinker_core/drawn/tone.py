"""The tone of a picture: contrast, light, colour and sharpness of cameras and films, none of which is damage."""

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.textures import Pixels
from vrthinker_core.drawn.wear import REFERENCE_SIDE

AS_IT_IS, FLAT = (
    1 / 3,
    0.4,
)  # Shares of pictures whose tone is left alone, and of the others that look as if they were drawn
SOFT_LEVELS, HARD_LEVELS = (90, 205), (45, 155)
"""Display levels of the mean of pictures of less contrast and of more: beyond them one would look damaged."""
_GREY = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True, slots=True)
class Tone:
    """What is done to the pixels of a picture."""

    mean: float  # Display level about which the contrast grows or falls
    contrast: float  # Factor; much of it clips the brightest and the darkest, as films do
    saturation: float  # Factor, from 0 (grey)
    sharpness: float  # How much of what a slight blur would take away is added
    flatness: float = (
        0.0  # Display levels of detail that is smoothed away within edges, as in animation
    )

    def apply(self, picture: Pixels, grain: float) -> Pixels:
        """The picture RGB [h, w, 3] in this tone. `grain`: pixels of a side of what is seen at once."""
        pixels: NDArray[Any] = picture.astype(np.float32)
        if self.flatness:
            pixels = cv2.bilateralFilter(pixels, 5, self.flatness, 2.0)
        blurred = cv2.GaussianBlur(pixels, (0, 0), grain / REFERENCE_SIDE)
        pixels = pixels + np.float32(self.sharpness) * (pixels - blurred)
        grey = (pixels @ _GREY)[..., None]
        pixels = grey + np.float32(self.saturation) * (pixels - grey)
        toned: Pixels = np.clip(
            (pixels - pixels.mean()) * np.float32(self.contrast) + np.float32(self.mean), 0, 255
        ).astype(np.uint8)
        return toned


def draw_tone(rng: np.random.Generator) -> Tone | None:
    """A random tone; None leaves the picture as it is."""
    if rng.random() < AS_IT_IS:
        return None
    contrast = math.exp(rng.uniform(-0.5, 0.9))
    levels = HARD_LEVELS if contrast > 1 else SOFT_LEVELS
    saturation, sharpness = rng.uniform(0.0, 2.6), max(0.0, rng.uniform(-0.7, 1.5))
    flatness = rng.uniform(20, 120) if rng.random() < FLAT else 0.0
    return Tone(rng.uniform(*levels), contrast, saturation, sharpness, flatness)
