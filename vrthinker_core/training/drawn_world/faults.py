"""Known faults of a clip of 128 frames: which frames each one damages, and what it does to the picture or to the motion.

A fault knows nothing about what is drawn, so the same faults can be put into any video.
"""

from dataclasses import dataclass

import numpy as np

from vrthinker_core.training.drawn_world.rendering.damage import DAMAGES, REFERENCE_SIDE, add_noise
from vrthinker_core.training.drawn_world.rendering.textures import Pixels

FRAMES = 128  # Frames of a clip, as many as a `paired` judge can ask for
OPENING_FRAMES = (16, 48, 80, 112)  # The frames that such a judge is shown before it asks for any
CLEAR = "clear"  # State of a frame without damage
PICTURE_FAULTS = (*DAMAGES, "flicker")  # A flicker makes runs of three frames dark or bright at random
MOTION_FAULTS = ("jittery", "frozen", "jumpy")
FAINT_SHARE = 0.35  # Of the damage at the outer ends of a window that fades in and out


@dataclass(frozen=True, slots=True)
class PictureFault:
    """Damage to the frames of a window: one of `PICTURE_FAULTS`."""

    kind: str
    window: range
    strength: float  # From 0 (faint) to 1 (obvious) in the first world, from damage.FAINTEST in the second
    seed: int  # Of the noise and the flicker
    grain: int = REFERENCE_SIDE  # Grains of the noise per side of the picture
    fade: int = 0  # Frames over which the damage grows at the window's start and falls at its end

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
        rng = np.random.default_rng((self.seed, 1, index))
        if state == "noisy":
            damaged = add_noise(picture, self.strength, rng, self.grain)
        else:
            damaged = DAMAGES[state](picture, self.strength, rng)
        share = self._share(index)
        return damaged if share == 1 else (picture + (damaged.astype(np.float32) - picture) * np.float32(share)).astype(np.uint8)

    def _share(self, index: int) -> float:
        """How much of the damage frame `index` has, FAINT_SHARE to 1."""
        inside = min(index - self.window.start, self.window.stop - 1 - index)
        return FAINT_SHARE + (1 - FAINT_SHARE) * inside / self.fade if inside < self.fade else 1.0


@dataclass(frozen=True, slots=True)
class MotionFault:
    """Damage to the motion in a window: one of `MOTION_FAULTS`."""

    kind: str
    window: range
    jump: float  # How far a jump goes, as a share of the ground's width, or of the picture's where all of it moves
    seed: int  # Of the jitter
    strength: float = 1.0  # Of the jitter; it is 1 in the first world
    skip: float = 0.0  # How far a jump goes along the motion, as a share of the clip
    turn: float | None = None  # Where the whole picture moves, and not the things: towards where it jumps, radians

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """(time, offset) that frame `index` shows: the time runs 0..1 over the clip, the offset is sideways."""
        time = index / (FRAMES - 1)
        if index not in self.window:
            return time, 0.0
        if self.kind == "frozen":
            return self.window.start / (FRAMES - 1), 0.0
        if self.turn is not None:
            return time, 0.0
        if self.kind == "jumpy":
            return time + self.skip, self.jump
        rng = np.random.default_rng((self.seed, index))
        return time + rng.uniform(-0.02, 0.02), rng.choice([-1.0, 1.0]) * rng.uniform(0.11, 0.17) * self.strength

    def shift(self, index: int) -> tuple[float, float]:
        """How far all of frame `index` is shifted, rightwards and downwards, as shares of the picture."""
        if self.turn is None or self.kind == "frozen" or index not in self.window:
            return 0.0, 0.0
        if self.kind == "jumpy":
            return self.jump * float(np.cos(self.turn)), self.jump * float(np.sin(self.turn))
        right, down = np.random.default_rng((self.seed, index)).uniform(0.09, 0.14, 2) * self.strength
        left, up = np.random.default_rng((self.seed, 2, index)).random(2) < 0.5
        return float(-right if left else right), float(-down if up else down)


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
