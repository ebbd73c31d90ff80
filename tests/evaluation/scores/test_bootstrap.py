"""Intervals hold the truth as often as they say, over prompts and not over rows, and equal seeds give equal ends."""

from __future__ import annotations

import numpy as np
import pytest

from vrthinker_core.evaluation.agreement import IntervalEstimate, estimate_ratios, exact_end


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
    assert perfect.low is not None
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
    assert more is not None
    assert less is not None
    assert more.low is not None
    assert more.high is not None
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
