"""Faults of the second world: of more places and lengths, from faint to strong, some of them only hinted at by a coarse look.

A judge that looks at every sixteenth frame first finds an odd frame or an odd step, and must look closer to know what it is.
"""

import math
from itertools import pairwise

import numpy as np

from vrthinker_core.training.drawn_world.faults import (
    FRAMES,
    MOTION_FAULTS,
    OPENING_FRAMES,
    PICTURE_FAULTS,
    MotionFault,
    PictureFault,
)
from vrthinker_core.training.drawn_world.rendering.damage import FAINTEST, REFERENCE_SIDE

BETWEEN = tuple(
    range(OPENING_FRAMES[0] + 8, OPENING_FRAMES[-1], 8)
)  # Every eighth frame, between the first and the last of the opening
COARSE = 16  # Frames between two of a coarse look
HINT = 4  # Frames that a freeze has lasted, at least, when a coarse look shows it: fewer leave no trace
GRAINS = (REFERENCE_SIDE // 2, REFERENCE_SIDE, REFERENCE_SIDE, 2 * REFERENCE_SIDE)


def draw_varied_picture_fault(rng: np.random.Generator) -> PictureFault:
    """A random fault of the picture; one in three of those in a window fades in and out."""
    kind = str(rng.choice(PICTURE_FAULTS))
    strength, seed = rng.uniform(FAINTEST, 1), int(rng.integers(1 << 30))
    grain = int(rng.choice(GRAINS)) if kind == "noisy" else REFERENCE_SIDE
    if grain > REFERENCE_SIDE:
        strength += 1  # Such fine noise half fades when the picture is shrunk
    window = _window_with_an_opening_frame(rng, kind) if rng.random() < 0.5 else hidden_window(rng)
    fades = len(window) < FRAMES and kind != "flicker" and rng.random() < 1 / 3
    return PictureFault(kind, window, strength, seed, grain, min(8, len(window) // 3) if fades else 0)


def draw_varied_motion_fault(rng: np.random.Generator, *, whole: bool, freezes: bool = True) -> MotionFault:
    """A random fault of the motion: of the whole picture or of the things in it. Where nothing moves, a freeze would not show."""
    kind = str(rng.choice(MOTION_FAULTS if freezes else ("jittery", "jumpy")))
    seed, strength = int(rng.integers(1 << 30)), rng.uniform(0.6, 1.2)
    turn = rng.uniform(0, 2 * math.pi) if whole else None
    jump, skip = rng.uniform(0.16, 0.34), 0.0
    if not whole and rng.random() < 0.25:
        jump, skip = 0.0, float(rng.choice([-1, 1])) * rng.uniform(0.22, 0.36)
    least = (12, HINT) if kind == "frozen" else (6, 0)
    window = _window_with_an_opening_frame(rng, kind) if rng.random() < 0.5 else hidden_window(rng, *least)
    return MotionFault(kind, window, jump, seed, strength, skip, turn)


def hidden_window(rng: np.random.Generator, shortest: int = 6, lead: int = 0) -> range:
    """A window of `shortest` to 30 frames strictly between two opening frames, `lead` frames of it before one of a coarse look.

    So a coarse look shows at least a hint of every fault, and no frame more is needed for those that it does not hint at.
    """
    while True:
        middle = int(rng.choice(BETWEEN))
        start, stop = middle - int(rng.integers(1, 16)), middle + int(rng.integers(1, 16))
        inside = any(before < start and stop <= after for before, after in pairwise(OPENING_FRAMES))
        coarse = any(index % COARSE == 0 for index in range(start + lead, stop))
        if inside and stop - start >= shortest and coarse:
            return range(start, stop)


def _window_with_an_opening_frame(rng: np.random.Generator, kind: str) -> range:
    """A window that shows in the opening frames; the whole clip for half of those kinds that would show then."""
    if kind == "frozen":
        # Standing still shows only where two opening frames lie in the window.
        k = int(rng.integers(3))
        return range(OPENING_FRAMES[k] - int(rng.integers(12)), OPENING_FRAMES[k + 1] + int(rng.integers(2, 15)))
    if kind != "jumpy" and rng.random() < 0.5:
        return range(0, FRAMES)
    shown = int(rng.choice(OPENING_FRAMES))
    return range(max(0, shown - int(rng.integers(2, 40))), min(FRAMES, shown + int(rng.integers(4, 40))))
