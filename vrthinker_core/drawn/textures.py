"""Textures of the grounds, made of value noise, in eight variants each."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.facts import GROUNDS

Reals = NDArray[np.floating[Any]]
Pixels = NDArray[np.uint8]
# (rng, coarse noise, fine noise) -> RGB [SIDE, SIDE, 3], about 0..1
Pattern = Callable[[np.random.Generator, Reals, Reals], Reals]

EXTENT = 9.0  # World units that one texture covers per side
SIDE = 768  # Pixels of a texture per side
VARIANTS = 8  # Different textures of one ground


@lru_cache(maxsize=40)  # All that exist, 1.8 MB each
def texture(ground: str, variant: int) -> Pixels:
    """Return one variant (0..VARIANTS-1) of a ground: RGB [SIDE, SIDE, 3], read-only.

    Raises `KeyError` for another ground.
    """
    pattern, rng = PATTERNS[ground], np.random.default_rng([GROUNDS.index(ground), variant])
    coarse, fine = _value_noise(rng, 6), _value_noise(rng, 7, 0.75, 16)
    colour = pattern(rng, coarse, fine) * rng.uniform(0.9, 1.1, 3)
    levels: Pixels = (np.clip(colour, 0.02, 1) * 255).astype(np.uint8)
    levels.setflags(write=False)
    return levels


def _value_noise(
    rng: np.random.Generator, octaves: int, persistence: float = 0.55, coarsest: int = 4
) -> Reals:
    """Return value noise, [SIDE, SIDE] in 0..1.

    The first octave has `coarsest` random values a side. Each next octave has twice as many,
    `persistence` times as high.
    """
    total = np.zeros((SIDE, SIDE), np.float32)
    for octave in range(octaves):
        cells = min(coarsest << octave, SIDE)
        values = rng.random((cells, cells), np.float32)
        noise = cv2.resize(values, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        total += np.float32(persistence**octave) * noise
    return _normalized(total)


def _normalized(values: Reals) -> Reals:
    return np.asarray((values - values.min()) / np.ptp(values))


def _axes(times: int) -> tuple[Reals, Reals]:
    """Return columns and rows, [SIDE, SIDE] each, from 0 to `times`."""
    line = np.linspace(0, times, SIDE, dtype=np.float32)
    across, down = np.meshgrid(line, line)
    return across, down


def _wood(rng: np.random.Generator, _: Reals, fine: Reals) -> Reals:
    """Nine planks, each with its own tint and shifted grain."""
    _, row = _axes(9)
    along = cv2.resize(_value_noise(rng, 6, 0.6)[:, : SIDE // 10], (SIDE, SIDE))
    plank = rng.random(10).astype(np.float32)[row.astype(int)]
    rings = 0.5 + 0.5 * np.sin(row * (60 / 9) + along * 9 + plank * 40)
    grain = 0.55 * along + 0.25 * rings + 0.2 * fine
    light = (0.55 + 0.75 * grain) * (0.8 + 0.35 * plank)
    colour: Reals = np.array([0.42, 0.25, 0.13]) * light[..., None]
    colour[np.abs(row % 1 - 0.5) > 0.485] *= 0.35
    return colour


def _tiles(rng: np.random.Generator, _: Reals, fine: Reals) -> Reals:
    """A chequerboard of twelve by twelve with grey joints."""
    column, row = _axes(12)
    base = rng.uniform(0.35, 0.6, 3)
    odd = (column.astype(int) + row.astype(int)) % 2 == 1
    colour: Reals = base * (np.where(odd, 1.35, 0.7) * (0.85 + 0.3 * fine))[..., None]
    colour[(np.abs(column % 1 - 0.5) > 0.475) | (np.abs(row % 1 - 0.5) > 0.475)] = 0.25
    return colour


def _grass(rng: np.random.Generator, coarse: Reals, _: Reals) -> Reals:
    """Short upright streaks, lighter and darker in patches."""
    dots = cv2.GaussianBlur(rng.random((SIDE, SIDE), np.float32), (0, 0), 0.8, sigmaY=2.2)
    blades = _normalized(np.asarray(dots, np.float32))
    red, green = 0.12 + 0.25 * blades + 0.1 * coarse, 0.28 + 0.34 * blades + 0.12 * coarse
    return np.stack([red, green, 0.06 + 0.12 * blades], -1)


def _sand(_: object, coarse: Reals, fine: Reals) -> Reals:
    """Ripples bent by the coarse noise."""
    _, row = _axes(110)
    ripples = 0.5 + 0.5 * np.sin(row + coarse * 16)
    return np.array([0.72, 0.58, 0.38]) * (0.72 + 0.22 * ripples + 0.2 * fine)[..., None]


def _marble(_: object, coarse: Reals, fine: Reals) -> Reals:
    """Pale stone with thin dark veins."""
    column, row = _axes(1)
    vein = (1 - np.abs(np.sin((column * 5 + row * 3 + coarse * 5) * 3.1))) ** 6
    stone = np.array([0.78, 0.78, 0.8]) * (0.85 + 0.2 * fine)[..., None]
    colour: Reals = stone - vein[..., None] * np.array([0.42, 0.4, 0.36])
    return colour


PATTERNS: dict[str, Pattern] = {
    "wood": _wood,
    "tiles": _tiles,
    "grass": _grass,
    "sand": _sand,
    "marble": _marble,
}
