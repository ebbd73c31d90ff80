"""Strengths of generators: Bradley and Terry's model with Davidson's ties.

With the strengths s (natural logarithms), generator i beats j with a probability in proportion to
exp(s_i), j beats i to exp(s_j), and they tie to 2 v exp((s_i + s_j) / 2); v is estimated with the
strengths. Davidson (1970), JASA 65.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

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


def count_wins(
    results: Iterable[PairResult],
    generators: Sequence[str],
    dimension: Dimension,
    weights: Mapping[str, float] = {},
) -> tuple[Counts, Counts]:
    """Count wins and ties of generator i against j, [prompt, i, j] each.

    Ties are symmetric. `weights` are by pair id. If a pair was judged in both orders, each order
    counts half. Prompts of equal text are one prompt. The order of results does not matter.
    """
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
                ties[at, [first, second], [second, first]] += share
            else:
                won, lost = (first, second) if label is Preference.FIRST else (second, first)
                wins[at, won, lost] += share
    return wins, ties


PRIOR = 0.5  # wins and losses of each against an average one: one that always wins stays finite


def fit_strengths(wins: Counts, ties: Counts) -> tuple[Counts, float]:
    """Fit the most likely strengths [n] and v to wins and ties.

    Both are [n, n] and may hold fractions; ties are symmetric. Strengths have mean 0. Without ties
    v is 0. Newton's method takes a shorter step if a whole one leads away. It converges from
    anywhere, because the likelihood is concave in s and log 2v. Newman's iteration (2023) does not:
    for a consistent judge without ties it swings between two states.
    """
    n, tied = len(wins), bool(ties.any())
    # The last one is the opponent, whose strength stays 0.
    won, even = np.pad(wins, (0, 1)), np.pad(ties, (0, 1))
    won[:n, n] = won[n, :n] = PRIOR
    point = np.append(np.zeros(n + 1), 0.0 if tied else -np.inf)  # all strengths, and log 2v
    free = [*range(n), n + 1][: n + tied]
    for _ in range(1000):  # some 10 steps are usual
        slopes, curvature = _derivatives(won, even, point)
        step = np.zeros(n + 2)
        step[free] = -np.linalg.solve(curvature[np.ix_(free, free)], slopes[free])
        most = _loss(won, even, point) * (1 + 1e-12)  # rounding is no loss
        while _loss(won, even, point + step) > most:
            step /= 2
        point += step
        if np.abs(step).max() < 1e-9:
            return point[:n] - point[:n].mean(), float(np.exp(point[-1]) / 2)
    raise ArithmeticError(
        f"No strengths were found for the wins {wins.tolist()} and the ties {ties.tolist()}."
    )


def outcome_variance(difference: Counts, v: float) -> Counts:
    """Variance of a pair's score (1, 0.5, 0) by difference of strengths."""
    half = np.exp(difference / 2)
    whole = half + 1 / half + 2 * v
    win, tie = half / whole, 2 * v / whole
    variance: Counts = win + tie / 4 - (win + tie / 2) ** 2
    return variance


def _loss(won: Counts, even: Counts, point: Counts) -> float:
    """Negative logarithm of the likelihood."""
    half, whole = _weights(point)
    wins, ties = (won * (whole - half)).sum(), (even * whole).sum() / 2
    return float(wins + ties - (even.sum() / 2 * point[-1] if even.any() else 0.0))


def _derivatives(won: Counts, even: Counts, point: Counts) -> tuple[Counts, Counts]:
    """Gradient (expected less counted) and Hessian (variances) of the loss."""
    half, whole = _weights(point)
    win, tie = np.exp(half - whole), np.exp(point[-1] - whole)
    pairs, lead = won + won.T + even, (win - win.T) / 2
    first = np.append(
        (pairs * (win + tie / 2) - won - even / 2).sum(1), (pairs * tie - even).sum() / 2
    )
    links, mixed = pairs * ((win + win.T) / 4 - lead**2), -(pairs * lead * tie).sum(1)
    second = np.block(
        [
            [np.diag(links.sum(1)) - links, mixed[:, None]],
            [mixed, (pairs * tie * (1 - tie)).sum() / 2],
        ]
    )
    return first, second


def _weights(point: Counts) -> tuple[Counts, Counts]:
    """Unnormalized logarithms [i, j] of a win, and of all outcomes."""
    half = (point[:-1, None] - point[:-1]) / 2
    return half, np.logaddexp(np.logaddexp(half, -half), point[-1])
