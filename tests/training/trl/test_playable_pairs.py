"""In TRL, too, a pair that cannot be played ends no training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.support.drawn_rollouts import DrawnPairs
from vrthinker_core import ScriptedBackend
from vrthinker_core.errors import BadInput, VideoError
from vrthinker_core.training.environment import FrameEnvironment
from vrthinker_core.training.grpo import BEYOND, PlayablePairs
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.types import Frame, FrameRef, Settings

JUDGE = ScriptedBackend(["unused"], protocol="paired")
SETTINGS = Settings(window="all")


def unreadable(_: Sequence[FrameRef]) -> tuple[Frame, ...]:
    raise VideoError("second.mp4 is cut short.")


@dataclass
class Damaged:
    """Drawn pairs, of which some cannot be read."""

    numbers: set[int]
    size: None = None
    pairs: DrawnPairs = field(default_factory=lambda: DrawnPairs(2_000_000_000))

    def pair(self, number: int) -> LabelledPair:
        pair = self.pairs.pair(number)
        return replace(pair, source=unreadable, row=number) if number in self.numbers else pair


def test_another_pair_stands_in_for_all_samples_of_one_that_cannot_be_read() -> None:
    heard: list[str] = []
    pairs = PlayablePairs(Damaged({3, 3 + BEYOND}), JUDGE, SETTINGS, heard.append)
    played = [FrameEnvironment(pairs, JUDGE, SETTINGS) for _ in range(3)]
    opened = [environment.reset(number=3) for environment in played]
    assert opened[0] == opened[1] == opened[2]
    assert {environment.pair.prompt for environment in played} == {
        DrawnPairs(2_000_000_000).pair(3 + 2 * BEYOND).prompt
    }
    assert heard == [
        "A pair cannot be played and teaches nothing. Row 3: second.mp4 is cut short.",
        f"A pair cannot be played and teaches nothing. Row {3 + BEYOND}: second.mp4 is cut short.",
    ]
    assert pairs.pair(4).prompt == DrawnPairs(2_000_000_000).pair(4).prompt
    assert len(heard) == 2


def test_what_was_read_once_is_not_exchanged_within_a_group() -> None:
    damaged = Damaged(set())
    pairs = PlayablePairs(damaged, JUDGE, SETTINGS)
    pairs.pair(5)
    damaged.numbers.add(5)
    with pytest.raises(VideoError, match=r"Row 5: second\.mp4 is cut short"):
        pairs.pair(5)


def test_where_no_pair_can_be_read_training_ends_with_a_sentence() -> None:
    class Nothing(Damaged):
        def pair(self, number: int) -> LabelledPair:
            return replace(self.pairs.pair(number), source=unreadable)

    with pytest.raises(BadInput, match="None of 64 pairs can be played"):
        PlayablePairs(Nothing(set()), JUDGE, SETTINGS).pair(0)
