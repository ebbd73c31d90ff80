"""What a whole data set will take, from a small sample of it that has been judged."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result import PairResult
from vrthinker_core.types.progress import count, duration

SEED = 0
RESAMPLES = 2000  # Of the bootstrap
SHARES = (0.025, 0.5, 0.975)  # The ends and the middle of a 95 % interval

Interval = tuple[float, float, float]
"""Low end, middle, high end."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Totals of a whole data set, each with its 95 % interval."""

    sample: int  # Pairs that were judged for it
    failed: int  # Of these
    seconds: float  # That they took together
    pairs: int  # Of the whole
    turns: Interval
    prompt_tokens: Interval
    new_tokens: Interval
    hours: Interval

    def lines(self) -> Iterator[str]:
        """The estimate as a person reads it."""
        yield f"{count(self.sample, 'pair')} judged in {duration(self.seconds)}, {self.failed} failed."
        yield "The whole, with 95 % intervals:"
        yield f"  pairs           {self.pairs:,}"
        yield f"  turns           {_interval_text(self.turns)}"
        yield f"  tokens read     {_interval_text(self.prompt_tokens)}"
        yield f"  tokens written  {_interval_text(self.new_tokens)}"
        yield f"  hours           {_interval_text(self.hours, 2 if self.hours[1] < 10 else 0)}"


def take_sample(pairs: Sequence[EvaluationPair], size: int) -> list[EvaluationPair]:
    """That many of the pairs that can be judged, drawn at random and always the same."""
    fit = sorted(
        (pair for pair in pairs if not (pair.fault or pair.left_out)), key=lambda pair: pair.id
    )
    return random.Random(SEED).sample(fit, min(size, len(fit)))


def estimate(sample: Sequence[PairResult], pairs: int, seconds: float) -> Estimate:
    """What `pairs` pairs take, from the results of at least one of them, judged in `seconds` as all will be.

    Intervals are those of the mean of the sample, by bootstrap: they say nothing of a machine that grows slower.
    """
    import numpy as np

    values = np.array(
        [[r.turns, r.prompt_tokens, r.new_tokens, r.seconds] for r in sample], dtype=float
    ).T
    drawn = np.random.default_rng(SEED).integers(0, len(sample), (RESAMPLES, len(sample)))
    totals = values[:, drawn].mean(axis=2) * pairs
    own = values[3].sum()
    totals[3] *= (seconds / own if own else 0.0) / 3600
    turns, prompt_tokens, new_tokens, hours = (
        _interval(np.quantile(row, SHARES).tolist()) for row in totals
    )
    failed = sum(not result.judged for result in sample)
    return Estimate(len(sample), failed, seconds, pairs, turns, prompt_tokens, new_tokens, hours)


def _interval(values: list[float]) -> Interval:
    low, middle, high = values
    return low, middle, high


def _interval_text(interval: Interval, decimals: int = 0) -> str:
    low, middle, high = (f"{value:,.{decimals}f}" for value in interval)
    return f"{middle} ({low} to {high})"
