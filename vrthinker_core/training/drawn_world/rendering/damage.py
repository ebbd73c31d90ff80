"""What damage does to a picture: blur, noise, blocks, darkness, brightness, bands."""

from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.rendering.textures import Pixels

REFERENCE_SIDE = 112
"""Pixels per side at which the built-in judge sees a picture: damage is as coarse there as in a clip of any size."""
FAINTEST = -0.5  # The lowest strength of damage; plain faults run from 0 to 1


def _blurry(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(
        cv2.GaussianBlur(
            picture, (0, 0), (1.6 + 1.6 * strength) * picture.shape[1] / REFERENCE_SIDE
        )
    )


def add_noise(
    picture: Pixels, strength: float, rng: np.random.Generator, grain: int = REFERENCE_SIDE
) -> Pixels:
    """Noise with `grain` grains a side. What is finer than REFERENCE_SIDE fades when the picture is shrunk for the judge."""
    grains = rng.standard_normal((grain, grain, 3), np.float32) * np.float32(22 + 22 * strength)
    height, width = picture.shape[:2]
    fitting = cv2.INTER_NEAREST if grain <= min(height, width) else cv2.INTER_AREA
    return _pixels(picture + cv2.resize(grains, (width, height), interpolation=fitting))


def _blocky(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    blocks = 26 if strength < 0 else 18 if strength < 0.5 else 14
    height, width = picture.shape[:2]
    small = cv2.resize(picture, (blocks, blocks), interpolation=cv2.INTER_AREA)
    return _pixels(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


def _dark(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(picture * np.float32(0.38 - 0.12 * strength))


def _bright(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(picture * np.float32(1.25 + 0.15 * strength) + 45 + 30 * min(strength, 0))


def _banded(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    levels = 5 if strength < 0 else 4 if strength < 0.5 else 3
    return _pixels(np.floor(picture * np.float32(levels / 256)) * np.float32(255 / (levels - 1)))


def _pixels(values: NDArray[Any]) -> Pixels:
    clipped: Pixels = np.clip(values, 0, 255).astype(np.uint8)
    return clipped


Damage = Callable[[Pixels, float, np.random.Generator], Pixels]
DAMAGES: dict[str, Damage] = {
    "blurry": _blurry,
    "noisy": add_noise,
    "blocky": _blocky,
    "dark": _dark,
    "bright": _bright,
    "banded": _banded,
}
