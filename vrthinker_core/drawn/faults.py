"""Known faults of a clip of 128 frames: which frames each damages, and how.

A fault knows nothing about what is drawn, so the same faults can be put into any video.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.textures import Pixels

FRAMES = 128  # Frames of a clip, as many as a `paired` judge can ask for
OPENING_FRAMES = (16, 48, 80, 112)  # The frames that such a judge is shown before it asks for any
REFERENCE_SIDE = 112
"""Pixels per side at which the built-in judge sees a picture. Damage scales with the picture."""


def _blurry(picture: Pixels, strength: float, _: object) -> Pixels:
    sigma = (1.6 + 1.6 * strength) * picture.shape[1] / REFERENCE_SIDE
    return _pixels(cv2.GaussianBlur(picture, (0, 0), sigma))


def _noisy(picture: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    shape = REFERENCE_SIDE, REFERENCE_SIDE, 3  # Finer noise fades when a judge sees it smaller
    grains = rng.standard_normal(shape, np.float32) * np.float32(22 + 22 * strength)
    height, width = picture.shape[:2]
    return _pixels(picture + cv2.resize(grains, (width, height), interpolation=cv2.INTER_NEAREST))


def _blocky(picture: Pixels, strength: float, _: object) -> Pixels:
    blocks = 18 if strength < 0.5 else 14
    height, width = picture.shape[:2]
    small = cv2.resize(picture, (blocks, blocks), interpolation=cv2.INTER_AREA)
    return _pixels(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


def _dark(picture: Pixels, strength: float, _: object) -> Pixels:
    return _pixels(picture * np.float32(0.38 - 0.12 * strength))


def _bright(picture: Pixels, strength: float, _: object) -> Pixels:
    return _pixels(picture * np.float32(1.25 + 0.15 * strength) + 45)


def _banded(picture: Pixels, strength: float, _: object) -> Pixels:
    levels = 4 if strength < 0.5 else 3
    return _pixels(np.floor(picture * np.float32(levels / 256)) * np.float32(255 / (levels - 1)))


def _pixels(values: NDArray[Any]) -> Pixels:
    clipped: Pixels = np.clip(values, 0, 255).astype(np.uint8)
    return clipped


# Each takes picture, strength and random numbers
DAMAGES: dict[str, Callable[[Pixels, float, np.random.Generator], Pixels]] = {
    "blurry": _blurry,
    "noisy": _noisy,
    "blocky": _blocky,
    "dark": _dark,
    "bright": _bright,
    "banded": _banded,
}
CLEAR = "clear"  # State of a frame without damage
PICTURE_FAULTS = (*DAMAGES, "flicker")  # A flicker makes runs of three frames dark or bright
MOTION_FAULTS = ("jittery", "frozen", "jumpy")


@dataclass(frozen=True, slots=True)
class PictureFault:
    """Damage to the frames of a window: one of `PICTURE_FAULTS`."""

    kind: str
    window: range
    strength: float  # From 0 to 1 (obvious)
    seed: int  # Of the noise and the flicker

    def state(self, index: int) -> str:
        """Return the state of frame `index`: "clear" or one of `DAMAGES`."""
        if index not in self.window:
            return CLEAR
        if self.kind != "flicker":
            return self.kind
        dark = np.random.default_rng((self.seed, 0, index // 3)).random() < 0.5
        return "dark" if dark else "bright"

    def apply(self, picture: Pixels, index: int) -> Pixels:
        """Return frame `index` with this fault.

        `picture`, RGB [h, w, 3], is not changed.
        """
        if (state := self.state(index)) == CLEAR:
            return picture
        rng = np.random.default_rng((self.seed, 1, index))
        return DAMAGES[state](picture, self.strength, rng)


@dataclass(frozen=True, slots=True)
class MotionFault:
    """Damage to the motion in a window: one of `MOTION_FAULTS`."""

    kind: str
    window: range
    jump: float  # Share of the ground's width
    seed: int  # Of the jitter

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """Return (time, sideways offset) of frame `index`; the clip takes time 0..1."""
        time = index / (FRAMES - 1)
        if index not in self.window:
            return time, 0.0
        if self.kind == "frozen":
            return self.window.start / (FRAMES - 1), 0.0
        if self.kind == "jumpy":
            return time, self.jump
        rng = np.random.default_rng((self.seed, index))
        time += rng.uniform(-0.02, 0.02)
        return time, rng.choice([-1.0, 1.0]) * rng.uniform(0.11, 0.17)


def skip(rng: np.random.Generator, count: int = 1) -> None:
    """Skip random numbers that earlier versions used, so that seeds keep their pairs."""
    rng.random(count)


def draw_picture_fault(rng: np.random.Generator) -> PictureFault:
    """Return a random fault of the picture."""
    kind = str(rng.choice(PICTURE_FAULTS))
    strength, seed = rng.random(), int(rng.integers(1 << 30))
    window = _draw_window(rng, kind)
    if len(window) < FRAMES and kind != "flicker":
        skip(rng)
    return PictureFault(kind, window, strength, seed)


def draw_motion_fault(rng: np.random.Generator) -> MotionFault:
    """Return a random fault of the motion."""
    skip(rng)
    kind, seed = str(rng.choice(MOTION_FAULTS)), int(rng.integers(1 << 30))
    skip(rng)
    jump = rng.uniform(0.26, 0.34)
    skip(rng)
    return MotionFault(kind, _draw_window(rng, kind), jump, seed)


def _draw_window(rng: np.random.Generator, kind: str) -> range:
    """Return a random window.

    Half of the windows lie strictly between two opening frames and hold the middle of them, so that
    only a judge that asks for frames can know of them. The other windows show in the opening
    frames. Half of those are the whole clip, except for the kinds that would not show then.
    """
    if rng.random() < 0.5:
        middle = int(rng.choice((32, 64, 96)))
        start = middle - int(rng.integers(9, 16))
        return range(start, middle + int(rng.integers(9, 16)))
    if kind == "frozen":  # Shows only if two opening frames lie in the window
        k = int(rng.integers(3))
        start = OPENING_FRAMES[k] - int(rng.integers(12))
        return range(start, OPENING_FRAMES[k + 1] + int(rng.integers(2, 15)))
    if kind != "jumpy" and rng.random() < 0.5:
        return range(0, FRAMES)
    shown = int(rng.choice(OPENING_FRAMES))
    start = max(0, shown - int(rng.integers(2, 40)))
    return range(start, min(FRAMES, shown + int(rng.integers(4, 40))))
