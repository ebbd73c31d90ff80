"""Which pairs a stage trains with, and which ones no stage of the same run sees: these measure it."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vrthinker_core.errors import BadInput
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.rollouts import LabelledPair

PartName = Literal["cold-start", "rejection", "grpo", "held-out"]

PART_SIZE = 10_000_000  # Pairs of each part, where they never end
PARTS: tuple[PartName, ...] = ("cold-start", "rejection", "grpo", "held-out")
HELD_OUT_SHARE = 0.1  # Of a finite set, at most


@dataclass(frozen=True, slots=True)
class PairPart:
    """Some pairs of a set, numbered from 0."""

    pairs: PairSet
    first: int = 0  # Of an endless set: where the part begins
    numbers: tuple[int, ...] | None = None  # Of a finite one: which pairs

    @property
    def size(self) -> int | None:
        """How many there are; None where they never end."""
        return None if self.numbers is None else len(self.numbers)

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number. Raises IndexError where there is none."""
        if number < 0:
            raise IndexError(number)
        return self.pairs.pair(
            self.first + number if self.numbers is None else self.numbers[number]
        )


def part_of(pairs: PairSet, name: PartName, held_out: int) -> PairPart:
    """A part of the set. Of an endless one all parts differ; of a finite one the stages share what is not held out.

    `held_out` pairs are held out, of a small finite set fewer. Raises BadInput where that leaves nothing to learn from.
    """
    if pairs.size is None:
        return PairPart(pairs, PARTS.index(name) * PART_SIZE)
    if pairs.size < 2:
        raise BadInput(
            "The data hold one pair with a label, and one is held out to measure with: give two or more."
        )
    order = np.random.default_rng(pairs.size).permutation(pairs.size).tolist()
    cut = max(1, min(held_out, int(pairs.size * HELD_OUT_SHARE)))
    return PairPart(pairs, numbers=tuple(order[:cut] if name == "held-out" else order[cut:]))
