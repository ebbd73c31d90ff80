"""What judged pairs say in one dimension: the score of a pair, win rates of a few videos, wins and ties of generators."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.results.result import MissingRule, PairResult
from vrthinker_core.types import Dimension, Preference, StopReason, Verdict

Counts = NDArray[np.float64]
SCORES = {
    Preference.FIRST: 1.0,
    Preference.TIE: 0.5,
    Preference.SECOND: 0.0,
}  # Of the first video of a pair


def as_counted(results: Iterable[PairResult], missing: MissingRule) -> list[PairResult]:
    """The results as they count: if one video alone cannot be read and the rule is "loses", the other one has won."""
    return [
        _lost(result) if missing == "loses" and result.unreadable_generator else result
        for result in results
    ]


def _lost(result: PairResult) -> PairResult:
    winner = Preference(result.unreadable[0].other)
    return replace(
        result,
        stop=StopReason.ANSWERED,
        verdict=Verdict(*[winner] * len(Dimension)),
        swapped=None,
        fault="",
    )


def labels_said(dimension: Dimension, *verdicts: Verdict | None) -> list[Preference]:
    """The labels of a pair in a dimension, one for each order that said one; verdicts of both orders name the same sides."""
    labels = (dict(verdict)[dimension] for verdict in verdicts if verdict is not None)
    return [label for label in labels if label is not None]


def pair_score(labels: Sequence[Preference]) -> float | None:
    """How the first video did: 1 for a win, half for a tie, the mean over both orders; None where nothing was said."""
    return sum(SCORES[label] for label in labels) / len(labels) if labels else None


def win_rates(
    videos: int, scores: Mapping[tuple[int, int], float | None]
) -> tuple[float | None, ...]:
    """The pairwise win rate of each of `videos` videos, 0 to 1, from the score of each pair (first, second).

    A video's rate is the mean over its pairs; a pair of which nothing was said counts for nothing, and a video without any other
    pair has None.
    """
    won: list[list[float]] = [[] for _ in range(videos)]
    for (first, second), score in scores.items():
        if score is not None:
            won[first].append(score)
            won[second].append(1 - score)
    return tuple(sum(each) / len(each) if each else None for each in won)


@dataclass(frozen=True, slots=True)
class WinCounts:
    """Wins and ties in one dimension. A pair judged in both orders counts once: each order for half of it."""

    generators: tuple[str, ...]
    prompts: tuple[
        str, ...
    ]  # Prompts as texts: several videos of one prompt are resampled together
    wins: Counts  # [prompt, i, j]: how often generator i beat j
    ties: Counts  # [prompt, i, j], the same as [prompt, j, i]

    @property
    def pairs(self) -> Counts:
        """[prompt, i, j]: of how many pairs of i and j something was said."""
        whole: Counts = self.wins + self.wins.transpose(0, 2, 1) + self.ties
        return whole

    def sample(self, weights: Counts) -> tuple[Counts, Counts]:
        """Wins and ties [i, j] where each prompt counts `weights` times."""
        return np.tensordot(weights, self.wins, 1), np.tensordot(weights, self.ties, 1)


def count_wins(
    results: Iterable[PairResult],
    generators: Sequence[str],
    dimension: Dimension,
    weights: Mapping[str, float] = {},
) -> WinCounts:
    """Count what the results say, each with the weight of its pair's id, if it has one. Their order makes no difference."""
    said = [
        (result.pair, labels_said(dimension, result.verdict, result.swapped))
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
            share = weights.get(pair.id, 1.0) / len(labels)
            if label is Preference.TIE:
                ties[row[pair.prompt], first, second] += share
                ties[row[pair.prompt], second, first] += share
            else:
                better, other = (first, second) if label is Preference.FIRST else (second, first)
                wins[row[pair.prompt], better, other] += share
    return WinCounts(tuple(generators), tuple(prompts), wins, ties)
