"""Published numbers stand only beside results of the same set."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.evaluation.support.made_results import left_out, result
from vrthinker_core.evaluation.agreement import IntervalEstimate, estimate_ratios, exact_end
from vrthinker_core.evaluation.figures import best_baseline, share
from vrthinker_core.evaluation.summary import PUBLISHED, published, published_remark, summarize


@pytest.mark.parametrize(
    ("data_set", "rows", "model", "tau", "diff"),
    [
        ("genai-bench", 1889, "VR-Thinker 7B", 0.687, 0.823),
        ("genai-bench", 1069, "LiFT 13B", 0.381, 0.594),
        ("videogen-reward", 26_500, "VideoScore 7B", 0.419, 0.502),
        ("mj-bench-video", 1085, "UnifiedReward-Think 7B", 0.628, 0.719),
    ],
)
def test_the_table_is_given_for_the_whole_set(
    data_set: str, rows: int, model: str, tau: float, diff: float
) -> None:
    scores = [
        {each.model: each.value for each in published(data_set, metric, rows, 0)}
        for metric in ("tau", "diff")
    ]
    assert [each[model] for each in scores] == [pytest.approx(tau), pytest.approx(diff)]
    assert all(len(each) == 7 for each in scores)


def test_a_part_of_a_set_or_another_set_has_none() -> None:
    assert published("genai-bench", "tau", 60, 0) == ()
    assert published("genai-bench", "tau", 1889, 400) == (), (
        "videos that are missing make it another set"
    )
    assert published("csv", "tau", 1889, 0) == ()
    assert "left out" in published_remark("genai-bench", 60, 0)
    assert published_remark("csv", 60, 0) == ""
    assert summarize([result(1, "1", "1")], data_set="genai-bench").published_tau == ()


def test_what_must_be_known_is_said_beside_the_numbers() -> None:
    assert "which one" in published_remark("genai-bench", 1069, 0)
    assert max(each.value for each in PUBLISHED["mj-bench-video", "tau"]) < 0.884


def test_what_a_constant_answer_scores_is_the_baseline_of_the_same_report() -> None:
    people = ["0"] * 959 + ["1"] * 72 + ["2"] * 46
    rows = [
        *(result(n, label, "0") for n, label in enumerate(people)),
        *(left_out(n) for n in range(1077, 1085)),
    ]
    summary = summarize(rows, data_set="mj-bench-video")
    assert summary.published_tau, "it is the whole set"
    tau, remark = share(best_baseline(summary.agreement[0]).tau), summary.published_remark
    assert f"a tau of {tau} on the 1,077 rows that count" in remark
    assert f"({share(959 / 1085)} with those that were hard to judge counted as wrong)" in remark


def test_our_tau_of_the_same_labels_is_the_plain_share_whatever_the_order() -> None:
    chance = random.Random(4)
    labels = [(chance.choice("0012"), chance.choice("0012")) for _ in range(300)]
    results = [result(n, people, judge) for n, (people, judge) in enumerate(labels)]
    plain = sum(people == judge for people, judge in labels) / len(labels)
    for order in (results, sorted(results, key=lambda each: each.pair.labels.OA or 0)):
        assert summarize(order).agreement[0].tau.value == plain


def intervals(right: np.ndarray, prompts: np.ndarray, seed: int = 0) -> list[IntervalEstimate]:
    """One for each row of `right`."""
    rows = {number: (row, np.ones(len(row))) for number, row in enumerate(right)}
    found = estimate_ratios(rows, prompts, seed=seed)
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


def test_equal_seeds_give_equal_ends() -> None:
    right = np.random.default_rng(3).random((9, 83)) < 0.5
    first, again, other = (intervals(right, np.arange(83), seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("count", [2, 6, 50])
def test_all_right_has_the_exact_lower_end(count: int) -> None:
    """The share below which all right has a probability under 2.5 %, and the same turned round for all wrong."""
    [perfect] = intervals(np.ones((1, count)), np.arange(count))
    assert (perfect.value, perfect.high) == (1.0, 1.0)
    assert perfect.low**count == pytest.approx(0.025)
    [wrong] = intervals(np.zeros((1, count)), np.arange(count))
    assert (wrong.low, wrong.high) == (0.0, pytest.approx(1 - exact_end(count)))


@pytest.mark.parametrize("count", [2, 5, 6, 50])
@pytest.mark.parametrize("gain", [1 / 3, 1.0])
def test_a_difference_that_all_prompts_share_is_clear_where_the_sign_test_finds_it_so(
    gain: float, count: int
) -> None:
    gained, pairs = np.full(count, gain * 6), np.full(count, 6.0)
    both = {"more": (gained, pairs), "less": (-gained, pairs)}
    found = estimate_ratios(both, np.arange(count), least=-1.0)
    more, less = found["more"], found["less"]
    assert (more.low > 0) is (2 * 0.5**count < 0.05)
    assert more.low < gain <= more.high <= 1
    assert (less.low, less.high) == pytest.approx((-more.high, -more.low))


def test_no_difference_in_any_prompt_is_as_unsure_on_either_side() -> None:
    found = estimate_ratios({"none": (np.zeros(8), np.ones(8))}, np.arange(8), least=-1.0)
    high = 1 - exact_end(8)
    assert found == {"none": IntervalEstimate(0.0, pytest.approx(-high), pytest.approx(high))}


def test_a_single_prompt_has_no_interval_and_nothing_below_the_line_no_figure() -> None:
    ones = np.ones(4)
    rows = {"one": (ones, ones), "none": (ones * 0, ones * 0)}
    found = estimate_ratios(rows, np.zeros(4, dtype=np.int64))
    assert found == {"one": IntervalEstimate(1.0), "none": None}
    nothing = estimate_ratios({"none": (np.ones(0), np.ones(0))}, np.zeros(0, dtype=np.int64))
    assert nothing == {"none": None}
