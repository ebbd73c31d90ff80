"""Rankings of simulated outcomes: strengths come back, intervals cover them, cycles are found, names and order mean nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.support.simulated import judged, noisy_judge, table_of
from vrthinker_core.evaluation.rankings import Ranking, WinCell, rank_generators
from vrthinker_core.evaluation.schedule import all_pairs
from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import MissingRule, PairResult, broken_row
from vrthinker_core.types import Dimension, Preference, Side, StopReason, Verdict

STRENGTHS = {"amber": 1.4, "birch": 0.7, "cedar": 0.0, "daisy": -0.7, "elder": -1.4}
OA = Dimension.OA


def ranked(table: VideoTable, results: list[PairResult], samples: int = 50) -> Ranking:
    return rank_generators(table, results, "simulated", samples)


def simulated(prompts: int, seed: int = 0) -> tuple[VideoTable, list[PairResult]]:
    table, judge = table_of(STRENGTHS, prompts), noisy_judge(STRENGTHS, seed)
    return table, [judged(pair, judge(pair)) for pair in all_pairs(table)]


def generators(pair: EvaluationPair) -> tuple[str, str]:
    return pair.first_generator, pair.second_generator


def winner(pair: EvaluationPair, beats: set[tuple[str, str]]) -> Preference:
    """Which of both beats the other one; a tie if neither does."""
    if generators(pair) in beats:
        return Preference.FIRST
    return Preference.SECOND if generators(pair)[::-1] in beats else Preference.TIE


def order_of(ranking: Ranking, dimension: Dimension = OA) -> list[str]:
    return [row.generator for row in ranking.dimensions[dimension].strengths]


def numbers(ranking: Ranking) -> dict[str, tuple[float, ...]]:
    """Every figure of the overall ranking by generator, rounded as it is shown."""
    rows = ranking.dimensions[OA].strengths
    figures = {row.generator: (row.strength, *row.interval, row.all_pairs.rate) for row in rows}
    return {name: tuple(round(each, 4) for each in told) for name, told in figures.items()}


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


def test_neither_the_order_of_results_nor_names_change_a_figure() -> None:
    table, results = simulated(12)
    shuffled = results.copy()
    random.Random(1).shuffle(shuffled)
    assert ranked(table, shuffled) == ranked(table, results)

    names = dict(zip(STRENGTHS, ("zulu", "yard", "x", "wood", "vine"), strict=True))
    videos = {(names[of], name): path for (of, name), path in table.videos.items()}
    renamed = VideoTable(tuple(sorted(names.values())), table.prompts, videos)
    rows = {frozenset((pair.first, pair.second)): pair.id for pair in all_pairs(renamed)}
    others = []
    for result in results:
        first, second = (names[each] for each in generators(result.pair))
        name = rows[frozenset((result.pair.first, result.pair.second))]
        pair = replace(result.pair, id=name, first_generator=first, second_generator=second)
        others.append(replace(result, pair=pair))
    wanted = {names[old]: figures for old, figures in numbers(ranked(table, results)).items()}
    assert numbers(ranked(renamed, others)) == wanted


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
    assert few[0][2][0] < 0 < many[0][2][0], (
        "as the sign test has it: 3 of 3 may be chance, 8 of 8 hardly"
    )


def test_equals_share_their_place() -> None:
    assert [place for place, _, _ in of_two(3, Preference.TIE)] == [1, 1]
    (_, strength, (low, high)), _ = of_two(3, Preference.TIE)
    assert strength == pytest.approx(0, abs=1e-6)
    assert low == pytest.approx(-high, abs=1e-4)
    assert high > 0.3
    assert [place for place, _, _ in of_two(3, Preference.SECOND)] == [1, 2]


def test_a_planted_cycle_is_found_and_how_sure_it_is() -> None:
    table = table_of(("rock", "paper", "scissors", "glass"), 9)
    ring = {("rock", "scissors"), ("scissors", "paper"), ("paper", "rock")}
    beats = ring | {(one, "glass") for one in ("rock", "paper", "scissors")}

    def label(pair: EvaluationPair) -> Preference:
        tied = pair.prompt == "Prompt clip000." and "glass" not in generators(pair)
        return Preference.TIE if tied else winner(pair, beats)

    ranking = ranked(table, [judged(pair, label(pair)) for pair in all_pairs(table)])
    (cycle,) = ranking.dimensions[OA].cycles
    assert cycle.share == 1
    following = cycle.generators[1:] + cycle.generators[:1]
    assert set(zip(cycle.generators, following, strict=True)) == ring
    assert order_of(ranking)[-1] == "glass"
    doubtful = [
        judged(pair, label(pair) if pair.row % 3 else Preference(pair.row % 2 + 1))
        for pair in all_pairs(table)
    ]
    assert all(0 <= cycle.share < 1 for cycle in ranked(table, doubtful).dimensions[OA].cycles)


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
    assert rows["a"].all_pairs.rate == 1
    assert len(ranking.failed) == 6
    assert ranking.dimensions[OA].groups == (("a", "b"), ("c",))
    assert "cannot be compared" in " ".join(ranking.summary(3))
    assert ranking.best_of[0].rates == {"a": 1.0, "b": 0.0, "c": None}
    assert ranking.best_of[0].best == ("a",)


def without(table: VideoTable, *gone: tuple[str, str]) -> VideoTable:
    """The table without some of its videos."""
    videos = {end: path for end, path in table.videos.items() if end not in gone}
    missing = {end: Path(table.videos[end]).name for end in gone}
    return replace(table, videos=videos, missing=missing)


@pytest.mark.parametrize("rule", ["loses", "leave-out"])
@pytest.mark.parametrize("broken", [False, True], ids=["missing", "undecodable"])
@pytest.mark.parametrize("name", ["clip000", "clip001"], ids=["second side", "first side"])
def test_a_video_that_cannot_be_read_loses_its_pairs_and_no_other(
    name: str, broken: bool, rule: MissingRule
) -> None:
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
def test_a_lost_pair_closes_a_cycle_as_any_other_does_and_counts_once_beside_both_orders(
    rule: MissingRule,
) -> None:
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
