"""What a tower gets wrong in the frames of one clip: alike in near ones, and the less alike the more lies between them.

The features of two frames that the tower sees are apart by about the square root of the time between them, as in a random walk.
"""

from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.faults import FRAMES

LASTING = 60.0, 1500.0  # Frames over which the correlation of errors falls to 1/e, at least and at most
SHIFT = 0.4  # Of the picture: a shift as far is as another moment at the other end of the clip


class ClipErrors:
    """Standard normal numbers for every moment of a clip and every shift of its picture: Ornstein-Uhlenbeck processes over both."""

    def __init__(self, rng: np.random.Generator, size: int) -> None:
        low, high = np.log(LASTING)
        keep = float(np.exp(-1 / np.exp(rng.uniform(low, high))))
        self._new_walk = partial(_walk, rng, size, keep)
        self._by_time = self._new_walk()

    def at(self, time: float, shift: float) -> NDArray[Any]:
        """Those of a moment, from 0 to 1, in a picture shifted by that share of its side, [size]."""
        found = _between(self._by_time, time)
        return found + _between(self._by_shift, shift / SHIFT) - self._by_shift[0] if shift else found

    @cached_property
    def _by_shift(self) -> NDArray[Any]:
        """Drawn where it is needed: few clips have a shifted picture."""
        return self._new_walk()


def _walk(rng: np.random.Generator, size: int, keep: float) -> NDArray[Any]:
    """The process at FRAMES moments, [FRAMES, size]; `keep` is the correlation of one with the next."""
    steps = rng.standard_normal((FRAMES, size), np.float32)
    steps[1:] *= np.float32(np.sqrt(1 - keep**2))
    for before, after in pairwise(steps):
        after += keep * before
    return steps


def _between(walk: NDArray[Any], place: float) -> NDArray[Any]:
    """The process at a place, 0 for its beginning and 1 for its end, between two moments in a straight line."""
    whole, share = divmod(min(max(place, 0.0), 1.0) * (len(walk) - 1), 1)
    before, after = walk[int(whole)], walk[min(int(whole) + 1, len(walk) - 1)]
    found: NDArray[Any] = before + np.float32(share) * (after - before)
    return found
