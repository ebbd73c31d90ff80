"""Pair sets: which pair a number means, and in which order training meets them."""

from __future__ import annotations

import pytest

from tests.benchmarks.nano import UNSEEN
from vrthinker_core.backends.scripted import ScriptedBackend
from vrthinker_core.drawn.world import TRAINING_SEEDS
from vrthinker_core.protocols.factory import frame_layouts
from vrthinker_core.training.data import open_pairs
from vrthinker_core.training.pair_set import DrawnPairSet, ShuffledPairs, in_training_order
from vrthinker_core.training.rollouts import LabelledPair, play
from vrthinker_core.types import FrameRef, Settings, Side, Verdict


class Numbered:
    """Pairs that are told apart by their prompts."""

    def __init__(self, size: int) -> None:
        self.size = size

    def pair(self, number: int) -> LabelledPair:
        return LabelledPair(str(number), Verdict(), lambda refs: (), number)


def order(seed: int, size: int, start: int, count: int) -> list[int]:
    shuffled = in_training_order(Numbered(size), seed)
    return [int(shuffled.pair(number).prompt) for number in range(start, start + count)]


def test_a_drawn_pair_is_known_by_its_number() -> None:
    pairs = DrawnPairSet(5)
    first, again, other = pairs.pair(3), DrawnPairSet(5).pair(3), pairs.pair(4)
    refs = (FrameRef(0, Side.FIRST), FrameRef(7, Side.SECOND))
    assert (first.prompt, first.truth) == (again.prompt, again.truth)
    pixels = [[frame.rgb for frame in pair.source(refs)] for pair in (first, again, other)]
    assert pixels[0] == pixels[1] != pixels[2]
    assert pairs.drawn(3).seed != DrawnPairSet(6).drawn(3).seed
    assert first.truth == pairs.drawn(3).verdict


def test_pairs_take_the_protocols_in_turn_and_are_judged_in_them() -> None:
    pairs = open_pairs("drawn2:5", frame_layouts(Settings(), ("paired", "concat")))
    judge = ScriptedBackend(["<Answer>TA=0</Answer>"], protocol="paired")
    played = list(play([pairs.pair(number) for number in range(4)], judge, Settings(max_turns=1)))
    assert [rollout.run.started.dialect for rollout in played] == ["paired", "concat"] * 2
    for rollout in played:
        frames = rollout.run.turns[0].frames
        assert len({frame.index for frame in frames}) == 4, "four frames of each clip, all over it"
        assert max(frame.index for frame in frames) > 80


def test_no_judge_is_trained_with_what_it_is_measured_with() -> None:
    assert TRAINING_SEEDS <= UNSEEN
    seeds = {DrawnPairSet(seed).drawn(number).seed for seed in range(3) for number in range(30)}
    assert len(seeds) == 90
    assert max(seeds) < UNSEEN


def test_every_epoch_has_each_pair_once_in_an_order_of_its_own() -> None:
    epochs = [order(1, 12, start, 12) for start in (0, 12, 24)]
    assert all(sorted(epoch) == list(range(12)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert order(1, 12, 0, 12) == epochs[0]
    assert order(2, 12, 0, 12) != epochs[0]


def test_a_pair_that_comes_again_is_answered_anew() -> None:
    shuffled = in_training_order(Numbered(3), 1)
    assert len({shuffled.pair(number).seed for number in range(9)}) == 9


def test_training_goes_on_in_the_middle_of_an_epoch() -> None:
    assert order(4, 7, 10, 9) == order(4, 7, 0, 19)[10:]


def test_pairs_without_end_keep_their_order() -> None:
    drawn = DrawnPairSet(5)
    assert in_training_order(drawn, 9) is drawn


def test_what_is_not_there_is_an_index_error() -> None:
    for pairs in (DrawnPairSet(0), ShuffledPairs(Numbered(3), 0)):
        with pytest.raises(IndexError):
            pairs.pair(-1)
    with pytest.raises(IndexError):
        ShuffledPairs(Numbered(0), 0).pair(0)
