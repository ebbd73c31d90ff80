"""Order of the videos, contradictions, confidence, cost and groups: each counted by hand on a few pairs."""

from __future__ import annotations

import pytest

from tests.evaluation.support.made_results import failed, result, simulate, verdict
from vrthinker_core.evaluation.behaviour import Calibration, PositionBias, SwapConsistency
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension


def swap_of(*results: PairResult) -> SwapConsistency:
    return {each.dimension: each for each in summarize(results).swap}[Dimension.OA]


def position_of(*results: PairResult) -> PositionBias:
    return {each.dimension: each for each in summarize(results).position}[Dimension.OA]


def both_orders(row: int, first: str, second: str) -> PairResult:
    """Labels of both orders, each with the labels of the first."""
    return result(row, "1", first, swapped=verdict(second))


def test_swap_consistency_by_hand() -> None:
    found = swap_of(
        both_orders(1, "1", "1"), both_orders(2, "1", "2"), both_orders(3, "0", "0"), both_orders(4, "1", "0"),
        both_orders(5, "0", "2"), both_orders(6, "1", "-"), result(7, "1", "1"),
    )  # fmt: skip
    assert found.pairs == 5
    assert (found.stable.value, found.flips, found.tie_changes) == (2 / 5, 1 / 5, 2 / 5)


def test_a_judge_that_likes_what_comes_first_is_found() -> None:
    """Shown first is always preferred: the labels of the second order, mapped back, are all 2."""
    found = position_of(*[both_orders(row, "1", "2") for row in range(8)])
    assert (found.first.value, found.shown_first.value, found.difference) == (1.0, 1.0, 1.0)


def test_a_judge_that_sees_the_videos_has_no_bias_even_if_one_side_is_better() -> None:
    found = position_of(*[both_orders(row, "1", "1") for row in range(8)])
    assert (found.first.value, found.people_first) == (1.0, 1.0)
    assert (found.shown_first.value, found.difference) == (0.5, 0.0)


def test_without_a_second_order_only_the_plain_share_is_known() -> None:
    found = position_of(
        result(1, "1", "1"), result(2, "2", "2"), result(3, "1", "1"), result(4, "2", "0")
    )
    assert (found.decided, found.first.value, found.people_first) == (3, 2 / 3, 1 / 2)
    assert (found.shown_first, found.difference) == (None, None)


def test_overall_against_its_sub_scores_by_hand() -> None:
    """In the order TA, MQ, VQ, OA. The third and fourth contradict themselves; the fifth has no majority and a sum of a tie."""
    rows = ["1121", "0011", "2221", "1110", "0120", "112-"]
    judge, people = summarize([result(n, "0000", labels) for n, labels in enumerate(rows)]).overall
    assert (judge.whose, judge.pairs, judge.majorities) == ("judge", 5, 4)
    assert judge.with_sum == 3 / 5
    assert judge.with_majority == 1 / 4
    assert judge.contradictions == 2 / 5
    assert (people.whose, people.pairs, people.with_sum, people.contradictions) == (
        "people",
        6,
        1.0,
        0.0,
    )


def calibration_of(*results: PairResult) -> Calibration:
    return {each.dimension: each for each in summarize(results).calibration}[Dimension.OA]


def test_calibration_of_probabilities_by_hand() -> None:
    sure, unsure = (0.0, 0.95, 0.05), (0.2, 0.55, 0.25)
    rows = [
        result(1, "1", "1", probabilities={Dimension.OA: sure}),
        result(2, "2", "1", probabilities={Dimension.OA: sure}),
        result(3, "1", "1", probabilities={Dimension.OA: unsure}),
        result(4, "1", "1"),
    ]
    found = calibration_of(*rows)
    assert [(each.low, each.pairs, each.right) for each in found.bins] == [
        (0.5, 1, 1.0),
        (0.9, 2, 0.5),
    ]
    assert found.error == pytest.approx((0.45 + 2 * 0.45) / 3)
    first, second, third = 0.05**2 + 0.05**2, 0.95**2 + 0.95**2, 0.2**2 + 0.45**2 + 0.25**2
    assert found.brier == pytest.approx((first + second + third) / 3)


def test_a_judge_that_is_always_right_and_sure_has_no_error() -> None:
    found = calibration_of(
        *[result(n, "2", "2", probabilities={Dimension.OA: (0.0, 0.0, 1.0)}) for n in range(3)]
    )
    assert (found.error, found.brier) == (0.0, 0.0)


def test_confidence_levels_by_hand() -> None:
    rows = [
        ("1", "1", 5),
        ("1", "2", 5),
        ("1", "1", 2),
        ("1", None, 2),
        ("-", "1", 2),
        ("1", "1", None),
    ]
    found = calibration_of(
        *[result(n, truth, said, confidence=level) for n, (truth, said, level) in enumerate(rows)]
    )
    assert [(each.confidence, each.pairs, each.right.value) for each in found.confidence] == [
        (2, 1, 1.0),
        (5, 2, 0.5),
    ]
    assert (found.pairs, found.error) == (0, None)


def test_costs_are_of_runs_that_ended_by_themselves() -> None:
    rows = [result(n, "1", "1", turns=n, frames=10 * n, seconds=float(n)) for n in range(1, 12)]
    found = summarize([*rows, failed(20, "1")]).costs
    assert (
        found.pairs,
        found.turns.mean,
        found.turns.median,
        found.turns.p90,
        found.turns.total,
    ) == (11, 6.0, 6.0, 10.0, 66.0)
    assert found.frames.total == 660
    assert found.turn_counts == tuple((n, 1) for n in range(1, 12))
    assert sum(each.pairs for each in found.second_bins) == 11
    assert (found.second_bins[0].low, found.second_bins[-1].low) == (1.0, 8.0)


def test_generators_win_from_either_side() -> None:
    rows = [
        result(1, "1", "1", generators=("b", "a")),
        result(2, "1", "2", generators=("a", "b")),
        result(3, "2", "0", generators=("a", "b")),
        result(4, "2", None, generators=("a", "b")),
        result(5, "1", "1", generators=("a", "c")),
        result(6, "1", "1", generators=("a", "a")),
        result(7, "1", "1"),
    ]
    found = summarize(rows)
    first, second = found.generator_pairs
    assert (first.first, first.second, first.pairs) == ("a", "b", 4)
    assert first.wins == pytest.approx(0.5 / 3)
    assert first.people_wins == 1 / 4
    assert (first.tau, first.diff) == (1 / 4, 1 / 4)
    assert (second.first, second.second, second.wins) == ("a", "c", 1.0)
    assert [(each.name, each.pairs) for each in found.generators] == [("b", 4), ("a", 5), ("c", 1)]


def test_groups_add_up_to_the_whole() -> None:
    rows = simulate(300, 100)
    found = summarize(rows)
    assert (
        sum(each.pairs for each in found.generator_pairs)
        == found.counts.pairs - found.counts.failed
    )
    assert sum(each.pairs for each in found.generators) == 2 * sum(
        each.pairs for each in found.generator_pairs
    )
    assert sum(pairs for _, pairs in found.costs.turn_counts) == found.costs.pairs
