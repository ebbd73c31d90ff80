"""Scores, win rates, wins and ties of judged pairs in one dimension."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.results.result import MissingRule, PairResult
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict

Counts = NDArray[np.float64]


def as_counted(results: Iterable[PairResult], missing: MissingRule) -> Iterator[PairResult]:
    """Give results as they count: by "loses", an unreadable video has lost."""
    for result in results:
        if missing == "loses" and result.unreadable_generator:
            won = Verdict(*[Preference(result.unreadable[0].other)] * len(Dimension))
            yield replace(result, stop=StopReason.ANSWERED, verdict=won, swapped=None, fault="")
        else:
            yield result


def _labels(dimension: Dimension, *verdicts: Verdict | None) -> list[Preference]:
    labels = (dict(verdict)[dimension] for verdict in verdicts if verdict is not None)
    return [label for label in labels if label is not None]


def pair_score(dimension: Dimension, *verdicts: Verdict | None) -> float | None:
    """Score the first video: 1, 0.5 (tie) or 0; None if unlabelled.

    With verdicts of both orders, which name the same sides, it is the mean.
    """
    scores = {Preference.FIRST: 1.0, Preference.TIE: 0.5, Preference.SECOND: 0.0}
    labels = _labels(dimension, *verdicts)
    return sum(scores[label] for label in labels) / len(labels) if labels else None


def win_rates(
    videos: int, scores: Mapping[tuple[int, int], float | None]
) -> tuple[float | None, ...]:
    """Compute win rates, 0 to 1, from scores of pairs (first, second).

    A video's rate is the mean over its pairs with a score; None without any.
    """
    won: list[list[float]] = [[] for _ in range(videos)]
    for (first, second), score in scores.items():
        if score is not None:
            won[first].append(score)
            won[second].append(1 - score)
    return tuple(sum(each) / len(each) if each else None for each in won)


@dataclass(frozen=True, slots=True)
class WinCounts:
    """Wins and ties in one dimension. Of a pair judged in both orders, each order counts half."""

    generators: tuple[str, ...]
    prompts: tuple[str, ...]  # as texts: several videos of one prompt are resampled together
    wins: Counts  # [prompt, i, j]: how often generator i beat j
    ties: Counts  # [prompt, i, j], the same as [prompt, j, i]


def count_wins(
    results: Iterable[PairResult],
    generators: Sequence[str],
    dimension: Dimension,
    weights: Mapping[str, float] = {},
) -> WinCounts:
    """Count wins and ties, weighted by the ids of pairs. The order of results is irrelevant."""
    said = [
        (result.pair, _labels(dimension, result.verdict, result.swapped))
        for result in results
        if result.judged
    ]
    prompts = sorted({pair.prompt for pair, labels in said if labels})
    place = {name: number for number, name in enumerate(generators)}
    row = {prompt: number for number, prompt in enumerate(prompts)}
    wins, ties = (np.zeros((len(prompts), len(place), len(place))) for _ in range(2))
    for pair, labels in said:
        first, second = place[pair.first_generator], place[pair.second_generator]
        for label in labels:
            share, at = weights.get(pair.id, 1.0) / len(labels), row[pair.prompt]
            if label is Preference.TIE:
                ties[at, first, second] += share
                ties[at, second, first] += share
            elif label is Preference.FIRST:
                wins[at, first, second] += share
            else:
                wins[at, second, first] += share
    return WinCounts(tuple(generators), tuple(prompts), wins, ties)
