"""Two judges on the same pairs."""

from __future__ import annotations

import random
from fractions import Fraction
from math import comb

import pytest

from tests.evaluation.support.made_results import broken, failed, result, simulate
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import MetricComparison, compare_judges, mcnemar
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension


def metric_of(first: list[PairResult], second: list[PairResult], metric: str) -> MetricComparison:
    found = compare_judges(first, second).metrics
    return next(each for each in found if (each.dimension, each.metric) == (Dimension.OA, metric))


def judged(people: str, said: str, name: str) -> list[PairResult]:
    return [
        result(n, truth, label, name=name)
        for n, (truth, label) in enumerate(zip(people, said, strict=True))
    ]


def test_differences_by_hand() -> None:
    first, second = judged("112200", "112211", "a"), judged("112200", "100200", "b")
    tau, diff = metric_of(first, second, "tau"), metric_of(first, second, "diff")
    assert (tau.pairs, tau.first, tau.second, tau.first_alone, tau.second_alone) == (
        6,
        4 / 6,
        4 / 6,
        2,
        2,
    )
    assert (tau.difference.value, tau.p) == (0.0, 1.0)
    assert (diff.pairs, diff.first, diff.second, diff.first_alone, diff.second_alone) == (
        4,
        1.0,
        0.5,
        2,
        0,
    )
    assert (diff.difference.value, diff.p) == (0.5, 0.5)


def test_only_pairs_that_both_have_judged_count() -> None:
    first = [*judged("11", "11", "a"), failed(2, "1"), result(3, "1", "1"), broken(4, "1")]
    second = [
        *judged("11", "12", "b"),
        result(2, "1", "1"),
        failed(3, "1"),
        broken(4, "1"),
        result(9, "1", "1"),
    ]
    found = compare_judges(first, second)
    assert (found.shared, found.only_first, found.only_second) == (2, 1, 2)
    assert found.same == ((Dimension.OA, 0.5),)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 7), (40, 25), (400, 500)])
def test_mcnemar_is_the_sign_test(first: int, second: int) -> None:
    count = first + second
    tail = sum(Fraction(comb(count, taken), 2**count) for taken in range(min(first, second) + 1))
    exact = pytest.approx(float(min(Fraction(1), 2 * tail)), rel=1e-12)
    assert mcnemar(first, second) == mcnemar(second, first) == exact


def test_mcnemar_of_a_whole_data_set_is_exact_too() -> None:
    # The normal approximation with correction gives 0.0070
    assert mcnemar(6000, 6300) == pytest.approx(0.0070, abs=3e-4)
    assert mcnemar(0, 26_500) == 0.0


def test_a_judge_against_itself_differs_by_nothing() -> None:
    rows = simulate(120, 60)
    for each in compare_judges(rows, rows).metrics:
        assert (each.difference.value, each.p) == (0.0, 1.0)
        assert each.difference.low == -(each.difference.high or 0.0)
        assert 0 < (each.difference.high or 0.0) < 0.15


@pytest.mark.parametrize("pairs", [2, 3, 5, 6, 9])
def test_a_difference_without_an_exception_is_as_clear_as_mcnemar_finds_it(pairs: int) -> None:
    ones, twos = "1" * pairs, "2" * pairs
    found = metric_of(judged(ones, ones, "a"), judged(ones, twos, "b"), "tau")
    assert (found.difference.value, found.difference.high) == (1.0, 1.0)
    assert (found.difference.low > 0) == (found.p < 0.05)


def test_swapping_the_judges_turns_every_figure_round_and_the_order_of_rows_changes_none() -> None:
    first, second = simulate(200, 80, name="a"), simulate(200, 80, name="b")
    there, back = compare_judges(first, second), compare_judges(second, first)
    for mine, its in zip(there.metrics, back.metrics, strict=True):
        assert (mine.first, mine.second, mine.p) == (its.second, its.first, its.p)
        assert mine.difference.low == pytest.approx(-(its.difference.high or 0.0))
    shuffled = [random.Random(7).sample(rows, len(rows)) for rows in (first, second)]
    assert compare_judges(*shuffled) == there


def test_a_clear_difference_is_seen_and_chance_is_not_called_one() -> None:
    people = "12" * 100
    good = judged(people, "12" * 80 + "21" * 20, "a")
    bad = judged(people, "12" * 50 + "21" * 50, "b")
    found = metric_of(good, bad, "tau")
    assert found.difference.value == pytest.approx(0.3)
    assert found.difference.low > 0.2
    assert found.p < 1e-10


def test_different_data_sets_are_refused() -> None:
    with pytest.raises(BadInput, match="No pair was judged by both"):
        compare_judges([result(1, "1", "1")], [result(2, "1", "1")])
    with pytest.raises(BadInput, match="labels differ in 1 of the shared pairs, first in row 1"):
        compare_judges([result(1, "1", "1")], [result(1, "2", "1")])
