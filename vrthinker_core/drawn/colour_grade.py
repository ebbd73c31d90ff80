"""The tone of a picture: contrast, light, colour and sharpness of cameras, without damage."""

import math
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.damage import REFERENCE_SIDE
from vrthinker_core.drawn.textures import Pixels

_GREY = np.array([0.299, 0.587, 0.114], np.float32)


@dataclass(frozen=True, slots=True)
class ColourGrade:
    """What is done to the pixels of a picture."""

    mean: float  # Display level about which the contrast grows or falls
    contrast: float  # Factor; much of it clips the brightest and the darkest, as films do
    saturation: float  # Factor, from 0 (grey)
    sharpness: float  # How much of what a slight blur would take away is added
    flatness: float = 0.0  # Display levels of detail smoothed away within edges, as in animation

    def apply(self, picture: Pixels, grain: float) -> Pixels:
        """Return the picture RGB [h, w, 3] in this tone.

        `grain` is the pixels of a side of what is seen at once.
        """
        pixels: NDArray[Any] = picture.astype(np.float32)
        if self.flatness:
            pixels = cv2.bilateralFilter(pixels, 5, self.flatness, 2.0)
        blurred = cv2.GaussianBlur(pixels, (0, 0), grain / REFERENCE_SIDE)
        pixels = pixels + np.float32(self.sharpness) * (pixels - blurred)
        grey = (pixels @ _GREY)[..., None]
        pixels = grey + np.float32(self.saturation) * (pixels - grey)
        pixels = (pixels - pixels.mean()) * np.float32(self.contrast) + np.float32(self.mean)
        return np.asarray(np.clip(pixels, 0, 255).astype(np.uint8))


def draw_colour_grade(rng: np.random.Generator) -> ColourGrade | None:
    """Return a random tone, None to leave the picture as it is."""
    if rng.random() < 1 / 3:
        return None
    contrast = math.exp(rng.uniform(-0.5, 0.9))
    # Beyond these means a picture of much or of little contrast would look damaged
    levels = (45, 155) if contrast > 1 else (90, 205)
    saturation, sharpness = rng.uniform(0.0, 2.6), max(0.0, rng.uniform(-0.7, 1.5))
    flatness = rng.uniform(20, 120) if rng.random() < 0.4 else 0.0
    return ColourGrade(rng.uniform(*levels), contrast, saturation, sharpness, flatness)
