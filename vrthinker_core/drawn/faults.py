"""Known faults of a clip of 128 frames: which frames each one damages, and what it does to the picture or to the motion.

A fault knows nothing about what is drawn, so the same faults can be put into any video.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vrthinker_core.drawn.textures import Pixels
from vrthinker_core.drawn.wear import DAMAGES, FAINTEST, REFERENCE_SIDE, add_noise

FRAMES = 128  # Frames of a clip, as many as a `paired` judge can ask for
OPENING_FRAMES = (16, 48, 80, 112)  # The frames that such a judge is shown before it asks for any
CLEAR = "clear"  # State of a frame without damage
PICTURE_FAULTS = (
    *DAMAGES,
    "flicker",
)  # A flicker makes runs of three frames dark or bright at random
MOTION_FAULTS = ("jittery", "frozen", "jumpy")
FAINT_SHARE = 0.35  # Of the damage at the outer ends of a window that fades in and out
COARSE = 16  # Frames between two of a coarse look
HINT = 4  # Frames that a freeze has lasted, at least, when a coarse look shows it: fewer leave no trace
BETWEEN = tuple(
    range(OPENING_FRAMES[0] + 8, OPENING_FRAMES[-1], 8)
)  # Every eighth frame within the opening


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
        """What happens to frame `index`: "clear" (nothing) or one of `DAMAGES`."""
        if index not in self.window:
            return CLEAR
        if self.kind != "flicker":
            return self.kind
        return (
            "dark" if np.random.default_rng((self.seed, 0, index // 3)).random() < 0.5 else "bright"
        )

    def apply(self, picture: Pixels, index: int) -> Pixels:
        """Frame `index` with this fault; `picture` is the frame without it, RGB [h, w, 3], and is not changed."""
        state = self.state(index)
        if state == CLEAR:
            return picture
        rng = np.random.default_rng((self.seed, 1, index))
        damaged = (
            add_noise(picture, self.strength, rng, self.grain)
            if state == "noisy"
            else DAMAGES[state](picture, self.strength, rng)
        )
        share = self._share(index)
        return (
            damaged
            if share == 1
            else (picture + (damaged.astype(np.float32) - picture) * np.float32(share)).astype(
                np.uint8
            )
        )

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
    strength: float = 1.0  # Of the jitter
    skip: float = 0.0  # How far a jump goes along the motion, as a share of the clip
    turn: float | None = (
        None  # Where the whole picture moves, and not the things: towards where it jumps, radians
    )

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
        return time + rng.uniform(-0.02, 0.02), rng.choice([-1.0, 1.0]) * rng.uniform(
            0.11, 0.17
        ) * self.strength

    def shift(self, index: int) -> tuple[float, float]:
        """How far all of frame `index` is shifted, rightwards and downwards, as shares of the picture."""
        if self.turn is None or self.kind == "frozen" or index not in self.window:
            return 0.0, 0.0
        if self.kind == "jumpy":
            return self.jump * float(np.cos(self.turn)), self.jump * float(np.sin(self.turn))
        right, down = (
            np.random.default_rng((self.seed, index)).uniform(0.09, 0.14, 2) * self.strength
        )
        left, up = np.random.default_rng((self.seed, 2, index)).random(2) < 0.5
        return float(-right if left else right), float(-down if up else down)


@dataclass(frozen=True, slots=True)
class FaultRanges:
    """How faint, short and various the faults of a world are."""

    faintest: float = FAINTEST  # Lowest strength of damage to the picture
    grains: tuple[int, ...] = (
        REFERENCE_SIDE // 2,
        REFERENCE_SIDE,
        REFERENCE_SIDE,
        2 * REFERENCE_SIDE,
    )
    fades: float = 1 / 3  # Share of windows in which the damage fades in and out
    jitter: tuple[float, float] = (0.6, 1.2)  # Its strength
    jump: tuple[float, float] = (0.16, 0.34)
    skips: float = 0.25  # Share of the jumps of things that go along the motion
    whole: float = 0.3  # Share of motion faults of things that move all of the picture
    middles: tuple[int, ...] = (
        BETWEEN  # About these frames lie the windows that no opening frame shows
    )
    reach: tuple[int, int] = (1, 16)  # How far such a window reaches to either side of its middle


def draw_picture_fault(rng: np.random.Generator, ranges: FaultRanges) -> PictureFault:
    """A random fault of the picture."""
    kind = str(rng.choice(PICTURE_FAULTS))
    strength, seed = rng.uniform(ranges.faintest, 1), int(rng.integers(1 << 30))
    grain = int(rng.choice(ranges.grains)) if kind == "noisy" else REFERENCE_SIDE
    if grain > REFERENCE_SIDE:
        strength += 1  # Such fine noise half fades when the picture is shrunk
    window = _draw_window(rng, kind, ranges)
    fades = len(window) < FRAMES and kind != "flicker" and rng.random() < ranges.fades
    return PictureFault(
        kind, window, strength, seed, grain, min(8, len(window) // 3) if fades else 0
    )


def draw_motion_fault(
    rng: np.random.Generator, ranges: FaultRanges, *, whole: bool = False, freezes: bool = True
) -> MotionFault:
    """A random fault of the motion: of the whole picture or of the things in it. Without `freezes` it is no freeze."""
    kind = str(rng.choice(MOTION_FAULTS if freezes else ("jittery", "jumpy")))
    seed, strength = int(rng.integers(1 << 30)), rng.uniform(*ranges.jitter)
    turn = rng.uniform(0, 2 * math.pi) if whole else None
    jump, skip = rng.uniform(*ranges.jump), 0.0
    if not whole and rng.random() < ranges.skips:
        jump, skip = 0.0, float(rng.choice([-1, 1])) * rng.uniform(0.22, 0.36)
    least = (12, HINT) if kind == "frozen" else (6, 0)
    return MotionFault(
        kind, _draw_window(rng, kind, ranges, *least), jump, seed, strength, skip, turn
    )


def _draw_window(
    rng: np.random.Generator, kind: str, ranges: FaultRanges, shortest: int = 6, lead: int = 0
) -> range:
    """A random window. Half of them lie strictly between two opening frames, so only a judge that asks for frames can know of them.

    The others show in the opening frames; half of those are the whole clip, except for the kinds that would not show then.
    """
    if rng.random() < 0.5:
        return hidden_window(rng, ranges, shortest, lead)
    if kind == "frozen":
        # Standing still shows only where two opening frames lie in the window.
        k = int(rng.integers(3))
        return range(
            OPENING_FRAMES[k] - int(rng.integers(12)),
            OPENING_FRAMES[k + 1] + int(rng.integers(2, 15)),
        )
    if kind != "jumpy" and rng.random() < 0.5:
        return range(0, FRAMES)
    shown = int(rng.choice(OPENING_FRAMES))
    return range(
        max(0, shown - int(rng.integers(2, 40))), min(FRAMES, shown + int(rng.integers(4, 40)))
    )


def hidden_window(
    rng: np.random.Generator, ranges: FaultRanges, shortest: int = 6, lead: int = 0
) -> range:
    """A window of at least `shortest` frames strictly between two opening frames, `lead` frames of it before one of a coarse look.

    A coarse look shows at least a hint of every fault, so no frame more is needed for a fault that it does not hint at.
    """
    while True:
        middle = int(rng.choice(ranges.middles))
        start, stop = (
            middle - int(rng.integers(*ranges.reach)),
            middle + int(rng.integers(*ranges.reach)),
        )
        inside = any(before < start and stop <= after for before, after in pairwise(OPENING_FRAMES))
        coarse = any(index % COARSE == 0 for index in range(start + lead, stop))
        if inside and stop - start >= shortest and coarse:
            return range(start, stop)
