"""Strengths are the most likely ones, also where a judge is consistent and gives no ties."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.ranking.simulated import judged, table_of
from vrthinker_core.evaluation.outcomes import Counts
from vrthinker_core.evaluation.rankings import rank_generators
from vrthinker_core.evaluation.schedule import all_pairs
from vrthinker_core.evaluation.strengths import PRIOR, fit_strengths
from vrthinker_core.types import Dimension, Preference


@pytest.mark.parametrize(
    ("names", "prompts"), [("abcde", 5), ("abcde", 30), ("abcdef", 3), ("abcd", 100)]
)
def test_a_judge_that_is_always_consistent_gives_its_own_order(names: str, prompts: int) -> None:
    table = table_of(names, prompts)
    results = [
        judged(
            pair,
            Preference.FIRST if pair.first_generator < pair.second_generator else Preference.SECOND,
        )
        for pair in all_pairs(table)
    ]
    ranking = rank_generators(table, results, "consistent", samples=40).dimensions[Dimension.OA]
    assert [(row.place, row.generator) for row in ranking.strengths] == list(
        enumerate(names, start=1)
    )
    strengths = [row.strength or 0.0 for row in ranking.strengths]
    assert strengths == pytest.approx([-each for each in strengths[::-1]], abs=1e-6), (
        "the weakest is as far below as the first above"
    )
    for row in ranking.strengths:
        assert row.interval is not None
        assert row.interval[0] <= (row.strength or 0.0) <= row.interval[1]


def total_order(generators: int, prompts: int) -> tuple[Counts, Counts]:
    return np.triu(np.full((generators, generators), float(prompts)), 1), np.zeros(
        (generators, generators)
    )


def drawn(generators: int, prompts: int, spread: float, v: float) -> tuple[Counts, Counts]:
    """Outcomes drawn from the model."""
    rng = np.random.default_rng(generators)
    strengths, (wins, ties) = (
        rng.normal(0, spread, generators),
        np.zeros((2, generators, generators)),
    )
    for i in range(generators):
        for j in range(i):
            weights = np.array(
                [
                    np.exp((strengths[i] - strengths[j]) / 2),
                    np.exp((strengths[j] - strengths[i]) / 2),
                    2 * v,
                ]
            )
            wins[i, j], wins[j, i], ties[i, j] = rng.multinomial(prompts, weights / weights.sum())
    return wins, ties + ties.T


@pytest.mark.parametrize(
    "counts",
    [
        total_order(5, 5),
        total_order(6, 3),
        drawn(5, 12, 3.0, 0.0),
        drawn(6, 20, 3.0, 0.02),
        drawn(4, 9, 1.0, 0.3),
    ],
)
def test_no_other_strengths_are_likelier(counts: tuple[Counts, Counts]) -> None:
    """The likelihood is concave: where a little more or less of each makes it smaller, nothing at all is larger."""
    strengths, v = fit_strengths(*counts)
    best = likelihood(strengths, v, *counts)
    for nudge in (0.01, -0.01):
        for moved in np.eye(len(strengths)) * nudge:
            assert likelihood(strengths + moved, v, *counts) < best
        assert likelihood(strengths, v * (1 + nudge) if v else abs(nudge), *counts) < best


def likelihood(strengths: Counts, v: float, wins: Counts, ties: Counts) -> float:
    """The logarithm for the average strength that makes it largest: strengths are given with mean 0."""

    def at(average: float) -> float:
        half = np.subtract.outer(strengths, strengths) / 2
        whole = np.exp(half) + np.exp(-half) + 2 * v
        tied = (ties * np.log(2 * v / whole)).sum() / 2 if ties.any() else 0.0
        own = (strengths + average) / 2
        prior = (
            -2 * PRIOR * np.log(np.exp(own) + np.exp(-own) + 2 * v).sum()
        )  # Wins and losses against strength 0
        return float((wins * (half - np.log(whole))).sum() + tied + prior)

    low, high = -20.0, 20.0
    for _ in range(100):
        third = (high - low) / 3
        low, high = (
            (low + third, high) if at(low + third) < at(high - third) else (low, high - third)
        )
    return at(low)
