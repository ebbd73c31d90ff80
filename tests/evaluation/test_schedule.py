"""Which pairs are judged: all, with sides that alternate, or the most telling ones within a budget; kills change nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.support.simulated import engine_of, judged, noisy_judge, table_of
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.rankings import rank_generators
from vrthinker_core.evaluation.schedule import (
    AdaptiveSchedule,
    all_pairs,
    judge_pairs,
    planned_pairs,
)
from vrthinker_core.evaluation.strengths import PRIOR, Counts, fit_strengths
from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import MissingRule, PairResult
from vrthinker_core.types import Dimension, Preference

STRENGTHS = {f"model{number}": 0.7 * number for number in range(6)}


def test_every_pair_of_generators_meets_on_every_prompt_with_alternating_sides() -> None:
    table = table_of(STRENGTHS, 5)
    pairs = all_pairs(table)
    assert len(pairs) == len({pair.id for pair in pairs}) == 15 * 5
    sides = Counter((pair.first_generator, pair.second_generator) for pair in pairs)
    for first in table.generators:
        for second in table.generators:
            assert first == second or abs(sides[first, second] - sides[second, first]) == 1
    left = Counter(pair.first_generator for pair in pairs)
    assert max(left.values()) - min(left.values()) <= 3, "nobody stands on one side much more often"


def test_a_video_that_is_missing_costs_its_own_pairs_only() -> None:
    whole = table_of("abc", 4)
    videos = {key: path for key, path in whole.videos.items() if key != ("b", "clip001")}
    assert len(all_pairs(VideoTable(whole.generators, whole.prompts, videos))) == 3 * 4 - 2


@pytest.mark.parametrize("rule", ["loses", "leave-out"])
def test_a_missing_video_costs_nothing_of_the_budget(rule: MissingRule, tmp_path: Path) -> None:
    whole = table_of(STRENGTHS, 4)
    gone = {("model0", "clip001"), ("model0", "clip002"), ("model5", "clip002")}
    videos = {end: path for end, path in whole.videos.items() if end not in gone}
    missing = dict.fromkeys(sorted(gone), "clip.mp4")
    table, asked = replace(whole, videos=videos, missing=missing, rule=rule), list[str]()
    engine = engine_of(noisy_judge(STRENGTHS, 0), asked)
    some = list(judge_pairs(table, engine, "simulated", tmp_path, 20))
    assert len(asked) == len(set(asked)) == 20
    faults = {pair.id for pair in all_pairs(table) if pair.fault}
    assert {result.pair.id for result in some} == {*asked, *faults}
    ranking = rank_generators(table, some, "simulated", samples=1)
    rows = {row.generator: row for row in ranking.dimensions[Dimension.OA].strengths}
    assert [rows[name].without_video for name in ("model0", "model5")] == [9, 4]
    assert ranking.uncounted["no video of either"] == 1
    pairs = [(each.judged, each.pair.first_generator, each.pair.second_generator) for each in some]
    of_model0 = sum(judged for judged, *names in pairs if "model0" in names)
    lost = rows["model0"].all_pairs.pairs - of_model0
    assert 0 < lost < 9 if rule == "loses" else lost == 0, (
        "beside few pairs that are judged, those that are lost count less"
    )
    everything = list(judge_pairs(table, engine, "simulated", tmp_path))
    assert len(faults) == 14
    assert len(asked) == len(set(asked)) == planned_pairs(table, None) == 15 * 4 - len(faults)
    assert len(some) + len(everything) == 15 * 4


def connected(pairs: list[EvaluationPair]) -> set[str]:
    reached = {pairs[0].first_generator}
    for _ in pairs:
        for pair in pairs:
            ends = {pair.first_generator, pair.second_generator}
            reached |= ends if ends & reached else set()
    return reached


def test_the_first_pairs_connect_all_generators() -> None:
    table = table_of(STRENGTHS, 3)
    chosen = AdaptiveSchedule(table.generators, all_pairs(table)).next_round({}, 5)
    assert len(chosen) == 5
    assert connected(chosen) == set(table.generators)


@pytest.mark.parametrize("budget", [5, 12, 31, 44, 45, 1000])
def test_the_budget_is_kept_and_no_pair_comes_twice(budget: int, tmp_path: Path) -> None:
    table, asked = table_of(STRENGTHS, 3), list[str]()
    engine = engine_of(noisy_judge(STRENGTHS, 0), asked)
    results = list(judge_pairs(table, engine, "simulated", tmp_path, budget))
    most = min(budget, 45)
    assert len(results) == len(asked) == len(set(asked)) == most == planned_pairs(table, budget)


def test_a_budget_that_cannot_connect_them_is_refused() -> None:
    with pytest.raises(BadInput, match="at least 5"):
        planned_pairs(table_of(STRENGTHS, 3), 4)


def fixed_judge(seed: int) -> dict[str, PairResult]:
    """An outcome for each pair, whenever it is asked."""
    judge = noisy_judge(STRENGTHS, seed)
    return {pair.id: judged(pair, judge(pair)) for pair in all_pairs(table_of(STRENGTHS, 20))}


def test_an_adaptive_run_that_was_killed_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    table, truth = table_of(STRENGTHS, 20), fixed_judge(3)

    def engine(asked: list[str], stop: int | None = None):  # type: ignore[no-untyped-def]
        def run(pairs):  # type: ignore[no-untyped-def]
            for pair in pairs:
                if stop is not None and len(asked) >= stop:
                    raise KeyboardInterrupt
                asked.append(pair.id)
                yield truth[pair.id]

        return run

    whole: list[str] = []
    for name in ("whole", "0", "3", "8", "21", "39"):
        (tmp_path / name).mkdir()
    wanted = list(judge_pairs(table, engine(whole), "simulated", tmp_path / "whole", 40))
    for stop in (0, 3, 8, 21, 39):
        folder, first, second = tmp_path / str(stop), list[str](), list[str]()
        with pytest.raises(KeyboardInterrupt):
            list(judge_pairs(table, engine(first, stop), "simulated", folder, 40))
        list(judge_pairs(table, engine(second), "simulated", folder, 40))
        assert first + second == whole
    assert {result.pair.id for result in wanted} == set(whole)


def test_a_run_that_is_stopped_begins_no_pair_more(tmp_path: Path) -> None:
    table, asked = table_of(STRENGTHS, 20), list[str]()
    engine = engine_of(noisy_judge(STRENGTHS, 1), asked)
    list(judge_pairs(table, engine, "simulated", tmp_path, 40, lambda: len(asked) >= 10))
    assert len(asked) == 10
    list(judge_pairs(table, engine, "simulated", tmp_path, 40))
    assert len(asked) == len(set(asked)) == 40


def misorders(table: VideoTable, results: dict[str, PairResult]) -> int:
    ranking = rank_generators(table, results.values(), "simulated", samples=1)
    found = [STRENGTHS[row.generator] for row in ranking.dimensions[Dimension.OA].strengths]
    return sum(found[i] < found[j] for i in range(len(found)) for j in range(i + 1, len(found)))


def test_adaptive_rounds_find_the_order_with_fewer_pairs_than_random_ones() -> None:
    table = table_of(STRENGTHS, 20)
    wrong = {"adaptive": 0, "random": 0}
    for seed in range(16):
        truth = fixed_judge(seed)
        schedule = AdaptiveSchedule(table.generators, all_pairs(table))
        drawn = np.random.default_rng(seed).permutation(list(truth))
        chosen: dict[str, PairResult] = {}
        for taken in range(8, 80, 8):
            chosen |= {pair.id: truth[pair.id] for pair in schedule.next_round(chosen, 8)}
            if taken >= 40:
                wrong["adaptive"] += misorders(table, chosen)
                wrong["random"] += misorders(table, {name: truth[name] for name in drawn[:taken]})
    assert wrong["adaptive"] < 0.8 * wrong["random"]


@pytest.mark.parametrize(("names", "prompts"), [("abcde", 5), ("abcdef", 3), ("abcd", 100)])
def test_a_judge_that_is_always_consistent_gives_its_own_order(names: str, prompts: int) -> None:
    table = table_of(names, prompts)
    results = []
    for pair in all_pairs(table):
        first = pair.first_generator < pair.second_generator
        results.append(judged(pair, Preference.FIRST if first else Preference.SECOND))
    ranking = rank_generators(table, results, "consistent", samples=40).dimensions[Dimension.OA]
    places = [(row.place, row.generator) for row in ranking.strengths]
    assert places == list(enumerate(names, start=1))
    strengths = [row.strength or 0.0 for row in ranking.strengths]
    assert strengths == pytest.approx([-each for each in strengths[::-1]], abs=1e-6), (
        "the weakest is as far below as the first above"
    )
    for row in ranking.strengths:
        assert row.interval[0] <= (row.strength or 0.0) <= row.interval[1]


def total_order(generators: int, prompts: int) -> tuple[Counts, Counts]:
    none = np.zeros((generators, generators))
    return np.triu(none + prompts, 1), none


def drawn(generators: int, prompts: int, spread: float, v: float) -> tuple[Counts, Counts]:
    """Outcomes drawn from the model."""
    rng = np.random.default_rng(generators)
    strengths, (wins, ties) = rng.normal(0, spread, generators), np.zeros((2, *[generators] * 2))
    for i in range(generators):
        for j in range(i):
            lead = (strengths[i] - strengths[j]) / 2
            weights = np.array([np.exp(lead), np.exp(-lead), 2 * v])
            wins[i, j], wins[j, i], ties[i, j] = rng.multinomial(prompts, weights / weights.sum())
    return wins, ties + ties.T


@pytest.mark.parametrize(
    "counts",
    [total_order(5, 5), drawn(5, 12, 3.0, 0.0), drawn(6, 20, 3.0, 0.02), drawn(4, 9, 1.0, 0.3)],
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
        # Wins and losses against strength 0
        prior = -2 * PRIOR * np.log(np.exp(own) + np.exp(-own) + 2 * v).sum()
        return float((wins * (half - np.log(whole))).sum() + tied + prior)

    low, high = -20.0, 20.0
    for _ in range(100):
        third = (high - low) / 3
        low, high = (
            (low + third, high) if at(low + third) < at(high - third) else (low, high - third)
        )
    return at(low)
