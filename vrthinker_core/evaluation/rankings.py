"""The ranking of generators: which pairs are judged, and what they say.

All pairs are judged, or the most telling within a budget. The sides alternate from one prompt to
the next, so that a judge that prefers a side favours nobody. Everything is a function of the videos
and of the results so far: a run that goes on after a kill chooses the same pairs.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import TAIL, exact_end
from vrthinker_core.evaluation.job import Engine, judge_rows, results_so_far
from vrthinker_core.evaluation.strengths import (
    Counts,
    as_counted,
    count_wins,
    fit_strengths,
    outcome_variance,
    pair_score,
    win_rates,
)
from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair, pair_id
from vrthinker_core.results.result import MissingRule, PairResult
from vrthinker_core.types import Dimension
from vrthinker_core.words import count

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


@dataclass(frozen=True, slots=True)
class WinCell:
    """One generator against another.

    If a pair was judged in both orders, each order counts half.
    """

    wins: float
    ties: float
    losses: float

    @property
    def pairs(self) -> float:
        """Pairs with a label."""
        return self.wins + self.ties + self.losses

    @property
    def rate(self) -> float | None:
        """Win rate, 0 to 1, ties as half wins; None if unlabelled."""
        return (self.wins + self.ties / 2) / self.pairs if self.pairs else None


@dataclass(frozen=True, slots=True)
class GeneratorStrength:
    """One generator in one dimension."""

    generator: str
    place: int | None  # 1 is the strongest, and equals share theirs; None without a label
    strength: float | None  # natural logarithm, mean 0; a lead of 1.1 wins 3 of 4 decided pairs
    interval: tuple[float, float] | None  # 95 % over prompts; None with fewer than two prompts
    all_pairs: WinCell  # against all others together
    without_video: int  # pairs lost or left out, since its own video alone cannot be read


@dataclass(frozen=True, slots=True)
class MajorityCycle:
    """Generators that each beat the next, and the last the first."""

    generators: tuple[str, ...]
    share: float  # of the bootstrap's samples in which all of these majorities hold


@dataclass(frozen=True, slots=True)
class DimensionRanking:
    """All generators in one dimension."""

    strengths: tuple[GeneratorStrength, ...]  # the strongest first; those without a label last
    matrix: tuple[tuple[WinCell, ...], ...]  # row against column, both in the order of `strengths`
    cycles: tuple[MajorityCycle, ...]  # the surest first
    groups: tuple[tuple[str, ...], ...]  # that judged pairs connect; one group if all are

    def stands_apart(self, row: GeneratorStrength) -> bool:
        """Return whether no other generator's interval overlaps this one's."""
        others = [each.interval for each in self.strengths if each.generator != row.generator]
        own = row.interval
        return own is not None and all(
            each and (own[0] > each[1] or own[1] < each[0]) for each in others
        )


@dataclass(frozen=True, slots=True)
class BestOfPrompt:
    """The videos of one prompt compared with one another, overall."""

    name: str  # of the videos
    prompt: str
    rates: dict[str, float | None]  # generator to its video's win rate; None without a label
    best: tuple[str, ...]  # with the highest rate; several if they share it


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a set of judged pairs says about generators."""

    judge: str
    generators: tuple[str, ...]
    prompts: int  # that were judged
    pairs: int  # that gave a verdict
    missing: MissingRule  # what became of pairs with one video that is missing or cannot be read
    uncounted: dict[str, int]  # how many pairs count for nobody, by the reason
    failed: tuple[str, ...]  # why pairs have no verdict of the judge, a sentence each
    left_out: tuple[str, ...]  # what was never judged, and why
    dimensions: dict[Dimension, DimensionRanking]
    best_of: tuple[BestOfPrompt, ...]

    def summary(self, cycles: int) -> list[str]:
        """Say what the ranking rests on, with at most `cycles` cycles."""
        overall = self.dimensions[Dimension.OA]
        judged = f"{count(self.pairs, 'pair')} of {count(self.prompts, 'prompt')}"
        lines = [f"{judged} judged by {self.judge}."]
        intervals = [row.interval for row in overall.strengths if row.interval]
        if intervals and max(low for low, _ in intervals) <= min(high for _, high in intervals):
            lines.insert(0, "Too few pairs to tell: all intervals overlap.")
        lost = {row.generator: row.without_video for row in overall.strengths if row.without_video}
        told = "Lost without a look, as the video is missing or cannot be decoded"
        aside = {told: lost if self.missing == "loses" else {}}
        aside["Pairs that are left out"] = self.uncounted
        for told, counts in aside.items():
            if counts:
                each = ", ".join(f"{number:,} ({name})" for name, number in counts.items())
                lines.append(f"{told}: {each}.")
        for cycle in overall.cycles[:cycles]:
            ring = " beats ".join((*cycle.generators, cycle.generators[0]))
            lines.append(f"{ring} ({cycle.share:.0%} of the samples).")
        if len(overall.cycles) > cycles:
            lines.append(f"There are {len(overall.cycles) - cycles} more cycles.")
        if len(overall.groups) > 1:
            lines.append(
                "No judged pairs connect these generators, so their strengths cannot be compared: "
                f"{'; '.join(map(', '.join, overall.groups))}."
            )
        if not any(row.interval for row in overall.strengths):
            lines.append("Intervals need at least two prompts.")
        return lines


def rank_generators(
    table: VideoTable, results: Iterable[PairResult], judge: str, samples: int = 500
) -> Ranking:
    """Rank generators by results in any order; `samples` of the bootstrap."""
    ordered = sorted(results, key=lambda result: result.pair.row)
    silent = [result for result in ordered if not result.has_verdict]
    counted = [result for result in as_counted(ordered, table.rule) if result.has_verdict]
    names = (result.unreadable_generator for result in silent)
    without = Counter(name for name in names if name)
    uncounted = Counter[str]()
    for result in as_counted(silent, table.rule):
        if result.has_verdict:
            continue
        if result.unreadable:
            why = f"no video of {result.unreadable_generator or 'either'}"
        elif result.outside_scope:
            why = "outside the judge's scope"
        else:
            why = f"failed, {result.fault}" if result.fault else f"no verdict, {result.stop.value}"
        uncounted[why] += 1
    # Within a budget few pairs are judged. If all missing videos counted in full beside them, they
    # would count too much: each weighs the share of their other pairs that was tried.
    possible = Counter(_ends(pair) for pair in all_pairs(table) if not pair.fault)
    tried = Counter(_ends(result.pair) for result in ordered if not result.pair.fault)
    weights = {
        result.pair.id: tried[ends] / possible[ends] if possible[ends] else 1.0
        for result in ordered
        if result.pair.fault and (ends := _ends(result.pair))
    }
    dimensions = {}
    for each in Dimension:
        counts = count_wins(counted, table.generators, each, weights)
        dimensions[each] = _dimension(table.generators, counts, samples, without)
    return Ranking(
        judge,
        table.generators,
        len({result.pair.prompt for result in ordered if result.has_verdict}),
        len(ordered) - len(silent),
        table.rule,
        dict(sorted(uncounted.items())),
        tuple(
            f"{result.pair.first_generator} and {result.pair.second_generator}, "
            f"{result.pair.prompt[:60]}: {result.error or 'it ended without a verdict.'}"
            for result in silent
        ),
        table.left_out,
        dimensions,
        tuple(_best_of(table, counted)),
    )


def _ends(pair: EvaluationPair) -> frozenset[str]:
    return frozenset((pair.first_generator, pair.second_generator))


def _dimension(
    names: Sequence[str],
    counts: tuple[Counts, Counts],
    samples: int,
    without_video: Mapping[str, int],
) -> DimensionRanking:
    wins, ties = (part.sum(0) for part in counts)
    pairs = wins + wins.T + ties
    compared = pairs.sum(1) > 0
    intervals, margins = _bootstrap(counts, samples)
    strengths = [float(strength) for strength in fit_strengths(wins, ties)[0]]
    rounded = [round(strength, 6) for strength in strengths]
    order = sorted(range(len(wins)), key=lambda i: (not compared[i], -rounded[i], names[i]))
    rows = []
    for i in order:
        stronger = sum(rounded[j] > rounded[i] for j in order if compared[j])
        rows.append(
            GeneratorStrength(
                names[i],
                1 + stronger if compared[i] else None,
                strengths[i] if compared[i] else None,
                intervals[i] if compared[i] else None,
                _cell(wins[i].sum(), ties[i].sum(), wins[:, i].sum()),
                without_video.get(names[i], 0),
            )
        )
    cycles = []
    for ring in _majority_cycles(wins > wins.T):
        holds = np.all([margins[:, ring[k - 1], ring[k]] > 0 for k in range(len(ring))], axis=0)
        cycles.append(MajorityCycle(tuple(names[i] for i in ring), float(holds.mean())))
    cycles.sort(key=lambda cycle: (-cycle.share, cycle.generators))
    groups = defaultdict(list)
    linked = connected(len(names), zip(*pairs.nonzero(), strict=True))
    for name, group in zip(names, linked, strict=True):
        groups[group].append(name)
    return DimensionRanking(
        tuple(rows),
        tuple(tuple(_cell(wins[i, j], ties[i, j], wins[j, i]) for j in order) for i in order),
        tuple(cycles),
        tuple(tuple(group) for _, group in sorted(groups.items())),
    )


def _cell(*counts: float) -> WinCell:
    return WinCell(*(round(float(each), 6) for each in counts))


def _majority_cycles(beats: NDArray[np.bool_]) -> list[tuple[int, ...]]:
    """Find all cycles of three, and shortest cycles of other majorities.

    `beats` [i, j] says that most decided pairs of i and j are wins of i. In a cycle each place
    beats the next one, and the last one the first; it begins with its smallest place.
    """
    rings: set[tuple[int, ...]] = {
        ring
        for i, j, k in combinations(range(len(beats)), 3)
        for ring in ((i, j, k), (i, k, j))
        if all(beats[ring[at - 1], ring[at]] for at in range(3))
    }
    closed = {(ring[at - 1], ring[at]) for ring in rings for at in range(3)}
    for i, j in zip(*beats.nonzero(), strict=True):
        if (i, j) not in closed and (ring := _shortest(beats, int(j), int(i))):
            start = ring.index(min(ring))
            rings.add(ring[start:] + ring[:start])
    return sorted(rings, key=lambda ring: (len(ring), ring))


def _shortest(beats: NDArray[np.bool_], start: int, goal: int) -> tuple[int, ...]:
    """Find the shortest way along majorities; () for none."""
    queue: deque[tuple[int, ...]] = deque([(start,)])
    seen = {start}
    while queue:
        path = queue.popleft()
        if path[-1] == goal:
            return path
        for other in np.flatnonzero(beats[path[-1]]).tolist():
            if other not in seen:
                seen.add(other)
                queue.append((*path, other))
    return ()


def _bootstrap(
    counts: tuple[Counts, Counts], samples: int
) -> tuple[Sequence[tuple[float, float] | None], Counts]:
    """Return intervals of the strengths, and margins [sample, i, j].

    With one prompt the intervals are None.
    """
    prompts, totals = len(counts[0]), [part.sum(0) for part in counts]
    if prompts < 2:
        return [None] * len(totals[0]), (totals[0] - totals[0].T)[None]
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=samples).astype(float)
    wins, ties = (np.tensordot(drawn, part, 1) for part in counts)
    strengths = np.array([fit_strengths(*each)[0] for each in zip(wins, ties, strict=True)])
    intervals: Counts = np.percentile(strengths, [100 * TAIL, 100 - 100 * TAIL], axis=0)
    pairs = counts[0] + counts[0].transpose(0, 2, 1) + counts[1]
    same = pairs.sum((0, 2)) > 0
    for part, total in zip(counts, totals, strict=True):
        same &= np.isclose(part * pairs.sum(0), total * pairs).all(axis=(0, 2))
    # If all prompts say the same of a generator, resampled ones do, too, and nothing of how sure
    # that is. Its interval then goes as far as if only as many prompts as the exact binomial
    # interval allows said so, and it lost to each other one, or beat it, in all others.
    for place in np.flatnonzero(same):
        alike = exact_end(int((pairs[:, place].sum(1) > 0).sum()))
        for end, furthest in enumerate((min, max)):
            some_wins, some_ties = (total.copy() for total in totals)
            for part in (some_wins, some_ties):
                part[place] *= alike
                part[:, place] *= alike
            side = some_wins[place] if end else some_wins[:, place]
            side += (1 - alike) * pairs.sum(0)[place]
            strength = fit_strengths(some_wins, some_ties)[0][place]
            intervals[end, place] = furthest(intervals[end, place], strength)
    return list(zip(*intervals.tolist(), strict=True)), wins - wins.transpose(0, 2, 1)


def _best_of(table: VideoTable, said: Sequence[PairResult]) -> Iterator[BestOfPrompt]:
    place = {name: number for number, name in enumerate(table.generators)}
    owner = {pair.id: name for name, pair in named_pairs(table)}
    scores: dict[str, dict[tuple[int, int], float | None]] = defaultdict(dict)
    for result in said:
        ends = place[result.pair.first_generator], place[result.pair.second_generator]
        score = pair_score(Dimension.OA, result.verdict, result.swapped)
        scores[owner[result.pair.id]][ends] = score
    for name in sorted(scores):
        rates = dict(zip(table.generators, win_rates(len(place), scores[name]), strict=True))
        most = max((rate for rate in rates.values() if rate is not None), default=None)
        yield BestOfPrompt(
            name,
            table.prompts[name],
            {g: r for g, r in rates.items() if r is not None or (g, name) in table.videos},
            tuple(g for g, r in rates.items() if r is not None and r == most),
        )
