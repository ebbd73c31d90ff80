"""Known faults of a clip of 128 frames: which frames each damages, and how.

A fault knows nothing about what is drawn, so the same faults can be put into any video.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vrthinker_core.drawn.damage import DAMAGES, FAINTEST, REFERENCE_SIDE
from vrthinker_core.drawn.textures import Pixels

FRAMES = 128  # Frames of a clip, as many as a `paired` judge can ask for
OPENING_FRAMES = (16, 48, 80, 112)  # The frames that such a judge is shown before it asks for any
CLEAR = "clear"  # State of a frame without damage
PICTURE_FAULTS = (*DAMAGES, "flicker")  # A flicker makes runs of three frames dark or bright
COARSE = 16  # Frames between two of a coarse look
HINT = 4  # Frames that a freeze has lasted, at least, when a coarse look shows it
MOTION_FAULTS = ("jittery", "frozen", "jumpy")


@dataclass(frozen=True, slots=True)
class PictureFault:
    """Damage to the frames of a window: one of `PICTURE_FAULTS`."""

    kind: str
    window: range
    strength: float  # From damage.FAINTEST to 1 (obvious)
    seed: int  # Of the noise and the flicker
    grain: int = REFERENCE_SIDE  # Grains of the noise per side of the picture
    fade: int = 0  # Frames over which the damage grows at the window's start and falls at its end

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
        damaged = DAMAGES[state](picture, self.strength, rng, self.grain)
        inside = min(index - self.window.start, self.window.stop - 1 - index)
        if inside >= self.fade:
            return damaged
        # The outer ends of a window that fades have this share of the damage
        share = np.float32(0.35 + (1 - 0.35) * inside / self.fade)
        return (picture + (damaged.astype(np.float32) - picture) * share).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class MotionFault:
    """Damage to the motion in a window: one of `MOTION_FAULTS`."""

    kind: str
    window: range
    jump: float  # Share of the ground's width, or of the picture's if all of it moves
    seed: int  # Of the jitter
    strength: float = 1.0  # Of the jitter
    skip: float = 0.0  # How far a jump goes along the motion, as a share of the clip
    # Direction of the jump in radians, if the whole picture moves instead of the things
    turn: float | None = None

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """Return (time, sideways offset) of frame `index`; the clip takes time 0..1."""
        time = index / (FRAMES - 1)
        if index in self.window and self.kind == "frozen":
            return self.window.start / (FRAMES - 1), 0.0
        if index not in self.window or self.turn is not None:
            return time, 0.0
        if self.kind == "jumpy":
            return time + self.skip, self.jump
        rng = np.random.default_rng((self.seed, index))
        time += rng.uniform(-0.02, 0.02)
        return time, rng.choice([-1.0, 1.0]) * rng.uniform(0.11, 0.17) * self.strength

    def shift(self, index: int) -> tuple[float, float]:
        """Return how far frame `index` is shifted, right and down, in pictures."""
        if self.turn is None or self.kind == "frozen" or index not in self.window:
            return 0.0, 0.0
        if self.kind == "jumpy":
            return self.jump * float(np.cos(self.turn)), self.jump * float(np.sin(self.turn))
        sizes = np.random.default_rng((self.seed, index)).uniform(0.09, 0.14, 2) * self.strength
        back = np.random.default_rng((self.seed, 2, index)).random(2) < 0.5
        right, down = np.where(back, -sizes, sizes).tolist()
        return right, down


@dataclass(frozen=True, slots=True)
class FaultRanges:
    """The ranges that the faults of a world are drawn from."""

    faintest: float = FAINTEST  # Lowest strength of damage to the picture
    grains: tuple[int, ...] = (56, REFERENCE_SIDE, REFERENCE_SIDE, 224)
    fades: float = 1 / 3  # Share of windows in which the damage fades in and out
    jitter: tuple[float, float] = (0.6, 1.2)  # Its strength
    jump: tuple[float, float] = (0.16, 0.34)
    skips: float = 0.25  # Share of the jumps of things that go along the motion
    whole: float = 0.3  # Share of motion faults of things that move all of the picture
    # About these frames lie the windows that no opening frame shows, up to `reach` on either side
    middles: tuple[int, ...] = tuple(range(OPENING_FRAMES[0] + 8, OPENING_FRAMES[-1], 8))
    reach: tuple[int, int] = (1, 16)


def draw_picture_fault(rng: np.random.Generator, ranges: FaultRanges) -> PictureFault:
    """Return a random fault of the picture."""
    kind = str(rng.choice(PICTURE_FAULTS))
    strength, seed = rng.uniform(ranges.faintest, 1), int(rng.integers(1 << 30))
    grain = int(rng.choice(ranges.grains)) if kind == "noisy" else REFERENCE_SIDE
    if grain > REFERENCE_SIDE:
        strength += 1  # Such fine noise half fades when the picture is shrunk
    window = _draw_window(rng, kind, ranges)
    fades = len(window) < FRAMES and kind != "flicker" and rng.random() < ranges.fades
    fade = min(8, len(window) // 3) if fades else 0
    return PictureFault(kind, window, strength, seed, grain, fade)


def draw_motion_fault(
    rng: np.random.Generator, ranges: FaultRanges, *, whole: bool = False, freezes: bool = True
) -> MotionFault:
    """Return a random motion fault of the whole picture or its things.

    Without `freezes` the fault is no freeze.
    """
    kind = str(rng.choice(MOTION_FAULTS if freezes else ("jittery", "jumpy")))
    seed, strength = int(rng.integers(1 << 30)), rng.uniform(*ranges.jitter)
    turn = rng.uniform(0, 2 * math.pi) if whole else None
    jump, skip = rng.uniform(*ranges.jump), 0.0
    if not whole and rng.random() < ranges.skips:
        jump, skip = 0.0, float(rng.choice([-1, 1])) * rng.uniform(0.22, 0.36)
    window = _draw_window(rng, kind, ranges)
    return MotionFault(kind, window, jump, seed, strength, skip, turn)


def _draw_window(rng: np.random.Generator, kind: str, ranges: FaultRanges) -> range:
    """Return a random window.

    Half of the windows lie strictly between two opening frames, so that only a judge that asks for
    frames can know of them. A coarse look shows at least a hint of each fault:
    no further frame is needed for a fault without one. The other windows show in the opening
    frames. Half of those are the whole clip, except for the kinds that would not show then.
    """
    frozen = kind == "frozen"
    shortest, lead = (12, HINT) if frozen else (6, 0)
    hidden = rng.random() < 0.5
    while hidden:
        middle = int(rng.choice(ranges.middles))
        start = middle - int(rng.integers(*ranges.reach))
        stop = middle + int(rng.integers(*ranges.reach))
        inside = any(before < start and stop <= after for before, after in pairwise(OPENING_FRAMES))
        coarse = any(index % COARSE == 0 for index in range(start + lead, stop))
        if inside and stop - start >= shortest and coarse:
            return range(start, stop)
    if frozen:  # Shows only if two opening frames lie in the window
        k = int(rng.integers(3))
        start = OPENING_FRAMES[k] - int(rng.integers(12))
        return range(start, OPENING_FRAMES[k + 1] + int(rng.integers(2, 15)))
    if kind != "jumpy" and rng.random() < 0.5:
        return range(0, FRAMES)
    shown = int(rng.choice(OPENING_FRAMES))
    start = max(0, shown - int(rng.integers(2, 40)))
    return range(start, min(FRAMES, shown + int(rng.integers(4, 40))))
