"""Pair sets: labelled pairs known by their numbers, so that where a training run stands in its data is one integer."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.drawn.frames import EVERY_FRAME, DrawnFrames
from vrthinker_core.drawn.video_files import FRAME_RATE
from vrthinker_core.drawn.world import TRAINING_SEEDS, DrawnPair, draw_pair
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.types import ClipInfo, Frame, FrameRef, ProtocolName, Side
from vrthinker_core.types.geometry import Grid


class PairSet(Protocol):
    """Labelled pairs by number. The same number always gives the same pair."""

    @property
    def size(self) -> int | None:
        """How many pairs there are, numbered from 0; None where they never end."""

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number. Raises IndexError where there is none."""


class DrawnClips:
    """A `ClipSource` over a drawn pair: its frames, and a name and a digest for each of its clips, which are in no file."""

    def __init__(self, drawn: DrawnPair, size: int, grid: Grid) -> None:
        """`size`: pixels per side of a frame; `grid`: which frame a slot is."""
        self._drawn, self._size, self._frames = drawn, size, DrawnFrames(drawn, size, grid)

    @property
    def clips(self) -> tuple[ClipInfo, ClipInfo]:
        """The two clips as a trace names them."""
        first, second = (self._clip(side) for side in Side)
        return first, second

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs, in their order."""
        return self._frames(refs)

    def _clip(self, side: Side) -> ClipInfo:
        name = f"drawn-{self._drawn.seed}-{'ab'[side - 1]}"
        digest = hashlib.sha256(f"{name}-{self._size}".encode()).hexdigest()
        return ClipInfo(
            name,
            digest,
            "drawn",
            "none",
            self._size,
            self._size,
            FRAMES,
            FRAME_RATE,
            FRAMES / FRAME_RATE,
            drawn=True,
        )


@dataclass(frozen=True, slots=True)
class DrawnPairSet:
    """Drawn pairs without end, never those that judges are measured with."""

    seed: int  # Sets of other seeds have other pairs
    frame_size: int = 112  # Pixels per side of a frame
    draw: Callable[[int], DrawnPair] = draw_pair  # Gives the drawn pair of a seed
    grids: tuple[tuple[ProtocolName | None, Grid], ...] = ((None, EVERY_FRAME),)
    """The protocols that pairs speak, which they take in turn (None leaves it to the judge), and which frame a slot is in each."""

    @property
    def size(self) -> None:
        """Drawn pairs never end."""
        return None

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number from 0 on."""
        drawn = self.drawn(number)
        protocol, grid = self.grids[number % len(self.grids)]
        return LabelledPair(
            drawn.prompt, drawn.verdict, DrawnClips(drawn, self.frame_size, grid), number, protocol
        )

    def protocol(self, number: int) -> ProtocolName | None:
        """That of the pair of a number."""
        return self.grids[number % len(self.grids)][0]

    def drawn(self, number: int) -> DrawnPair:
        """The same pair with all that is known of it."""
        if number < 0:
            raise IndexError(number)
        state = int(np.random.SeedSequence((self.seed, number)).generate_state(1, np.uint64)[0])
        return self.draw(state % TRAINING_SEEDS)


@dataclass(frozen=True, slots=True)
class ShuffledPairs:
    """A finite set over and over: pair k of epoch e is number e * size + k, and every epoch has an order of its own."""

    pairs: PairSet
    seed: int

    @property
    def size(self) -> None:
        """Epochs never end."""
        return None

    def pair(self, number: int) -> LabelledPair:
        """The pair whose turn it is at `number`. Each time it comes again, other replies are sampled."""
        count = self.pairs.size
        if number < 0 or not count:
            raise IndexError(number)
        epoch, place = divmod(number, count)
        return replace(self.pairs.pair(_epoch_order(self.seed, epoch, count)[place]), seed=number)


def in_training_order(pairs: PairSet, seed: int) -> PairSet:
    """The set as training goes through it: epochs of a finite one, each in an order that follows from seed and epoch."""
    return pairs if pairs.size is None else ShuffledPairs(pairs, seed)


@lru_cache(maxsize=4)
def _epoch_order(seed: int, epoch: int, count: int) -> tuple[int, ...]:
    return tuple(np.random.default_rng((seed, epoch)).permutation(count).tolist())
