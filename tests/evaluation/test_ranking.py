"""Rankings of simulated outcomes, and which pairs are judged for them: all, or the most telling ones within a budget."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.support.simulated import engine_of, judged, noisy_judge, table_of
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.ranking_page import write_report
from vrthinker_core.evaluation.rankings import (
    AdaptiveSchedule,
    Ranking,
    WinCell,
    all_pairs,
    judge_pairs,
    planned_pairs,
    rank_generators,
)
from vrthinker_core.evaluation.strengths import PRIOR, Counts, fit_strengths
from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import MissingRule, PairResult, broken_row
from vrthinker_core.types import Dimension, Preference, Side, StopReason, Verdict

STRENGTHS = {"amber": 1.4, "birch": 0.7, "cedar": 0.0, "daisy": -0.7, "elder": -1.4}
OA = Dimension.OA


def ranked(table: VideoTable, results: Iterable[PairResult], samples: int = 50) -> Ranking:
    return rank_generators(table, results, "simulated", samples)


def simulated(prompts: int, seed: int = 0) -> tuple[VideoTable, list[PairResult]]:
    table = table_of(STRENGTHS, prompts)
    return table, list(engine_of(noisy_judge(STRENGTHS, seed))(all_pairs(table)))


def generators(pair: EvaluationPair) -> tuple[str, str]:
    return pair.first_generator, pair.second_generator


def winner(pair: EvaluationPair, beats: set[tuple[str, str]]) -> Preference:
    """Which of both beats the other one; a tie if neither does."""
    if generators(pair) in beats:
        return Preference.FIRST
    return Preference.SECOND if generators(pair)[::-1] in beats else Preference.TIE


def order_of(ranking: Ranking, dimension: Dimension = OA) -> list[str]:
    return [row.generator for row in ranking.dimensions[dimension].strengths]


def test_the_order_and_the_strengths_come_back() -> None:
    ranking = ranked(*simulated(120))
    assert order_of(ranking) == list(STRENGTHS)
    for row in ranking.dimensions[OA].strengths:
        assert row.strength == pytest.approx(STRENGTHS[row.generator], abs=0.3)
    assert [row.place for row in ranking.dimensions[OA].strengths] == [1, 2, 3, 4, 5]
    assert ranking.dimensions[OA].cycles == ()
    assert ranking.pairs == 120 * 10


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    held = []
    for seed in range(20):
        ranking = ranked(*simulated(25, seed), samples=60)
        for row in ranking.dimensions[OA].strengths:
            held.append(row.interval[0] <= STRENGTHS[row.generator] <= row.interval[1])
    assert 0.85 <= np.mean(held) < 1


def test_the_order_of_results_changes_no_figure() -> None:
    table, results = simulated(12)
    assert ranked(table, random.Random(1).sample(results, len(results))) == ranked(table, results)


def test_names_change_no_figure() -> None:
    """The first of each pair of names wins, but for one prompt in four, which is a tie in others."""
    figures = []
    for names in ("abcde", "zyxwv"):
        table = table_of(names, 12)
        beats = {(one, other) for at, one in enumerate(names) for other in names[at + 1 :]}
        upsets = {(other, one) for one, other in beats}
        results = []
        for pair in all_pairs(table):
            number = int(pair.prompt[11:14])
            results.append(judged(pair, winner(pair, (beats, beats, upsets, set())[number % 4])))
        rows = {row.generator: row for row in ranked(table, results).dimensions[OA].strengths}
        told = [(rows[name].strength, *(rows[name].interval or ())) for name in names]
        figures.append(np.round(told, 4).tolist())
    assert figures[0] == figures[1]


def of_two(prompts: int, label: Preference) -> list[tuple[int | None, float, tuple[float, float]]]:
    """Place, strength and interval of both of two generators, of which every prompt says the same."""
    table, beats = table_of("ab", prompts), {0: set(), 1: {("a", "b")}, 2: {("b", "a")}}[label]
    results = [judged(pair, winner(pair, beats)) for pair in all_pairs(table)]
    rows = ranked(table, results).dimensions[OA].strengths
    return [(row.place, row.strength or 0.0, row.interval or (0.0, 0.0)) for row in rows]


def test_where_all_prompts_say_the_same_an_interval_is_as_wide_as_few_prompts_make_it() -> None:
    few, many = of_two(3, Preference.FIRST), of_two(8, Preference.FIRST)
    for (_, best, (low, high)), (_, other, (least, most)) in (few, many):
        assert low < best <= high
        assert least <= other < most
        assert (low, high) == pytest.approx((-most, -least), abs=1e-4)
    assert few[0][2][0] < 0 < many[0][2][0], "3 of 3 may be chance, 8 of 8 hardly"


@pytest.mark.parametrize(("prompts", "apart"), [(3, False), (8, True)])
def test_intervals_that_overlap_give_no_place(prompts: int, apart: bool) -> None:
    """And a ranking in which all do says so first."""
    table = table_of("ab", prompts)
    ranking = ranked(table, [judged(each, winner(each, {("a", "b")})) for each in all_pairs(table)])
    overall = ranking.dimensions[OA]
    assert all(overall.stands_apart(row) == apart for row in overall.strengths)
    assert ranking.summary(0)[0].startswith("Too few pairs") != apart


def test_equals_share_their_place() -> None:
    assert [place for place, _, _ in of_two(3, Preference.TIE)] == [1, 1]
    (_, strength, (low, high)), _ = of_two(3, Preference.TIE)
    assert strength == pytest.approx(0, abs=1e-6)
    assert low == pytest.approx(-high, abs=1e-4)
    assert high > 0.3
    assert [place for place, _, _ in of_two(3, Preference.SECOND)] == [1, 2]


def test_a_planted_cycle_is_found_and_stands_on_the_page(tmp_path: Path) -> None:
    table = table_of(("rock", "paper", "scissors", "glass"), 9)
    ring = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    beats = ring | {(one, "glass") for one in ("rock", "paper", "scissors")}

    def label(pair: EvaluationPair) -> Preference:
        tied = pair.prompt == "Prompt clip000." and "glass" not in generators(pair)
        return Preference.TIE if tied else winner(pair, beats)

    ties, results = dict.fromkeys(("TA", "MQ", "VQ"), Preference.TIE), []
    for pair in all_pairs(table):
        verdict = Verdict(OA=label(pair), **ties)
        results.append(replace(judged(pair, label(pair)), verdict=verdict))
    ranking = ranked(table, results)
    (cycle,) = ranking.dimensions[OA].cycles
    assert cycle.share == 1
    following = cycle.generators[1:] + cycle.generators[:1]
    assert set(zip(cycle.generators, following, strict=True)) == ring
    assert order_of(ranking)[-1] == "glass"
    write_report(ranking, tmp_path)
    told = json.loads((tmp_path / "ranking.json").read_text("utf-8"))["dimensions"]
    assert told["OA"]["cycles"] == [{"generators": list(cycle.generators), "share": 1.0}]
    assert told["MQ"]["cycles"] == []
    page = (tmp_path / "ranking.html").read_text("utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page), "it asks for nothing"
    assert page.count("<svg") == 8, "bars and matrix, in four dimensions"
    assert " beats ".join((*cycle.generators, cycle.generators[0])) in page
    assert "rock against scissors: 8 won, 1 tied, 0 lost" in page


def test_a_longer_cycle_is_found_where_no_three_form_one() -> None:
    table = table_of("abcd", 3)
    ring = {("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")}
    results = [judged(pair, winner(pair, ring)) for pair in all_pairs(table)]
    cycles = ranked(table, results).dimensions[OA].cycles
    assert [cycle.generators for cycle in cycles] == [("a", "b", "c", "d")]


def test_what_was_not_said_is_none_and_counts_nowhere() -> None:
    table = table_of("abc", 3)
    results = []
    for pair in all_pairs(table):
        result = judged(pair, winner(pair, {("a", "b")}))
        if "c" in generators(pair):
            result = broken_row(replace(pair, fault="Gone."), "simulated")
        results.append(result)
    ranking = ranked(table, results)
    rows = {row.generator: row for row in ranking.dimensions[OA].strengths}
    c = rows["c"]
    assert [c.strength, c.interval, c.place, c.all_pairs.rate] == [None] * 4
    assert (rows["a"].all_pairs.rate, len(ranking.failed)) == (1, 6)
    assert ranking.dimensions[OA].groups == (("a", "b"), ("c",))
    assert "cannot be compared" in " ".join(ranking.summary(3))
    best = ranking.best_of[0]
    assert (best.best, best.rates) == (("a",), {"a": 1.0, "b": 0.0, "c": None})


def without(table: VideoTable, *gone: tuple[str, str]) -> VideoTable:
    """The table without some of its videos."""
    videos = {end: path for end, path in table.videos.items() if end not in gone}
    missing = {end: Path(table.videos[end]).name for end in gone}
    return replace(table, videos=videos, missing=missing)


@pytest.mark.parametrize("rule", ["loses", "leave-out"])
@pytest.mark.parametrize("broken", [False, True], ids=["missing", "undecodable"])
@pytest.mark.parametrize("name", ["clip000", "clip001"], ids=["second side", "first side"])
def test_an_unreadable_video_loses_its_pairs(name: str, broken: bool, rule: MissingRule) -> None:
    """Two of b's three videos are gone; a has none for one of these prompts either."""
    whole = table_of("ab", 4)
    gone = [("b", name), ("b", "clip003"), ("a", "clip003")]
    table = replace(whole if broken else without(whole, *gone), rule=rule)
    results = []
    for pair in all_pairs(table):
        ends = [(generator, pair.prompt[7:14]) for generator in generators(pair)]
        sides = tuple(side for side, end in zip(Side, ends, strict=True) if end in gone)
        result = judged(pair, winner(pair, {("b", "a")}))
        if pair.fault:
            result = broken_row(pair, "simulated")
        elif sides:
            failed = {"stop": StopReason.FAILED, "verdict": None, "fault": "VideoError"}
            result = replace(result, unreadable=sides, **failed)
        results.append(result)
    ranking = ranked(table, results)
    rows = {row.generator: row for row in ranking.dimensions[OA].strengths}
    lost = rule == "loses"
    assert rows["b"].all_pairs == WinCell(2, 0, 1 if lost else 0)
    assert (rows["a"].without_video, rows["b"].without_video) == (0, 1)
    assert ranking.uncounted == {"no video of either": 1} | ({} if lost else {"no video of b": 1})
    assert (ranking.pairs, ranking.prompts, len(ranking.failed)) == (2, 2, 2)
    for each in ranking.dimensions.values():
        assert {row.generator: row.all_pairs.wins for row in each.strengths}["a"] == int(lost)
    best = {each.name: (each.best, each.rates) for each in ranking.best_of}
    assert best.get(name) == ((("a",), {"a": 1.0, "b": 0.0}) if lost else None)
    assert ("1 (b)" in " ".join(ranking.summary(0))) is lost


@pytest.mark.parametrize("rule", ["loses", "leave-out"])
def test_a_lost_pair_closes_a_cycle_and_counts_once_beside_both_orders(rule: MissingRule) -> None:
    table = replace(without(table_of("abc", 3), ("a", "clip002")), rule=rule)
    labels = [(pair, winner(pair, {("a", "b"), ("b", "c")})) for pair in all_pairs(table)]
    results = [judged(pair, label, label) for pair, label in labels if not pair.fault]
    gone = [broken_row(pair, "simulated") for pair in all_pairs(table) if pair.fault]
    found = ranked(table, results + gone).dimensions[OA]
    cycles = [cycle.generators for cycle in found.cycles]
    assert cycles == ([("a", "b", "c")] if rule == "loses" else [])
    (a,) = (row for row in found.strengths if row.generator == "a")
    assert a.all_pairs == WinCell(2, 2, 2 if rule == "loses" else 0)


def test_pairs_of_which_nothing_was_said_are_counted_by_their_reasons() -> None:
    table = table_of("ab", 5)
    first, *others = all_pairs(table)
    silent = replace(judged(first, Preference.TIE), verdict=Verdict())
    failures = [("BackendFailed", StopReason.FAILED)] * 2 + [("", StopReason.NO_ANSWER)]
    results = [silent]
    for pair, (fault, stop) in zip(others, failures, strict=False):
        results.append(replace(silent, pair=pair, fault=fault, stop=stop))
    ranking = ranked(table, [*results, judged(others[-1], Preference.FIRST)])
    assert sum(ranking.uncounted.values()) == len(ranking.failed) == 4
    reasons = {reason.split()[-1]: number for reason, number in ranking.uncounted.items()}
    assert reasons == {"BackendFailed": 2, "answer": 1, "answered": 1}
    assert all(row.without_video == 0 for row in ranking.dimensions[OA].strengths)
    assert "left out" in " ".join(ranking.summary(0))


def test_both_orders_count_half_each() -> None:
    table = table_of("ab", 4)
    results = [judged(pair, Preference.FIRST, Preference.SECOND) for pair in all_pairs(table)]
    (row, _) = ranked(table, results).dimensions[OA].strengths
    assert row.strength == pytest.approx(0, abs=1e-6)
    assert (row.all_pairs.rate, row.all_pairs.pairs) == (0.5, 4)


def test_one_prompt_gives_a_finite_strength_and_no_interval() -> None:
    table = table_of("ab", 1)
    ranking = ranked(table, [judged(pair, winner(pair, {("a", "b")})) for pair in all_pairs(table)])
    best, other = ranking.dimensions[OA].strengths
    assert best.generator == "a"
    assert best.strength == pytest.approx(-(other.strength or 0))
    assert 0 < (best.strength or 0) < 5
    assert best.interval is None
    assert "two prompts" in ranking.summary(3)[-1]


MODELS = {f"model{number}": 0.7 * number for number in range(6)}


def test_every_pair_of_generators_meets_on_every_prompt_with_alternating_sides() -> None:
    table = table_of(MODELS, 5)
    pairs = all_pairs(table)
    assert len(pairs) == len({pair.id for pair in pairs}) == 15 * 5
    for pair in pairs:
        videos = [Path(video).parts for video in (pair.first, pair.second)]
        assert [generator for generator, _ in videos] == list(generators(pair))
        assert {f"Prompt {Path(name).stem}." for _, name in videos} == {pair.prompt}
    sides = Counter(map(generators, pairs))
    for first, second in combinations(table.generators, 2):
        assert abs(sides[first, second] - sides[second, first]) == 1
    left = Counter(pair.first_generator for pair in pairs)
    assert max(left.values()) - min(left.values()) <= 3, "nobody stands on one side much more often"


@pytest.mark.parametrize("rule", ["loses", "leave-out"])
def test_a_missing_video_costs_nothing_of_the_budget(rule: MissingRule, tmp_path: Path) -> None:
    gone = [("model0", "clip001"), ("model0", "clip002"), ("model5", "clip002")]
    table, asked = replace(without(table_of(MODELS, 4), *gone), rule=rule), list[str]()
    engine = engine_of(noisy_judge(MODELS, 0), asked)
    some = list(judge_pairs(table, engine, "simulated", tmp_path, 20))
    assert len(asked) == len(set(asked)) == 20
    faults = {pair.id for pair in all_pairs(table) if pair.fault}
    assert {result.pair.id for result in some} == {*asked, *faults}
    ranking = ranked(table, some, samples=1)
    rows = {row.generator: row for row in ranking.dimensions[OA].strengths}
    assert [rows[name].without_video for name in ("model0", "model5")] == [9, 4]
    assert ranking.uncounted["no video of either"] == 1
    pairs = [(each.judged, each.pair.first_generator, each.pair.second_generator) for each in some]
    of_model0 = sum(judged for judged, *names in pairs if "model0" in names)
    lost = rows["model0"].all_pairs.pairs - of_model0
    assert 0 < lost < 9 if rule == "loses" else lost == 0, "beside few judged pairs, fewer count"
    everything = list(judge_pairs(table, engine, "simulated", tmp_path))
    assert len(faults) == 14
    assert len(asked) == len(set(asked)) == planned_pairs(table, None) == 15 * 4 - len(faults)
    assert len(some) + len(everything) == 15 * 4


def test_the_first_pairs_connect_all_generators() -> None:
    table = table_of(MODELS, 3)
    chosen = AdaptiveSchedule(table.generators, all_pairs(table)).next_round({}, 5)
    assert len(chosen) == 5
    tied = [judged(pair, Preference.TIE) for pair in chosen]
    assert len(ranked(table, tied).dimensions[OA].groups) == 1


@pytest.mark.parametrize("budget", [5, 12, 31, 44, 45, 1000])
def test_the_budget_is_kept_and_no_pair_comes_twice(budget: int, tmp_path: Path) -> None:
    table, asked = table_of(MODELS, 3), list[str]()
    engine = engine_of(noisy_judge(MODELS, 0), asked)
    results = list(judge_pairs(table, engine, "simulated", tmp_path, budget))
    with pytest.raises(BadInput, match="at least 5"):
        planned_pairs(table, 4)
    most = min(budget, 45)
    assert len(results) == len(asked) == len(set(asked)) == most == planned_pairs(table, budget)


def fixed_judge(seed: int) -> dict[str, PairResult]:
    """An outcome for each pair, whenever it is asked."""
    results = engine_of(noisy_judge(MODELS, seed))(all_pairs(table_of(MODELS, 20)))
    return {result.pair.id: result for result in results}


def test_an_adaptive_run_that_was_killed_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    table, truth = table_of(MODELS, 20), fixed_judge(3)

    def run(folder: str, stop: int = 1000) -> list[str]:
        """The pairs that are judged, until Ctrl+C comes at the next one."""
        asked: list[str] = []

        def engine(pairs: Iterable[EvaluationPair]) -> Iterator[PairResult]:
            for pair in pairs:
                if len(asked) >= stop:
                    raise KeyboardInterrupt
                asked.append(pair.id)
                yield truth[pair.id]

        (tmp_path / folder).mkdir(exist_ok=True)
        with suppress(KeyboardInterrupt):
            list(judge_pairs(table, engine, "simulated", tmp_path / folder, 40))
        return asked

    whole = run("whole")
    for stop in (0, 3, 8, 21, 39):
        first = run(str(stop), stop)
        assert (len(first), first + run(str(stop)), len(whole)) == (stop, whole, 40)


def test_a_run_that_is_stopped_begins_no_pair_more(tmp_path: Path) -> None:
    table, asked = table_of(MODELS, 20), list[str]()
    engine = engine_of(noisy_judge(MODELS, 1), asked)
    list(judge_pairs(table, engine, "simulated", tmp_path, 40, lambda: len(asked) >= 10))
    assert len(asked) == 10
    list(judge_pairs(table, engine, "simulated", tmp_path, 40))
    assert len(asked) == len(set(asked)) == 40


def misorders(table: VideoTable, results: dict[str, PairResult]) -> int:
    ranking = ranked(table, results.values(), samples=1)
    found = [MODELS[row.generator] for row in ranking.dimensions[OA].strengths]
    return sum(better < worse for better, worse in combinations(found, 2))


def test_adaptive_rounds_find_the_order_with_fewer_pairs_than_random_ones() -> None:
    table = table_of(MODELS, 20)
    wrong = {"adaptive": 0, "random": 0}
    for seed in range(8):
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


TOTAL_ORDER = np.triu(np.full((5, 5), 5.0), 1), np.zeros((5, 5))


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
    [TOTAL_ORDER, drawn(5, 12, 3.0, 0.0), drawn(6, 20, 3.0, 0.02), drawn(4, 9, 1.0, 0.3)],
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
        rising = at(low + third) < at(high - third)
        low, high = (low + third, high) if rising else (low, high - third)
    return at(low)
