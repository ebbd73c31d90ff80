"""Generators of known strengths, and judges that know the truth: outcomes are drawn, no video is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

import numpy as np

from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Preference, StopReason, Verdict

TIES = 0.3  # The tie parameter of the model
Judge = Callable[[EvaluationPair], Preference]


def table_of(generators: Iterable[str], prompts: int) -> VideoTable:
    """A table of videos that are never opened."""
    generators, names = tuple(sorted(generators)), [f"clip{number:03}" for number in range(prompts)]
    videos = {end: "/".join(end) + ".mp4" for end in product(generators, names)}
    return VideoTable(generators, {name: f"Prompt {name}." for name in names}, videos)


def noisy_judge(strengths: Mapping[str, float], seed: int) -> Judge:
    """Labels drawn from Davidson's model."""
    rng = np.random.default_rng(seed)

    def judge(pair: EvaluationPair) -> Preference:
        lead = strengths[pair.first_generator] - strengths[pair.second_generator]
        weights = np.array([2 * TIES, np.exp(lead / 2), np.exp(-lead / 2)])
        return Preference(int(rng.choice(3, p=weights / weights.sum())))

    return judge


def judged(
    pair: EvaluationPair, label: Preference, swapped: Preference | None = None
) -> PairResult:
    """The result of a pair with an overall label alone."""
    other = None if swapped is None else Verdict(OA=swapped)
    return PairResult(pair, "simulated", StopReason.ANSWERED, Verdict(OA=label), swapped=other)


def engine_of(
    judge: Judge, asked: list[str] | None = None
) -> Callable[[Iterable[EvaluationPair]], Iterator[PairResult]]:
    """An engine for `evaluate`; `asked` collects the ids."""

    def engine(pairs: Iterable[EvaluationPair]) -> Iterator[PairResult]:
        for pair in pairs:
            if asked is not None:
                asked.append(pair.id)
            yield judged(pair, judge(pair))

    return engine
