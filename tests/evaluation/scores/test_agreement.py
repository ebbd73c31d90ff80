"""tau, diff and tie rates: counted by hand, whatever the order of the rows, and beside answers that need no look."""

from __future__ import annotations

import random

import pytest

from tests.evaluation.support.made_results import broken, failed, left_out, result, simulate
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import COIN, COIN_OF_TWO, DimensionAgreement
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension, StopReason


def overall(*results: PairResult) -> DimensionAgreement:
    return {each.dimension: each for each in summarize(results).agreement}[Dimension.OA]


def test_tau_and_diff_by_hand() -> None:
    """Right: 1, 2 and one tie of seven; of the five that people decide, 1 and 2, and the tie said of the third is wrong."""
    found = overall(
        result(1, "1", "1"), result(2, "2", "2"), result(3, "1", "0"), result(4, "2", "1"),
        result(5, "0", "0"), result(6, "0", "2"), result(7, "1", "2"),
    )  # fmt: skip
    assert found.tau.value == 3 / 7
    assert found.diff.value == 2 / 5
    assert (found.labelled, found.decided, found.answered) == (7, 5, 7)
    assert (found.tie_rate.value, found.people_tie_rate.value) == (2 / 7, 2 / 7)
    assert found.tie_rate.low < 2 / 7
    assert found.confusion == ((1, 0, 1, 0), (1, 1, 1, 0), (0, 1, 1, 0))


def test_a_pair_without_an_answer_is_wrong_and_counted_beside() -> None:
    answered = [result(1, "1", "1"), result(2, "0", "0")]
    silent = [
        failed(3, "0"),
        result(4, "1", None, stop=StopReason.TURN_LIMIT),
        result(5, "2", "---"),
    ]
    found = overall(*answered, *silent)
    assert found.tau.value == 2 / 5
    assert found.diff.value == 1 / 3
    assert (found.answered, found.labelled) == (2, 5)
    assert found.tie_rate.value == 1 / 2, "a label that was never said is no tie"
    assert [row[3] for row in found.confusion] == [1, 1, 1]


def test_a_verdict_of_a_run_that_failed_does_not_count() -> None:
    assert (
        overall(
            result(1, "1", "1"), result(2, "1", "1", stop=StopReason.FAILED, fault="BackendFailed")
        ).answered
        == 1
    )


def test_broken_rows_and_rows_left_out_stand_outside() -> None:
    rows = [result(1, "1", "1"), result(2, "2", "1")]
    found = summarize([*rows, broken(3, "1"), left_out(4), left_out(5)])
    assert found.agreement == summarize(rows).agreement
    assert (found.counts.rows, found.counts.broken, found.counts.left_out, found.counts.pairs) == (
        5,
        1,
        2,
        2,
    )


def test_every_pair_is_counted_once() -> None:
    found = summarize(
        [
            result(1, "1", "1"),
            result(2, "1", "0", provisional=True, forced=True),
            result(3, "1", "1---"),
            result(4, "1", None, stop=StopReason.NO_ANSWER),
            failed(5, "1"),
            failed(6, "1", "VideoError"),
            failed(7, "1"),
            result(8, "1", None, stop=StopReason.CANCELLED),
        ]
    ).counts
    assert (found.answered, found.unanswered, found.failed, found.cancelled) == (3, 1, 3, 1)
    assert found.pairs == 8
    assert (found.partial, found.provisional, found.forced) == (3, 1, 1)
    assert found.faults == (("BackendFailed", 2), ("VideoError", 1))


def test_provisional_verdicts_count_and_are_said() -> None:
    found = overall(result(1, "1", "1", provisional=True), result(2, "1", "1"))
    assert (found.tau.value, found.provisional) == (1.0, 1)


def test_a_dimension_without_labels_is_left_out() -> None:
    assert [each.dimension for each in summarize([result(1, "1", "1111")]).agreement] == [
        Dimension.OA
    ]
    found = summarize([result(1, "1---", "1---")])
    assert [each.dimension for each in found.agreement] == [Dimension.TA]
    assert found.dimension is Dimension.TA


def test_without_labels_there_is_no_agreement_and_all_the_rest() -> None:
    found = summarize([result(1, "-", "1111", turns=2), result(2, "-", "1222", turns=3)])
    assert found.agreement == ()
    assert found.costs.turns.mean == 2.5
    assert found.position[0].first.value == 1.0


def test_only_broken_rows_are_a_summary_without_figures() -> None:
    found = summarize([broken(1, "1")])
    assert (found.counts.pairs, found.agreement, found.costs) == (0, (), None)


def test_no_result_is_no_summary() -> None:
    with pytest.raises(BadInput, match="no result"):
        summarize([])


def test_baselines_are_what_such_answers_score() -> None:
    """Each baseline against results in which a judge really answers so; the coin against all ways it can fall."""
    people = ["1", "1", "1", "2", "0", "0"]
    found = {
        each.name: each
        for each in overall(*[result(n, label, "1") for n, label in enumerate(people)]).baselines
    }
    for name, label in {"always tie": "0", "always 1": "1", "always 2": "2"}.items():
        real = overall(*[result(n, truth, label) for n, truth in enumerate(people)])
        assert (found[name].tau, found[name].diff) == (real.tau.value, real.diff.value)
    for name, sides in {COIN: "012", COIN_OF_TWO: "12"}.items():
        right = [sum(truth == side for side in sides) / len(sides) for truth in people]
        assert found[name].tau == pytest.approx(sum(right) / 6)
        assert found[name].diff == pytest.approx(sum(right[:4]) / 4)


def test_the_margin_is_over_the_best_baseline() -> None:
    found = overall(
        *[
            result(n, truth, judge)
            for n, (truth, judge) in enumerate(["00", "00", "01", "11", "22"])
        ]
    )
    assert found.margin.value == pytest.approx(4 / 5 - 3 / 5)


@pytest.mark.parametrize("seed", range(3))
def test_no_figure_depends_on_the_order_of_the_rows(seed: int) -> None:
    rows = simulate(240, 60)
    shuffled = random.Random(seed).sample(rows, len(rows))
    ties_first = sorted(rows, key=lambda each: each.pair.labels.OA or 0)
    assert summarize(shuffled) == summarize(ties_first) == summarize(rows)
