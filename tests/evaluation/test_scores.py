"""What is told of a judge's results: counted by hand on a few pairs, whatever the order of the rows, and of two judges."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from tests.evaluation.support import made_results as made
from tests.evaluation.support.made_results import broken, failed, result, simulate, verdict
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation import agreement
from vrthinker_core.evaluation.agreement import IntervalEstimate, compare_judges, estimate_ratios
from vrthinker_core.evaluation.behaviour import COMPLEX, LONG, RESIDUAL
from vrthinker_core.evaluation.summary import published, published_remark, summarize
from vrthinker_core.results.result import PairResult, RunStart
from vrthinker_core.types import Dimension, StopReason

OA = Dimension.OA


def overall(*results: PairResult, part: str = "agreement") -> Any:
    """What a part of the summary says of the overall label."""
    return {each.dimension: each for each in getattr(summarize(results), part)}[OA]


swap_of, position_of, calibration_of = (
    partial(overall, part=part) for part in ("swap", "position", "calibration")
)


def test_tau_and_diff_by_hand() -> None:
    """Right: 1, 2 and one tie of seven; of the five that people decide, 1 and 2, and the tie said of the third is wrong."""
    found = overall(
        result(1, "1", "1", provisional=True), result(2, "2", "2"), result(3, "1", "0"), result(4, "2", "1"),
        result(5, "0", "0"), result(6, "0", "2"), result(7, "1", "2"),
    )  # fmt: skip
    assert found.tau.value == 3 / 7
    assert found.diff.value == 2 / 5
    assert (found.labelled, found.decided, found.answered, found.provisional) == (7, 5, 7, 1)
    assert (found.tie_rate.value, found.people_tie_rate.value) == (2 / 7, 2 / 7)
    assert found.tie_rate.low < 2 / 7
    assert found.confusion == ((1, 0, 1, 0), (1, 1, 1, 0), (0, 1, 1, 0))


def test_a_pair_without_an_answer_is_wrong_and_counted_beside() -> None:
    failing = result(3, "0", "0", stop=StopReason.FAILED, fault="BackendFailed")
    found = overall(
        result(1, "1", "1"), result(2, "0", "0"),
        failing, result(4, "1", None, stop=StopReason.TURN_LIMIT), result(5, "2", "---"),
    )  # fmt: skip
    assert found.tau.value == 2 / 5
    assert found.diff.value == 1 / 3
    assert (found.answered, found.labelled) == (2, 5)
    assert found.tie_rate.value == 1 / 2, "a label that was never said is no tie"
    assert [row[3] for row in found.confusion] == [1, 1, 1]


def test_broken_rows_and_rows_left_out_stand_outside() -> None:
    rows = [result(1, "1", "1"), result(2, "2", "1")]
    found = summarize([*rows, broken(3, "1"), made.left_out(4), made.left_out(5)])
    assert found.agreement == summarize(rows).agreement
    counts = found.counts
    assert (counts.rows, counts.broken, counts.left_out, counts.pairs) == (5, 1, 2, 2)


def test_every_pair_is_counted_once() -> None:
    rows = [
        *(result(1, "1", "1"), result(2, "1", "0", provisional=True, forced=True)),
        *(result(3, "1", "1---"), result(4, "1", None, stop=StopReason.NO_ANSWER)),
        *(failed(5, "1"), failed(6, "1", "VideoError"), failed(7, "1")),
        result(8, "1", None, stop=StopReason.CANCELLED),
    ]
    found = summarize(rows).counts
    assert (found.answered, found.unanswered, found.failed, found.cancelled) == (3, 1, 3, 1)
    assert found.pairs == 8
    assert (found.partial, found.provisional, found.forced) == (3, 1, 1)
    assert found.faults == (("BackendFailed", 2), ("VideoError", 1))


def test_a_dimension_without_labels_is_left_out() -> None:
    for people, told in (("1", [OA]), ("1---", [Dimension.TA]), ("-", [])):
        found = summarize([result(1, people, "1111", turns=2), result(2, people, "1222", turns=3)])
        assert [each.dimension for each in found.agreement] == told
        assert found.costs.turns == 2.5, "all the rest is there"
        assert found.position[0].first.value == 1.0
    assert summarize([result(1, "1---", "1---")]).dimension is Dimension.TA


def test_only_broken_rows_are_a_summary_without_figures_and_no_result_is_none() -> None:
    found = summarize([broken(1, "1")])
    assert (found.counts.pairs, found.agreement, found.costs) == (0, (), None)
    with pytest.raises(BadInput, match="no result"):
        summarize([])


def test_baselines_are_what_such_answers_score() -> None:
    """Each baseline against results in which a judge really answers so; the coin against all ways it can fall."""
    people = ["1", "1", "1", "2", "0", "0"]
    given = overall(*[result(n, label, "1") for n, label in enumerate(people)]).baselines
    found = {each.name: each for each in given}
    for name, label in {"always tie": "0", "always 1": "1", "always 2": "2"}.items():
        real = overall(*[result(n, truth, label) for n, truth in enumerate(people)])
        assert (found[name].tau, found[name].diff) == (real.tau.value, real.diff.value)
    for name, sides in ((agreement.COIN, "012"), (agreement.COIN_OF_TWO, "12")):
        right = [sum(truth == side for side in sides) / len(sides) for truth in people]
        assert found[name].tau == pytest.approx(sum(right) / 6)
        assert found[name].diff == pytest.approx(sum(right[:4]) / 4)


def test_the_margin_is_over_the_best_baseline() -> None:
    labels = enumerate(["00", "00", "01", "11", "22"])
    found = overall(*[result(n, truth, judge) for n, (truth, judge) in labels])
    assert found.margin.value == pytest.approx(4 / 5 - 3 / 5)


def test_no_figure_depends_on_the_order_of_the_rows() -> None:
    rows = simulate(240, 60)
    shuffled = random.Random(1).sample(rows, len(rows))
    ties_first = sorted(rows, key=lambda each: each.pair.labels.OA or 0)
    assert summarize(shuffled) == summarize(ties_first) == summarize(rows)


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


@pytest.mark.parametrize(("second", "shown_first"), [("2", 1.0), ("1", 0.5)])
def test_a_favourite_place_is_told_from_a_better_side(second: str, shown_first: float) -> None:
    """The labels of the second order are mapped back."""
    found = position_of(*[both_orders(row, "1", second) for row in range(8)])
    assert (found.first.value, found.people_first) == (1.0, 1.0)
    assert found.shown_first.value == shown_first


def test_without_a_second_order_only_the_plain_share_is_known() -> None:
    labels = enumerate(["11", "22", "11", "20"])
    found = position_of(*[result(n, truth, said) for n, (truth, said) in labels])
    assert (found.decided, found.first.value, found.people_first) == (3, 2 / 3, 1 / 2)
    assert found.shown_first is None


def test_overall_against_its_sub_scores_by_hand() -> None:
    """In the order TA, MQ, VQ, OA. The third and fourth contradict themselves; the fifth has a sum of a tie."""
    rows = ["1121", "0011", "2221", "1110", "0120", "112-"]
    judge, people = summarize([result(n, "0000", labels) for n, labels in enumerate(rows)]).overall
    assert (judge.whose, judge.pairs) == ("judge", 5)
    assert judge.with_sum == 3 / 5
    assert judge.contradictions == 2 / 5
    assert (people.whose, people.pairs) == ("people", 6)
    assert (people.with_sum, people.contradictions) == (1.0, 0.0)


def test_calibration_of_probabilities_by_hand() -> None:
    sure, unsure = {OA: (0.0, 0.95, 0.05)}, {OA: (0.2, 0.55, 0.25)}
    found = calibration_of(
        *(result(1, "1", "1", probabilities=sure), result(2, "2", "1", probabilities=sure)),
        *(result(3, "1", "1", probabilities=unsure), result(4, "1", "1")),
    )
    bins = [(each.low, each.pairs, each.right) for each in found.bins]
    assert bins == [(0.5, 1, 1.0), (0.9, 2, 0.5)]
    assert found.error == pytest.approx((0.45 + 2 * 0.45) / 3)
    first, second, third = 0.05**2 + 0.05**2, 0.95**2 + 0.95**2, 0.2**2 + 0.45**2 + 0.25**2
    assert found.brier == pytest.approx((first + second + third) / 3)
    always = [result(n, "2", "2", probabilities={OA: (0.0, 0.0, 1.0)}) for n in range(3)]
    assert (calibration_of(*always).error, calibration_of(*always).brier) == (0.0, 0.0)


def test_confidence_levels_by_hand() -> None:
    rows = [
        *(result(1, "1", "1", confidence=5), result(2, "1", "2", confidence=5)),
        *(result(3, "1", "1", confidence=2), result(4, "1", None, confidence=2)),
        *(result(5, "-", "1", confidence=2), result(6, "1", "1")),
    ]
    found = calibration_of(*rows)
    levels = [(each.confidence, each.pairs, each.right.value) for each in found.confidence]
    assert levels == [(2, 1, 1.0), (5, 2, 0.5)]
    assert (found.pairs, found.error) == (0, None)


def test_costs_are_of_runs_that_ended_by_themselves() -> None:
    spent = {"frames": 16, "new_tokens": 20, "prompt_tokens": 900}
    rows = [
        result(n, "1", "1", turns=n, seconds=float(n), left_view=n > 9 if n > 1 else None, **spent)
        for n in range(1, 12)
    ]
    starts = tuple(RunStart("", "local", 8, None, {}, *each) for each in ((0, 0.0), (6, 2.0, 3.5), (5, 3.5)))  # fmt: skip
    found = summarize([*rows, failed(20, "1")], made.run_of("csv", starts=starts)).costs
    assert (found.pairs, found.turns, found.frames) == (11, 6.0, 16.0)
    assert (found.seconds, found.median_seconds) == (6.0, 6.0)
    assert (found.pairs_an_hour, found.throughput, found.peak_gb) == (7200, 40, 3.5)
    assert (found.speed, found.left_view.value) == (pytest.approx(220 / 66), 2 / 10)
    unknown = summarize(rows).costs
    assert (unknown.pairs_an_hour, unknown.throughput, unknown.peak_gb) == (None, None, None)


def test_the_longest_tenths_and_the_rest_by_hand() -> None:
    """Rows 1 to 4 have the longest prompts, 37 to 40 the longest videos; 36 is as long as 37 if tied."""
    people = ["1102", *"1" * 32, "1021"]
    judge = ["1200", *"1" * 24, *"0" * 8, "1011"]
    said = zip("".join(people), "".join(judge), strict=True)
    rows = [
        result(n, *each, prompt=f"{n:03}{'.' * (50 if n < 5 else 0)}", clip_seconds=(n / 2, 3.0))
        for n, each in enumerate(said, start=1)
    ]
    found = {each.name: each for each in summarize(rows).subsets}
    figures = {
        name: (each.pairs, each.tau.value, each.diff and each.diff.value)
        for name, each in found.items()
    }
    assert figures == {LONG: (4, 3 / 4, 2 / 3), COMPLEX: (4, 2 / 4, 1 / 3), RESIDUAL: (32, 0.75, 0.75)}  # fmt: skip
    low, high = found[LONG].tau.low, found[LONG].tau.high
    assert low is not None and high is not None and low < 3 / 4 < high  # noqa: PT018
    tied = [replace(row, clip_seconds=(18.5, 3.0)) if n == 36 else row for n, row in enumerate(rows, 1)]  # fmt: skip
    assert summarize(tied).subsets[0].pairs == 5
    alike = [replace(row, clip_seconds=(4.0, 4.0)) for row in rows]
    assert [each.name for each in summarize(alike).subsets] == [COMPLEX]


def metric_of(
    first: list[PairResult], second: list[PairResult], metric: str
) -> agreement.MetricComparison:
    found = compare_judges(first, second).metrics
    return next(each for each in found if (each.dimension, each.metric) == (OA, metric))


def judged(people: str, said: str, name: str) -> list[PairResult]:
    labels = enumerate(zip(people, said, strict=True))
    return [result(n, *each, name=name) for n, each in labels]


def test_differences_by_hand() -> None:
    first, second = judged("112200", "112211", "a"), judged("112200", "100200", "b")
    tau, diff = metric_of(first, second, "tau"), metric_of(first, second, "diff")
    assert (tau.pairs, tau.first, tau.second) == (6, 4 / 6, 4 / 6)
    assert (tau.first_alone, tau.second_alone) == (2, 2)
    assert (tau.difference.value, tau.p) == (0.0, 1.0)
    assert (diff.pairs, diff.first, diff.second) == (4, 1.0, 0.5)
    assert (diff.first_alone, diff.second_alone) == (2, 0)
    assert (diff.difference.value, diff.p) == (0.5, 0.5)


def test_only_pairs_that_both_have_judged_count() -> None:
    first = [*judged("11", "11", "a"), failed(2, "1"), result(3, "1", "1"), broken(4, "1")]
    second = [*judged("11", "12", "b"), result(2, "1", "1"), failed(3, "1"), broken(4, "1")]
    second.append(result(9, "1", "1"))
    found = compare_judges(first, second)
    assert (found.shared, found.only_first, found.only_second) == (2, 1, 2)
    assert found.same == ((OA, 0.5),)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 7), (40, 25), (6000, 6300)])
def test_mcnemar_is_the_sign_test(first: int, second: int) -> None:
    count = first + second
    ways = accumulate(range(min(first, second)), lambda n, k: n * (count - k) // (k + 1), initial=1)
    tail = sum(ways)
    exact = pytest.approx(float(min(Fraction(1), Fraction(2 * tail, 2**count))), rel=1e-9)
    assert agreement.mcnemar(first, second) == agreement.mcnemar(second, first) == exact


def test_swapping_the_judges_turns_every_figure_round() -> None:
    first, second = simulate(200, 80, name="a"), simulate(200, 80, name="b")
    there, back = compare_judges(first, second), compare_judges(second, first)
    for mine, its in zip(there.metrics, back.metrics, strict=True):
        assert (mine.first, mine.second, mine.p) == (its.second, its.first, its.p)
        assert mine.difference.low == pytest.approx(-(its.difference.high or 0.0))
    shuffled = [random.Random(7).sample(rows, len(rows)) for rows in (first, second)]
    assert compare_judges(*shuffled) == there
    for each in compare_judges(first, first).metrics:
        assert (each.difference.value, each.p) == (0.0, 1.0)
        assert 0 < (each.difference.high or 0.0) == -(each.difference.low or 0.0) < 0.15


def test_different_data_sets_are_refused() -> None:
    with pytest.raises(BadInput, match="No pair was judged by all"):
        compare_judges([result(1, "1", "1")], [result(2, "1", "1")])
    with pytest.raises(BadInput, match="labels differ in 1 of the shared pairs, first in row 1"):
        compare_judges([result(1, "1", "1")], [result(1, "2", "1")])


@pytest.mark.parametrize(
    ("data_set", "rows", "tau", "diff"),
    [
        *(("genai-bench", rows, 0.687, 0.823) for rows in (1889, 1069)),
        ("videogen-reward", 26_500, 0.718, 0.805),
        ("mj-bench-video", 1085, 0.673, 0.756),
    ],
)
def test_the_table_is_given_for_the_whole_set(
    data_set: str, rows: int, tau: float, diff: float
) -> None:
    for metric, value in (("tau", tau), ("diff", diff)):
        *_, last = models = published(data_set, metric, rows, 0)
        assert (len(models), last.model, last.value) == (7, "VR-Thinker 7B", pytest.approx(value))


def test_a_part_of_a_set_or_another_set_has_none() -> None:
    for rest in (("genai-bench", 60, 0), ("genai-bench", 1889, 400), ("csv", 1889, 0)):
        data_set, rows, missing = rest
        assert published(data_set, "tau", rows, missing) == ()
    assert "left out" in published_remark("genai-bench", 60, 0)
    assert published_remark("csv", 60, 0) == ""
    assert summarize([result(1, "1", "1")], made.run_of("genai-bench")).published_tau == ()


def intervals(right: np.ndarray, prompts: np.ndarray) -> list[IntervalEstimate]:
    """One for each row of `right`."""
    rows = {number: (row, np.ones(len(row))) for number, row in enumerate(right)}
    found = estimate_ratios(rows, prompts)
    return [estimate for estimate in found.values() if estimate is not None]


def coverage(estimates: list[IntervalEstimate], truth: float) -> float:
    ends = [(each.low, each.high) for each in estimates if None not in (each.low, each.high)]
    return float(np.mean([low <= truth <= high for low, high in ends]))  # type: ignore[operator]


def test_an_interval_holds_the_truth_in_95_of_100_cases() -> None:
    right = np.random.default_rng(1).random((300, 200)) < 0.7
    assert 0.9 <= coverage(intervals(right, np.arange(200)), 0.7) <= 0.99


def test_pairs_of_one_prompt_are_drawn_together() -> None:
    """Eight pairs of each prompt are right together: the interval over prompts is honest, the one over rows far too narrow."""
    whole = np.random.default_rng(2).random((300, 100)) < 0.6
    right, prompts = np.repeat(whole, 8, axis=1), np.repeat(np.arange(100), 8)
    assert 0.9 <= coverage(intervals(right, prompts), 0.6) <= 0.99
    assert coverage(intervals(right, np.arange(800)), 0.6) < 0.7


@pytest.mark.parametrize("count", [2, 6, 50])
def test_all_right_has_the_exact_lower_end(count: int) -> None:
    """The share below which all right has a probability under 2.5 %, and the same turned round for all wrong."""
    [perfect] = intervals(np.ones((1, count)), np.arange(count))
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low**count == pytest.approx(0.025)
    [wrong] = intervals(np.zeros((1, count)), np.arange(count))
    assert (wrong.low, wrong.high) == (0.0, pytest.approx(1 - agreement.exact_end(count)))


@pytest.mark.parametrize("count", [2, 5, 6, 50])
@pytest.mark.parametrize("gain", [1 / 3, 1.0])
def test_a_difference_in_all_prompts_is_clear_as_in_the_sign_test(gain: float, count: int) -> None:
    gained, pairs = np.full(count, gain * 6), np.full(count, 6.0)
    both = {"more": (gained, pairs), "less": (-gained, pairs)}
    found = estimate_ratios(both, np.arange(count), least=-1.0)
    more, less = found["more"], found["less"]
    assert (more.low > 0) is (2 * 0.5**count < 0.05)
    assert more.low < gain <= more.high <= 1
    assert (less.low, less.high) == pytest.approx((-more.high, -more.low))


def test_no_difference_in_any_prompt_is_as_unsure_on_either_side() -> None:
    found = estimate_ratios({"none": (np.zeros(8), np.ones(8))}, np.arange(8), least=-1.0)
    high = 1 - agreement.exact_end(8)
    assert found == {"none": IntervalEstimate(0.0, pytest.approx(-high), pytest.approx(high))}


def test_a_single_prompt_has_no_interval_and_nothing_below_the_line_no_figure() -> None:
    ones = np.ones(4)
    rows = {"one": (ones, ones), "none": (ones * 0, ones * 0)}
    found = estimate_ratios(rows, np.zeros(4, dtype=np.int64))
    assert found == {"one": IntervalEstimate(1.0), "none": None}
    nothing = estimate_ratios({"none": (np.ones(0), np.ones(0))}, np.zeros(0, dtype=np.int64))
    assert nothing == {"none": None}
