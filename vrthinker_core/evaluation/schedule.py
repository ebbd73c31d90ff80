"""Which pairs are judged: all of them, or, within a budget, round by round those that say most about the order.

The sides alternate from one prompt to the next, so that a judge that prefers a side favours nobody. Everything is a function of
the videos and of the results so far: a run that goes on after a kill chooses the same pairs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.outcomes import Counts, as_counted, count_wins
from vrthinker_core.evaluation.run import Engine, evaluate, results_so_far
from vrthinker_core.evaluation.strengths import fit_strengths, outcome_variance
from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair, pair_id
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension

MIN_ROUND = 8  # Pairs of a round at least, so that they can be judged side by side
SPREAD = 2.0  # Of a strength before anything was judged, as a standard deviation
Link = tuple[int, int]  # Two generators by their places, the smaller one first


def connected(generators: int, links: Iterable[Link]) -> list[int]:
    """A number for each generator: the same for two that links connect, over others, too."""
    group = list(range(generators))
    for i, j in links:
        group = [group[i] if each == group[j] else each for each in group]
    return group


def all_pairs(table: VideoTable) -> list[EvaluationPair]:
    """Every pair of generators on every prompt, prompt by prompt. If a video is missing, that is the pair's fault."""
    return [pair for pairs in pairs_by_name(table).values() for pair in pairs]


def pairs_by_name(table: VideoTable) -> dict[str, list[EvaluationPair]]:
    """The same by the name of their videos."""
    seen: Counter[Link] = Counter()
    row = 0
    pairs: dict[str, list[EvaluationPair]] = {name: [] for name in table.prompts}
    for name in table.prompts:
        for i, j in combinations(range(len(table.generators)), 2):
            ends = [(table.generators[place], name) for place in (i, j)]
            if all(end in table.videos or end in table.missing for end in ends):
                turned = (seen[i, j] + i + j) % 2
                seen[i, j] += any(end in table.videos for end in ends)
                row += 1
                pairs[name].append(_pair(table, name, ends[::-1] if turned else ends, row))
    return pairs


def _pair(
    table: VideoTable, name: str, ends: Sequence[tuple[str, str]], row: int
) -> EvaluationPair:
    prompt = table.prompts[name]
    first, second = (table.videos.get(end, "") for end in ends)
    files = [
        Path(path).name if path else table.missing[end]
        for end, path in zip(ends, (first, second), strict=True)
    ]
    (one, _), (other, _) = ends
    name_of = pair_id(
        prompt, *(f"{end[0]}/{name}/{file}" for end, file in zip(ends, files, strict=True))
    )
    gone = [generator for generator, path in ((one, first), (other, second)) if not path]
    fault = (
        f"{' and '.join(gone)} {'has' if len(gone) == 1 else 'have'} no video of this prompt."
        if gone
        else ""
    )
    return EvaluationPair(
        name_of,
        row,
        prompt,
        first,
        second,
        first_generator=one,
        second_generator=other,
        fault=fault,
    )


class AdaptiveSchedule:
    """Chooses the next pairs by the results so far.

    First any pairs that connect all generators; then, one after another, the pair whose outcome is most uncertain and tells most
    about an order that is still open: the variance of the outcome, times that of the difference of the two strengths, times how
    likely it is that the stronger one of them is the weaker one after all.
    """

    def __init__(self, generators: Sequence[str], pairs: Iterable[EvaluationPair]) -> None:
        self._generators = generators
        self._place = {name: place for place, name in enumerate(generators)}
        self._left: dict[Link, list[EvaluationPair]] = {}
        for pair in pairs:
            self._left.setdefault(self._link(pair), []).append(pair)
        self._asked: Counter[Link] = Counter()
        self._used: Counter[str] = Counter()  # How often each prompt was asked

    def next_round(self, results: Mapping[str, PairResult], budget: int) -> list[EvaluationPair]:
        """At most `budget` pairs that were not chosen before; none when all are used up. `results` are those of earlier rounds."""
        size = min(budget, max(MIN_ROUND, len(self._generators)))
        counts = count_wins(results.values(), self._generators, Dimension.OA)
        strengths, v = fit_strengths(counts.wins.sum(0), counts.ties.sum(0))
        differences = strengths[:, None] - strengths[None, :]
        variances = outcome_variance(differences, v)
        covariance = self._covariance(variances)
        chosen: list[EvaluationPair] = []
        while len(chosen) < size and self._left:
            link = self._connecting() or self._most_telling(differences, variances, covariance)
            chosen.append(self._take(link))
            covariance = _observed(covariance, link, variances[link])
        return chosen

    def _link(self, pair: EvaluationPair) -> Link:
        i, j = sorted((self._place[pair.first_generator], self._place[pair.second_generator]))
        return i, j

    def _connecting(self) -> Link | None:
        """A pair of generators that nothing asked so far connects; None when all that can be are connected."""
        group = connected(len(self._generators), self._asked)
        return next((link for link in sorted(self._left) if group[link[0]] != group[link[1]]), None)

    def _most_telling(self, differences: Counts, variances: Counts, covariance: Counts) -> Link:
        def gain(link: Link) -> float:
            spread = _spread(covariance, link)
            open_order = np.exp(-(differences[link] ** 2) / (2 * spread))
            return float(variances[link] * spread * open_order)

        # Rounded, so that equal pairs are equal on every machine: the first of them is taken.
        return max(sorted(self._left), key=lambda link: round(gain(link), 9))

    def _take(self, link: Link) -> EvaluationPair:
        """The pair of these two generators whose prompt was asked least."""
        pairs = self._left[link]
        pair = min(pairs, key=lambda each: (self._used[each.prompt], each.row))
        pairs.remove(pair)
        if not pairs:
            del self._left[link]
        self._asked[link] += 1
        self._used[pair.prompt] += 1
        return pair

    def _covariance(self, variances: Counts) -> Counts:
        """Of the strengths, from what was asked."""
        n = len(self._generators)
        information = np.diag(np.full(n, 1 / SPREAD**2))
        for link, count in self._asked.items():
            step = _step(n, link)
            information += np.outer(step, step) * float(count * variances[link])
        inverse: Counts = np.linalg.inv(information)
        return inverse


def _step(n: int, link: Link) -> Counts:
    step = np.zeros(n)
    step[link[0]], step[link[1]] = 1.0, -1.0
    return step


def _spread(covariance: Counts, link: Link) -> float:
    """The variance of the difference of two strengths."""
    i, j = link
    return float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])


def _observed(covariance: Counts, link: Link, variance: float) -> Counts:
    """The covariance once this pair is judged as well (Sherman and Morrison's formula)."""
    moved = covariance @ _step(len(covariance), link)
    updated: Counts = covariance - np.outer(moved, moved) * variance / (
        1 + variance * _spread(covariance, link)
    )
    return updated


def planned_pairs(table: VideoTable, budget: int | None) -> int:
    """How many pairs a ranking judges in all. Raises BadInput for a budget that cannot connect the generators."""
    possible, least = sum(not pair.fault for pair in all_pairs(table)), len(table.generators) - 1
    if budget is not None and budget < least:
        raise BadInput(
            f"A budget of {budget} cannot compare {least + 1} generators with one another: it takes at least {least}."
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
    """Judge every pair, or at most `budget` of them, chosen round by round; gives each new result once it is kept in `out`.

    A pair with a missing video has its result at once, and costs nothing of the budget.
    """
    pairs = all_pairs(table)
    kept = results_so_far(pairs, out)
    if budget is None or budget >= planned_pairs(table, None):
        yield from evaluate(pairs, engine, judge, out, kept, stopped)
        return
    gone = [pair for pair in pairs if pair.fault]
    schedule = AdaptiveSchedule(table.generators, [pair for pair in pairs if not pair.fault])
    results: dict[
        str, PairResult
    ] = {}  # Of the rounds so far and of nothing else, so that a resumed run chooses as it did before
    asked = 0
    while not stopped() and (chosen := schedule.next_round(results, budget - asked)):
        for result in evaluate([*gone, *chosen], engine, judge, out, kept, stopped):
            kept[result.pair.id] = result
            yield result
        found = as_counted((kept[pair.id] for pair in chosen if pair.id in kept), table.rule)
        results |= {result.pair.id: result for result in found}
        asked += len(chosen)
