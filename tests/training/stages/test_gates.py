"""Gates, parts of the data and the division of time: what stands between the stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.drawn_rollouts import look
from tests.training.test_token_rows import ANSWER, labelled
from vrthinker_core import ScriptedBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.config import GateConfig, changed_config, preset_config
from vrthinker_core.training.pair_set import DrawnPairSet
from vrthinker_core.training.pipeline import (
    PARTS,
    HeldOutFigures,
    measure_judge,
    part_of,
    pass_gate,
)
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.training.run_folder import config_difference
from vrthinker_core.types import Preference, Settings, Verdict

GATES = GateConfig(pairs=3, samples=2)


JUDGE = ScriptedBackend([look(1), ANSWER], protocol="paired")


class FewPairs:
    """A finite set of pairs, made from their numbers."""

    def __init__(self, size: int, make: Callable[[int], LabelledPair] = labelled) -> None:
        self.size, self.make = size, make

    def pair(self, number: int) -> LabelledPair:
        if not 0 <= number < self.size:
            raise IndexError(number)
        return self.make(number)


def measured(pairs: FewPairs, judge: ScriptedBackend = JUDGE) -> HeldOutFigures:
    return measure_judge(judge, pairs, Settings(), GATES)


def test_a_judge_that_always_says_tie_is_right_on_ties_alone() -> None:
    tied = [set(labelled(number).truth.labels.values()) == {0} for number in range(60)]
    chosen = [tied.index(True), *[number for number in range(60) if not tied[number]][:2]]
    figures = measured(FewPairs(3, lambda number: labelled(chosen[number])))
    assert (figures.pairs, figures.samples, figures.format) == (3, 2, 1.0)
    assert figures.mean_at_1 == figures.pass_at_k == pytest.approx(1 / 3)


def test_of_a_pair_whose_labels_are_known_in_part_those_are_compared() -> None:
    tie, first = Preference.TIE, Preference.FIRST
    truths = (Verdict(OA=tie), Verdict(OA=first, TA=tie), Verdict())
    figures = measured(FewPairs(3, lambda n: replace(labelled(n), truth=truths[n])))
    assert figures.mean_at_1 == figures.pass_at_k == pytest.approx(1 / 3)


def test_a_pair_that_cannot_be_played_does_not_count() -> None:
    def one_too_long(number: int) -> LabelledPair:
        return replace(labelled(number), prompt="word " * (1 if number else 9000))

    judge = replace(JUDGE, context_length=8000)
    assert measured(FewPairs(3, one_too_long), judge).pairs == 2
    with pytest.raises(BadInput, match=r"No held-out pair can be played\. The conversation has 11"):
        measured(FewPairs(1, one_too_long), judge)


def test_no_form_no_passage() -> None:
    judge = ScriptedBackend(["I like the first one."], protocol="paired")
    figures = measure_judge(judge, DrawnPairSet(0), Settings(max_turns=2), GATES)
    assert figures.format == 0
    said = r"0\.00 of the rollouts keep to the format on 3 held-out pairs, and 0\.95 are needed"
    with pytest.raises(BadInput, match=said):
        pass_gate(figures, GATES, "nano")


@pytest.mark.parametrize(
    ("figures", "why", "gate"),
    [
        ((0.5, 0.3, 0.8), "0.50 of the rollouts", "format"),
        ((1.0, 0.3, 0.31), "pass@8 is 0.31 and mean@1 0.30", "headroom"),
    ],
)
def test_what_a_gate_stops_says_how_to_begin_again_and_how_to_go_on(
    figures: tuple[float, float, float], why: str, gate: str
) -> None:
    pass_gate(HeldOutFigures(64, 8, 0.95, 0.27, 0.83), GATES, "nano")
    with pytest.raises(BadInput, match=r"--model out/model --out") as caught:
        pass_gate(HeldOutFigures(64, 8, *figures), GATES, "out/model")
    assert why in str(caught.value)
    assert f"go on with --resume and a lower gate (--set gates.{gate}=…)" in str(caught.value)
    config = preset_config("nano")
    assert config_difference(config, changed_config(config, [f"gates.{gate}=0.1"])) == ""


@pytest.mark.parametrize("size", [5, 40, 5000])
def test_no_stage_sees_what_is_held_out(size: int) -> None:
    parts = {name: part_of(FewPairs(size), name, 64).numbers for name in PARTS}
    held, trained = set(parts["held-out"] or ()), set(parts["grpo"] or ())
    assert held
    assert not held & trained
    assert held | trained == set(range(size))
    assert len(held) <= max(1, min(64, size // 10))
    assert parts["cold-start"] == parts["rejection"] == parts["grpo"]


def test_one_pair_is_too_few_to_learn_from_and_to_measure_with() -> None:
    for name in PARTS:
        with pytest.raises(BadInput, match="give two or more"):
            part_of(FewPairs(1), name, 64)
    assert part_of(FewPairs(2), "grpo", 64).size == part_of(FewPairs(2), "held-out", 64).size == 1


def test_parts_of_endless_pairs_all_differ() -> None:
    parts = [part_of(DrawnPairSet(3), name, 64) for name in PARTS]
    seeds = {part.pair(number).prompt + str(number) for part in parts for number in range(3)}
    assert part_of(DrawnPairSet(3), "grpo", 64).size is None
    assert len(seeds) > 9
    with pytest.raises(IndexError):
        part_of(DrawnPairSet(3), "grpo", 64).pair(-1)
