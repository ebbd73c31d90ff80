"""What a pair costs: frames, turns, tokens and seconds of its run, the first order alone where it was judged in both."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vrthinker_core.evaluation.scores.labels import LabelTable

SECOND_BINS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # Lower edges; the last bin is open


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over pairs."""

    mean: float
    median: float
    p90: float
    total: float


@dataclass(frozen=True, slots=True)
class SecondsBin:
    """Pairs that took from `low` seconds to below `high`; None for the open end."""

    low: float
    high: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Over pairs whose run came to its own end."""

    pairs: int
    frames: Spread  # Pictures shown to the judge
    turns: Spread
    prompt_tokens: Spread  # Of all turns, each as it was sent
    new_tokens: Spread
    seconds: Spread
    turn_counts: tuple[tuple[int, int], ...]  # Turns, and how many pairs took so many
    second_bins: tuple[SecondsBin, ...]


def costs(table: LabelTable) -> Costs | None:
    """None where no run came to its own end."""
    runs = [result for result in table.results if result.judged]
    if not runs:
        return None
    turns, seconds = [run.turns for run in runs], [run.seconds for run in runs]
    return Costs(
        len(runs),
        _spread([run.frames for run in runs]),
        _spread(turns),
        _spread([run.prompt_tokens for run in runs]),
        _spread([run.new_tokens for run in runs]),
        _spread(seconds),
        tuple((number, turns.count(number)) for number in range(min(turns), max(turns) + 1)),
        _second_bins(np.asarray(seconds)),
    )


def _spread(values: Sequence[float]) -> Spread:
    numbers = np.sort(
        np.asarray(values, dtype=np.float64)
    )  # a sum of floats depends on their order
    median, p90 = np.percentile(numbers, (50, 90))
    return Spread(float(numbers.mean()), float(median), float(p90), float(numbers.sum()))


def _second_bins(seconds: np.ndarray) -> tuple[SecondsBin, ...]:
    highs = (*SECOND_BINS[1:], None)
    bins = [
        SecondsBin(
            low,
            high,
            int(((seconds >= low) & (seconds < (np.inf if high is None else high))).sum()),
        )
        for low, high in zip(SECOND_BINS, highs, strict=True)
    ]
    filled = [position for position, each in enumerate(bins) if each.pairs]
    return tuple(bins[filled[0] : filled[-1] + 1]) if filled else ()
