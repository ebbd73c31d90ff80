"""Published numbers stand only beside results of the same set."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.evaluation.support.made_results import left_out, result
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import IntervalEstimate, estimate_ratios, exact_end
from vrthinker_core.evaluation.figures import best_baseline, share
from vrthinker_core.evaluation.summary import PUBLISHED, published, published_remark, summarize
from vrthinker_core.evaluation.tie_threshold import TieThreshold, tie_threshold


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


Pair = tuple[float, int]  # Gap, and people's label


def row_by_row(pairs: list[Pair]) -> float:
    """How published code fits ties, in our words: pairs in the order of their gaps, and a threshold that may fall after any row."""
    # Stable: equal gaps keep the order of the rows
    ordered = sorted(pairs, key=lambda pair: abs(pair[0]))
    right = [label == (1 if gap > 0 else 2) and gap != 0 for gap, label in ordered]
    best = max(
        sum(label == 0 for _, label in ordered[:cut]) + sum(right[cut:])
        for cut in range(len(pairs) + 1)
    )
    return best / len(pairs)


def discrete(rows: int, skill: float) -> list[Pair]:
    """A judge that says 1, 2 or tie (a gap of 1, -1 or 0), and is right as often as `skill` says."""
    generator, pairs, gaps = random.Random(4), [], (0.0, 1.0, -1.0)
    for truth in generator.choices((0, 1, 2), (0.48, 0.26, 0.26), k=rows):
        right = generator.random() < skill
        said = truth if right else generator.choice([x for x in (0, 1, 2) if x != truth])
        pairs.append((gaps[said], truth))
    return pairs


@pytest.mark.parametrize("skill", [0.732, 1 / 3])
def test_fitting_row_by_row_moves_with_the_order_and_ours_does_not(skill: float) -> None:
    """The trap: with human ties first, the published fit adds points to a good judge, and more than twenty-five to a coin."""
    rows = discrete(500, skill)
    ties_first, ties_last = (
        sorted(rows, key=lambda pair: (pair[1] == 0) is not first) for first in (True, False)
    )
    assert row_by_row(ties_first) - row_by_row(ties_last) > (0.1 if skill < 0.5 else 0.05)
    assert row_by_row(ties_first) > skill + (0.25 if skill < 0.5 else 0.05)
    fitted = {tie_threshold(*zip(*order, strict=True)) for order in (rows, ties_first, ties_last)}
    assert len(fitted) == 1


def test_our_tau_of_the_same_labels_is_the_plain_share_whatever_the_order() -> None:
    rows = discrete(300, 0.732)
    named = {0.0: "0", 1.0: "1", -1.0: "2"}
    results = [result(n, str(label), named[gap]) for n, (gap, label) in enumerate(rows)]
    plain = sum(named[gap] == str(label) for gap, label in rows) / len(rows)
    for order in (results, sorted(results, key=lambda each: each.pair.labels.OA or 0)):
        assert summarize(order).agreement[0].tau.value == plain


def best_of_all(pairs: list[Pair]) -> float:
    """Every threshold, tried one by one."""

    def score(most: float) -> int:
        return sum(
            label == (0 if abs(gap) <= most else 1 if gap > 0 else 2) for gap, label in pairs
        )

    return max(score(most) for most in {0.0, *(abs(gap) for gap, _ in pairs)}) / len(pairs)


@pytest.mark.parametrize("seed", range(20))
def test_no_other_threshold_is_better(seed: int) -> None:
    generator = random.Random(seed)
    pairs = [(round(generator.gauss(0, 1), 1), generator.choice((0, 1, 2))) for _ in range(40)]
    fitted = tie_threshold([gap for gap, _ in pairs], [label for _, label in pairs])
    assert fitted.tau == pytest.approx(best_of_all(pairs))
    said = [0 if abs(gap) <= fitted.gap else 1 if gap > 0 else 2 for gap, _ in pairs]
    assert sum(
        mine == label for mine, (_, label) in zip(said, pairs, strict=True)
    ) / 40 == pytest.approx(fitted.tau)


def test_the_smallest_of_several_is_taken() -> None:
    assert tie_threshold([0.1, 0.2, -3.0], [0, 0, 2]) == TieThreshold(0.2, 1.0)
    assert tie_threshold([1.0, -1.0], [1, 2]) == TieThreshold(0.0, 1.0)


@pytest.mark.parametrize(("gaps", "labels"), [([], []), ([1.0], [1, 2]), ([float("nan")], [1])])
def test_what_nothing_can_be_fitted_on_is_refused(gaps: list[float], labels: list[int]) -> None:
    with pytest.raises(BadInput, match="fitted"):
        tie_threshold(gaps, labels)


def intervals(right: np.ndarray, prompts: np.ndarray, seed: int = 0) -> list[IntervalEstimate]:
    """One for each row of `right`."""
    ones = np.ones(right.shape[1])
    found = estimate_ratios(
        {number: (row, ones) for number, row in enumerate(right)}, prompts, seed=seed
    )
    return [estimate for estimate in found.values() if estimate is not None]


def coverage(estimates: list[IntervalEstimate], truth: float) -> float:
    return float(
        np.mean(
            [
                each.low <= truth <= each.high
                for each in estimates
                if each.low is not None and each.high is not None
            ]
        )
    )


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


@pytest.mark.parametrize("count", [2, 5, 6, 7, 9, 50])
@pytest.mark.parametrize("gain", [0.5, 1 / 3, 1.0])
def test_a_difference_that_all_prompts_share_is_clear_where_the_sign_test_finds_it_so(
    gain: float, count: int
) -> None:
    gained, pairs = np.full(count, gain * 6), np.full(count, 6.0)
    found = estimate_ratios(
        {"more": (gained, pairs), "less": (-gained, pairs)}, np.arange(count), least=-1.0
    )
    more, less = found["more"], found["less"]
    assert (more.low > 0) is (2 * 0.5**count < 0.05)
    assert more.low < gain <= more.high <= 1
    assert (less.low, less.high) == pytest.approx((-more.high, -more.low))


def test_no_difference_in_any_prompt_is_as_unsure_on_either_side() -> None:
    found = estimate_ratios({"none": (np.zeros(8), np.ones(8))}, np.arange(8), least=-1.0)
    assert found == {
        "none": IntervalEstimate(
            0.0, pytest.approx(exact_end(8) - 1), pytest.approx(1 - exact_end(8))
        )
    }


def test_a_single_prompt_has_no_interval_and_nothing_below_the_line_no_figure() -> None:
    ones = np.ones(4)
    found = estimate_ratios(
        {"one": (ones, ones), "none": (ones * 0, ones * 0)}, np.zeros(4, dtype=np.int64)
    )
    assert found == {"one": IntervalEstimate(1.0), "none": None}
    assert estimate_ratios({"none": (np.ones(0), np.ones(0))}, np.zeros(0, dtype=np.int64)) == {
        "none": None
    }
