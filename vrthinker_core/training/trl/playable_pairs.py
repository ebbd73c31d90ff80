"""Pairs that can be played, for a trainer that asks for each of its rows by number: TRL draws no other pair by itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

from vrthinker_core.backends.base import JudgeDescription
from vrthinker_core.errors import BadInput
from vrthinker_core.training.environment import with_cached_frames
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.rollouts import (
    UNPLAYABLE,
    LabelledPair,
    OpenRollout,
    of_row,
    unplayable_words,
)
from vrthinker_core.types import Settings

BEYOND = 2**20  # Pairs between one and what stands in for it: further than a run goes
TRIES = 64  # Pairs that are looked at in the place of one


@dataclass(frozen=True, slots=True)
class PlayablePairs:
    """The pairs of a set; in the place of one whose first frames cannot be had stands another, for all of its samples alike."""

    pairs: PairSet
    judge: JudgeDescription
    settings: Settings
    say: Callable[[str], None] = lambda _: None  # Hears why, once for each
    _chosen: dict[int, int] = field(default_factory=dict)

    @property
    def size(self) -> int | None:
        """How many there are; None where they never end."""
        return self.pairs.size

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number, or the one in its place.

        Raises BadInput where none is found, and VideoError for one that could be played before and no longer can: half a group
        of another pair would be rewarded as one.
        """
        if number in self._chosen:
            return self._opened(self._chosen[number])
        for tried in range(number, number + TRIES * BEYOND, BEYOND):
            try:
                pair = self._opened(tried)
            except UNPLAYABLE as error:
                self.say(unplayable_words(error))
            else:
                self._chosen[number] = tried
                return pair
        raise BadInput(
            f"None of {TRIES} pairs can be played: mend the data, and go on with --resume."
        )

    def _opened(self, number: int) -> LabelledPair:
        pair = with_cached_frames(self.pairs.pair(number))
        try:
            OpenRollout(pair, self.judge, self.settings).ask()
        except UNPLAYABLE as error:
            raise of_row(error, pair) from None
        return pair
