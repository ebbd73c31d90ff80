"""Known faults of a clip of 128 frames: which frames each one damages, and what it does to the picture or to the motion.

A fault knows nothing about what is drawn, so the same faults can be put into any video.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.rendering.textures import Pixels

FRAMES = 128  # Frames of a clip, as many as a `paired` judge can ask for
OPENING_FRAMES = (16, 48, 80, 112)  # The frames that such a judge is shown before it asks for any
REFERENCE_SIDE = 112
"""Pixels per side at which the built-in judge sees a picture: damage is as coarse there as in a clip of any size."""
CLEAR = "clear"  # State of a frame without damage


@dataclass(frozen=True, slots=True)
class PictureFault:
    """Damage to the frames of a window: one of `PICTURE_FAULTS`."""

    kind: str
    window: range
    strength: float  # From 0 (faint) to 1 (obvious)
    seed: int  # Of the noise and the flicker

    def state(self, index: int) -> str:
        """What happens to frame `index`: "clear" (nothing) or one of `DAMAGES`."""
        if index not in self.window:
            return CLEAR
        if self.kind != "flicker":
            return self.kind
        return "dark" if np.random.default_rng((self.seed, 0, index // 3)).random() < 0.5 else "bright"

    def apply(self, picture: Pixels, index: int) -> Pixels:
        """Frame `index` with this fault; `picture` is the frame without it, RGB [h, w, 3], and is not changed."""
        state = self.state(index)
        if state == CLEAR:
            return picture
        return DAMAGES[state](picture, self.strength, np.random.default_rng((self.seed, 1, index)))


@dataclass(frozen=True, slots=True)
class MotionFault:
    """Damage to the motion in a window: one of `MOTION_FAULTS`."""

    kind: str
    window: range
    jump: float  # How far a jump goes, as a share of the ground's width
    seed: int  # Of the jitter

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """(time, offset) that frame `index` shows: the time runs 0..1 over the clip, the offset is sideways."""
        time = index / (FRAMES - 1)
        if index not in self.window:
            return time, 0.0
        if self.kind == "frozen":
            return self.window.start / (FRAMES - 1), 0.0
        if self.kind == "jumpy":
            return time, self.jump
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


def _draw_window(rng: np.random.Generator, kind: str) -> range:
    """A random window. Half of them lie strictly between two opening frames, so only a judge that asks for frames can know of them.

    The others hold at least one opening frame; half of those are the whole clip, except for the kinds that would not show then.
    """
    position = rng.random()
    if position < 0.5:
        middle = int(rng.choice([32, 64, 96]))
        return range(middle - int(rng.integers(10, 16)), middle + int(rng.integers(9, 16)))
    if kind == "frozen":
        # Standing still shows only where two opening frames lie in the window.
        k = int(rng.integers(3))
        return range(OPENING_FRAMES[k] - int(rng.integers(9)), OPENING_FRAMES[k + 1] + int(rng.integers(4, 15)))
    if position < 0.75 and kind != "jumpy":
        return range(0, FRAMES)
    shown = int(rng.choice(OPENING_FRAMES))
    return range(max(0, shown - int(rng.integers(9, 20))), min(FRAMES, shown + int(rng.integers(10, 20))))


def _blurry(picture: Pixels, strength: float, _: np.random.Generator) -> Pixels:
    return _pixels(cv2.GaussianBlur(picture, (0, 0), (1.6 + 1.6 * strength) * picture.shape[1] / REFERENCE_SIDE))


def _noisy(picture: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Noise with grains of one pixel at REFERENCE_SIDE: finer grains would vanish when the picture is shrunk for the judge."""
    grains = rng.standard_normal((REFERENCE_SIDE, REFERENCE_SIDE, 3), np.float32) * np.float32(22 + 22 * strength)
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


Damage = Callable[[Pixels, float, np.random.Generator], Pixels]
DAMAGES: dict[str, Damage] = {
    "blurry": _blurry,
    "noisy": _noisy,
    "blocky": _blocky,
    "dark": _dark,
    "bright": _bright,
    "banded": _banded,
}
PICTURE_FAULTS = (*DAMAGES, "flicker")  # A flicker makes runs of three frames dark or bright at random
MOTION_FAULTS = ("jittery", "frozen", "jumpy")
