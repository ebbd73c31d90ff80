"""95 % intervals by the bootstrap: prompts are drawn with replacement, not rows, for pairs of one prompt are alike."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.evaluation.scores.labels import Numbers

RESAMPLES = 1000
TAIL = 0.025  # Below and above a 95 % interval
DRAWS = 2**20  # Prompts that are drawn at a time, which bounds the memory

Key = TypeVar("Key")
Column = NDArray[Any]
Ratio = tuple[Column, Column]
"""Numerator and denominator of each row: the figure is the sum of the one over the sum of the other."""


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A figure with its 95 % interval; no ends where fewer than two prompts have a say."""

    value: float
    low: float | None = None
    high: float | None = None


def estimate_ratios(
    ratios: Mapping[Key, Ratio], prompts: NDArray[np.int64], *, seed: int = 0, least: float = 0.0
) -> dict[Key, IntervalEstimate | None]:
    """Every ratio with its interval, over the same draws; None where nothing stands below the line.

    Equal seeds give equal draws. Ends are the 2.5 and 97.5 percentiles. A ratio that is the same in every prompt is the same in
    every draw. Then as few prompts are taken to be like that as the exact binomial interval allows, and the figure to be `least`
    or 1 in all others: 0 or 1 for a share, -1 or 1 for a difference. Towards 0 a difference is as large the other way in these, and
    so is clear exactly where the sign test finds it so.
    """
    if not ratios or not len(prompts):
        return dict.fromkeys(ratios)
    above = np.column_stack([_by_prompt(ratio[0], prompts) for ratio in ratios.values()])
    below = np.column_stack([_by_prompt(ratio[1], prompts) for ratio in ratios.values()])
    drawn = _draw_ratios(above, below, seed)
    return {
        key: _estimate(above[:, at], below[:, at], drawn[:, at], least)
        for at, key in enumerate(ratios)
    }


def exact_end(count: int) -> float:
    """The lower end of the exact 95 % interval of a share that is 1 in all of `count` independent draws."""
    return float(TAIL ** (1 / count))


def _by_prompt(rows: Column, prompts: NDArray[np.int64]) -> Numbers:
    return np.bincount(prompts, weights=rows.astype(np.float64)).astype(np.float64)


def _draw_ratios(above: Numbers, below: Numbers, seed: int) -> Numbers:
    """The ratios of each draw, a row for each."""
    sums = np.concatenate(
        [
            counts.astype(np.float64) @ np.hstack((above, below))
            for counts in _draw(len(above), seed)
        ]
    )
    numerators, denominators = np.hsplit(sums, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)


def _draw(prompts: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """How often each prompt is drawn in each draw, some draws at a time."""
    generator = np.random.default_rng(seed)
    at_once = max(1, DRAWS // prompts)
    for start in range(0, RESAMPLES, at_once):
        size = min(at_once, RESAMPLES - start)
        drawn = generator.integers(0, prompts, (size, prompts)) + prompts * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * prompts).reshape(size, prompts)


def _estimate(
    above: Numbers, below: Numbers, drawn: Numbers, least: float
) -> IntervalEstimate | None:
    if below.sum() <= 0:
        return None
    value, voices = float(above.sum() / below.sum()), int((below > 0).sum())
    if voices < 2:
        return IntervalEstimate(value)
    if np.allclose(above, value * below, rtol=0.0, atol=1e-9):
        alike = exact_end(voices)
        others = max(least, -value) if value > 0 else least, -value if value < 0 else 1.0
        return IntervalEstimate(value, *(alike * value + (1 - alike) * other for other in others))
    low, high = (float(end) for end in np.nanpercentile(drawn, (100 * TAIL, 100 - 100 * TAIL)))
    return IntervalEstimate(value, low, high)
