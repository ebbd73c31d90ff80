"""Known faults of a clip of 128 frames: when each one holds, and what it does to the picture or to the motion.

A fault knows nothing about what is drawn, so the same faults can be put into any moving picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.textures import Pixels

FRAMES = 128
"""Frames of a clip, as many as a `paired` judge can ask for."""
FIRST_LOOK = (16, 48, 80, 112)
"""The frames such a judge is shown unasked."""
GRAIN = 112
"""The side at which the built-in judge sees a picture: damage is as coarse there as in a clip of any size."""
CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Window:
    """The frames from `start` up to, and without, `end`."""

    start: int
    end: int

    def __contains__(self, index: int) -> bool:
        """The frame lies in it."""
        return self.start <= index < self.end

    @property
    def hidden(self) -> bool:
        """It lies strictly between two neighbouring frames of the first look: who does not ask for frames cannot know."""
        return any(before < self.start and self.end <= after for before, after in pairwise(FIRST_LOOK))


@dataclass(frozen=True, slots=True)
class PictureFault:
    """Damage to the pictures: one of `PICTURE_FAULTS`, faint (0) to obvious (1)."""

    kind: str
    window: Window
    strength: float
    seed: int
    """Of its noise and its flicker."""

    def state(self, index: int) -> str:
        """What a frame looks like: "clear" or one of `DAMAGES`."""
        if index not in self.window:
            return CLEAR
        if self.kind != "flicker":
            return self.kind
        return "dark" if np.random.default_rng((self.seed, 0, index // 3)).random() < 0.5 else "bright"

    def apply(self, picture: Pixels, index: int) -> Pixels:
        """Frame `index` as it is with this fault; `picture` is RGB [h, w, 3] without it, and stays as it is."""
        state = self.state(index)
        if state == CLEAR:
            return picture
        return DAMAGES[state](picture, self.strength, np.random.default_rng((self.seed, 1, index)))


@dataclass(frozen=True, slots=True)
class MotionFault:
    """Damage to the motion: one of `MOTION_FAULTS`."""

    kind: str
    window: Window
    leap: float
    """How far a jump goes, as a share of the ground's width."""
    seed: int
    """Of its jitter."""

    def at(self, index: int) -> tuple[float, float]:
        """Where the motion stands in frame `index`: the time, 0..1 over the clip, and how far it is thrown sideways."""
        time = index / (FRAMES - 1)
        if index not in self.window:
            return time, 0.0
        if self.kind == "frozen":
            return self.window.start / (FRAMES - 1), 0.0
        if self.kind == "jumpy":
            return time, self.leap
        rng = np.random.default_rng((self.seed, index))
        return time + rng.uniform(-0.02, 0.02), rng.choice([-1.0, 1.0]) * rng.uniform(0.11, 0.17)


def draw_picture_fault(rng: np.random.Generator) -> PictureFault:
    """A random fault of the picture."""
    kind = str(rng.choice(PICTURE_FAULTS))
    return PictureFault(kind, _draw_window(rng, kind), rng.random(), int(rng.integers(1 << 30)))


def draw_motion_fault(rng: np.random.Generator) -> MotionFault:
    """A random fault of the motion."""
    kind = str(rng.choice(MOTION_FAULTS))
    return MotionFault(kind, _draw_window(rng, kind), rng.uniform(0.26, 0.34), int(rng.integers(1 << 30)))


def _draw_window(rng: np.random.Generator, kind: str) -> Window:
    """Half of the windows are hidden; the others show in the first look, where that is possible by the whole clip."""
    place = rng.random()
    if place < 0.5:
        middle = int(rng.choice([32, 64, 96]))
        return Window(middle - int(rng.integers(10, 16)), middle + int(rng.integers(9, 16)))
    if kind == "frozen":
        # Standing still shows only between two looks that both lie in it.
        k = int(rng.integers(3))
        return Window(FIRST_LOOK[k] - int(rng.integers(9)), FIRST_LOOK[k + 1] + int(rng.integers(4, 15)))
    if place < 0.75 and kind != "jumpy":
        return Window(0, FRAMES)
    look = int(rng.choice(FIRST_LOOK))
    return Window(max(0, look - int(rng.integers(9, 20))), min(FRAMES, look + int(rng.integers(10, 20))))


def _blurry(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(cv2.GaussianBlur(picture, (0, 0), (1.6 + 1.6 * strength) * picture.shape[1] / GRAIN))


def _noisy(picture: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Noise with grains of one pixel at GRAIN: finer ones would vanish before a judge sees them."""
    grains = rng.standard_normal((GRAIN, GRAIN, 3), np.float32) * np.float32(22 + 22 * strength)
    height, width = picture.shape[:2]
    return _pixels(picture + cv2.resize(grains, (width, height), interpolation=cv2.INTER_NEAREST))


def _blocky(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    blocks = 18 if strength < 0.5 else 14
    height, width = picture.shape[:2]
    small = cv2.resize(picture, (blocks, blocks), interpolation=cv2.INTER_AREA)
    return _pixels(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


def _dark(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(picture * np.float32(0.38 - 0.12 * strength))


def _bright(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(picture * np.float32(1.25 + 0.15 * strength) + 45)


def _banded(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    levels = 4 if strength < 0.5 else 3
    return _pixels(np.floor(picture * np.float32(levels / 256)) * np.float32(255 / (levels - 1)))


def _pixels(values: NDArray[Any]) -> Pixels:
    clipped: Pixels = np.clip(values, 0, 255).astype(np.uint8)
    return clipped


DAMAGES: dict[str, Callable[[Pixels, float, np.random.Generator], Pixels]] = {
    "blurry": _blurry,
    "noisy": _noisy,
    "blocky": _blocky,
    "dark": _dark,
    "bright": _bright,
    "banded": _banded,
}
PICTURE_FAULTS = (*DAMAGES, "flicker")
"""A flicker is dark and bright by turns."""
MOTION_FAULTS = ("jittery", "frozen", "jumpy")
