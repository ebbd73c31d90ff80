"""Which pairs are judged: all, or the most telling within a budget.

The sides alternate from one prompt to the next, so that a judge that prefers a side favours nobody.
Everything is a function of the videos and of the results so far: a run that goes on after a kill
chooses the same pairs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.job import Engine, judge_rows, results_so_far
from vrthinker_core.evaluation.strengths import (
    as_counted,
    count_wins,
    fit_strengths,
    outcome_variance,
)
from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair, pair_id
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension

Link = tuple[int, int]  # two generators by their places, the smaller one first


def connected(generators: int, links: Iterable[Link]) -> list[int]:
    """Number generators: the same for two that links connect, even indirectly."""
    group = list(range(generators))
    for i, j in links:
        group = [group[i] if each == group[j] else each for each in group]
    return group


def all_pairs(table: VideoTable) -> list[EvaluationPair]:
    """Give each pair on each prompt; a missing video is its fault."""
    return [pair for _, pair in named_pairs(table)]


def named_pairs(table: VideoTable) -> Iterator[tuple[str, EvaluationPair]]:
    """Give the name of the videos and the pair, for all pairs."""
    seen: Counter[Link] = Counter()
    row = 0
    for name, prompt in table.prompts.items():
        for i, j in combinations(range(len(table.generators)), 2):
            ends = [(table.generators[place], name) for place in (i, j)]
            if not all(end in table.videos or end in table.missing for end in ends):
                continue
            if (seen[i, j] + i + j) % 2:
                ends.reverse()
            seen[i, j] += any(end in table.videos for end in ends)
            row += 1
            first, second = (table.videos.get(end, "") for end in ends)
            files = [
                f"{end[0]}/{name}/{Path(path).name if path else table.missing[end]}"
                for end, path in zip(ends, (first, second), strict=True)
            ]
            gone = [end[0] for end in ends if end not in table.videos]
            have = "has" if len(gone) == 1 else "have"
            pair = EvaluationPair(
                pair_id(prompt, *files),
                row,
                prompt,
                first,
                second,
                first_generator=ends[0][0],
                second_generator=ends[1][0],
                fault=f"{' and '.join(gone)} {have} no video of this prompt." if gone else "",
            )
            yield name, pair


class AdaptiveSchedule:
    """Chooses the next pairs by the results so far.

    First come pairs that connect all generators, then the pair with the largest product of three
    numbers: the variance of its outcome, the variance of the difference of both strengths, and the
    probability that the order of both generators is wrong.
    """

    def __init__(self, generators: Sequence[str], pairs: Iterable[EvaluationPair]) -> None:
        self._generators = generators
        self._left: dict[Link, list[EvaluationPair]] = {}
        place = {name: place for place, name in enumerate(generators)}
        for pair in pairs:
            i, j = sorted((place[pair.first_generator], place[pair.second_generator]))
            self._left.setdefault((i, j), []).append(pair)
        self._asked: Counter[Link] = Counter()
        self._used: Counter[str] = Counter()  # how often each prompt was asked

    def next_round(self, results: Mapping[str, PairResult], budget: int) -> list[EvaluationPair]:
        """Choose at most `budget` new pairs from results of earlier rounds."""
        n = len(self._generators)
        size = min(budget, max(8, n))  # at least 8, so that they can be judged side by side
        wins, ties = count_wins(results.values(), self._generators, Dimension.OA)
        strengths, v = fit_strengths(wins.sum(0), ties.sum(0))
        differences = strengths[:, None] - strengths
        variances = outcome_variance(differences, v)
        unit = np.eye(n)
        information = unit / 2.0**2  # before any result, strengths spread by 2
        for (i, j), times in self._asked.items():
            step = unit[i] - unit[j]
            information += np.outer(step, step) * float(times * variances[i, j])
        covariance: np.ndarray = np.linalg.inv(information)
        chosen: list[EvaluationPair] = []
        while len(chosen) < size and self._left:
            own = covariance.diagonal()
            # Variances of the differences of two strengths; 1 for a generator and itself.
            spreads = own[:, None] + own - 2 * covariance + unit
            gains = variances * spreads * np.exp(-(differences**2) / (2 * spreads))
            group = connected(n, self._asked)
            left = sorted(self._left)
            apart = [link for link in left if group[link[0]] != group[link[1]]]
            # Rounded, so that equal pairs are equal on every machine: the first of them is taken.
            link = apart[0] if apart else max(left, key=lambda each: round(float(gains[each]), 9))
            pair = min(self._left[link], key=lambda each: (self._used[each.prompt], each.row))
            self._left[link].remove(pair)
            if not self._left[link]:
                del self._left[link]
            self._asked[link] += 1
            self._used[pair.prompt] += 1
            chosen.append(pair)
            # The covariance once this pair is judged as well (Sherman and Morrison's formula).
            moved = covariance @ (unit[link[0]] - unit[link[1]])
            learned = np.outer(moved, moved) * variances[link]
            covariance -= learned / (1 + variances[link] * spreads[link])
        return chosen


def planned_pairs(table: VideoTable, budget: int | None) -> int:
    """Return the number of pairs that a ranking judges.

    Raises BadInput if the budget cannot connect all generators.
    """
    possible, least = sum(not pair.fault for pair in all_pairs(table)), len(table.generators) - 1
    if budget is not None and budget < least:
        raise BadInput(
            f"A budget of {budget} cannot compare {least + 1} generators with one another: it "
            f"takes at least {least}."
        )
    return possible if budget is None else min(budget, possible)


def judge_pairs(
    table: VideoTable,
    engine: Engine,
    judge: str,
    out: Path,
    budget: int | None = None,
    stopped: Callable[[], bool] = not_cancelled,
) -> Iterator[PairResult]:
    """Judge all pairs, or at most `budget` round by round.

    Gives each new result once it is kept in `out`. A pair with a missing video has its result at
    once, and costs nothing of the budget.
    """
    pairs = all_pairs(table)
    kept = results_so_far(pairs, out)
    if budget is None or budget >= planned_pairs(table, None):
        yield from judge_rows(pairs, engine, judge, out, kept, stopped)
        return
    gone = [pair for pair in pairs if pair.fault]
    schedule = AdaptiveSchedule(table.generators, [pair for pair in pairs if not pair.fault])
    # Of earlier rounds alone, so that a resumed run chooses as it did before.
    results: dict[str, PairResult] = {}
    asked = 0
    while not stopped() and (chosen := schedule.next_round(results, budget - asked)):
        for result in judge_rows([*gone, *chosen], engine, judge, out, kept, stopped):
            kept[result.pair.id] = result
            yield result
        found = as_counted((kept[pair.id] for pair in chosen if pair.id in kept), table.rule)
        results |= {result.pair.id: result for result in found}
        asked += len(chosen)
