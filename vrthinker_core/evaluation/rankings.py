"""The ranking of generators from judged pairs: per dimension strengths with intervals, a win matrix and cycles; best of N."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.evaluation.agreement import TAIL, exact_end
from vrthinker_core.evaluation.outcomes import (
    Counts,
    WinCounts,
    as_counted,
    count_wins,
    labels_said,
    pair_score,
    win_rates,
)
from vrthinker_core.evaluation.schedule import all_pairs, connected, pairs_by_name
from vrthinker_core.evaluation.strengths import fit_strengths
from vrthinker_core.evaluation.video_table import VideoTable
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import MissingRule, PairResult
from vrthinker_core.types import Dimension
from vrthinker_core.types.progress import count

Ring = tuple[
    int, ...
]  # Generators by their places; each beats the next one, and the last one the first


def majority_cycles(margins: Counts) -> list[Ring]:
    """All cycles of three, and for each majority that closes none of them the shortest cycle it closes, if any.

    `margins` [i, j] are the wins of i over j less those of j over i; a majority is a margin above 0. Each cycle begins with its
    smallest place.
    """
    n = len(margins)
    beats = [[j for j in range(n) if margins[i, j] > 0] for i in range(n)]
    rings = {
        _turned(ring)
        for three in combinations(range(n), 3)
        for ring in _both_ways(three)
        if _holds(ring, margins)
    }
    closed = {(ring[k - 1], ring[k]) for ring in rings for k in range(len(ring))}
    for i in range(n):
        for j in beats[i]:
            if (i, j) not in closed and (path := _shortest(beats, j, i)):
                rings.add(_turned(tuple(path)))
    return sorted(rings, key=lambda ring: (len(ring), ring))


def cycle_share(ring: Ring, margins: Counts) -> float:
    """The share of samples in which all majorities of a cycle hold; `margins` are [sample, i, j]."""
    return float(
        np.all([margins[:, ring[k - 1], ring[k]] > 0 for k in range(len(ring))], axis=0).mean()
    )


def _both_ways(three: tuple[int, int, int]) -> tuple[Ring, Ring]:
    return three, three[::-1]


def _holds(ring: Ring, margins: Counts) -> bool:
    return all(margins[ring[k - 1], ring[k]] > 0 for k in range(len(ring)))


def _turned(ring: Ring) -> Ring:
    start = ring.index(min(ring))
    return ring[start:] + ring[:start]


def _shortest(beats: list[list[int]], start: int, goal: int) -> list[int] | None:
    """The shortest way from one to the other along majorities; None where there is none."""
    before: dict[int, int | None] = {start: None}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        if place == goal:
            path: list[int] = []
            step: int | None = goal
            while step is not None:
                path.append(step)
                step = before[step]
            return path[::-1]
        for other in beats[place]:
            if other not in before:
                before[other] = place
                queue.append(other)
    return None


SAMPLES = 500  # Of the bootstrap


@dataclass(frozen=True, slots=True)
class WinCell:
    """How one generator did against another one. A pair judged in both orders counts once: each order for half of it."""

    wins: float
    ties: float
    losses: float

    @property
    def pairs(self) -> float:
        """Pairs of which something was said."""
        return self.wins + self.ties + self.losses

    @property
    def rate(self) -> float | None:
        """The win rate, 0 to 1, a tie as half a win; None where nothing was said."""
        return (self.wins + self.ties / 2) / self.pairs if self.pairs else None


@dataclass(frozen=True, slots=True)
class GeneratorStrength:
    """One generator in one dimension."""

    generator: str
    place: (
        int | None
    )  # 1 is the strongest, and equals share theirs; None where nothing was said of it
    strength: (
        float | None
    )  # Natural logarithm, mean 0 over the generators; a lead of 1.1 wins three of four decided pairs
    interval: (
        tuple[float, float] | None
    )  # Of the strength, 95 % over prompts; None with fewer than two prompts
    all_pairs: WinCell  # Against all others together
    without_video: (
        int  # Pairs that it lost, or that are left out, since its own video alone cannot be read
    )


@dataclass(frozen=True, slots=True)
class MajorityCycle:
    """Generators of which each beats the next one in most of their decided pairs, and the last one the first."""

    generators: tuple[str, ...]
    share: float  # Of the bootstrap's samples in which all of these majorities hold


@dataclass(frozen=True, slots=True)
class DimensionRanking:
    """All generators in one dimension."""

    strengths: tuple[
        GeneratorStrength, ...
    ]  # The strongest first; those of which nothing was said last
    matrix: tuple[tuple[WinCell, ...], ...]  # Row against column, both in the order of `strengths`
    cycles: tuple[MajorityCycle, ...]  # The surest first
    groups: tuple[
        tuple[str, ...], ...
    ]  # Generators that no chain of judged pairs connects; one group where all are


@dataclass(frozen=True, slots=True)
class BestOfPrompt:
    """The videos of one prompt compared with one another, overall."""

    name: str  # Of the videos
    prompt: str
    rates: dict[
        str, float | None
    ]  # Generator to its video's pairwise win rate; None where nothing was said of it
    best: tuple[str, ...]  # With the highest rate; several where they share it


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a set of judged pairs says about generators."""

    judge: str
    generators: tuple[str, ...]
    prompts: int  # Prompts that were judged
    pairs: int  # That gave a verdict
    missing: (
        MissingRule  # What became of pairs of which one video alone is missing or cannot be decoded
    )
    uncounted: dict[str, int]  # How many pairs count for nobody, by the reason
    failed: tuple[str, ...]  # Why pairs have no verdict of the judge, a sentence each
    left_out: tuple[str, ...]  # What was never judged, and why
    dimensions: dict[Dimension, DimensionRanking]
    best_of: tuple[BestOfPrompt, ...]

    def summary(self, cycles: int) -> list[str]:
        """What it rests on, in sentences, and at most so many of its cycles."""
        overall = self.dimensions[Dimension.OA]
        lines = [
            f"{count(self.pairs, 'pair')} of {count(self.prompts, 'prompt')} judged by {self.judge}."
        ]
        lost = {row.generator: row.without_video for row in overall.strengths if row.without_video}
        if lost and self.missing == "loses":
            lines.append(
                f"Lost without a look, as the video is missing or cannot be decoded: {_told(lost)}."
            )
        if self.uncounted:
            lines.append(f"Pairs that are left out: {_told(self.uncounted)}.")
        lines += [
            f"{' beats '.join((*cycle.generators, cycle.generators[0]))} ({cycle.share:.0%} of the samples)."
            for cycle in overall.cycles[:cycles]
        ]
        if len(overall.cycles) > cycles:
            lines.append(f"There are {len(overall.cycles) - cycles} more cycles.")
        if len(overall.groups) > 1:
            apart = "; ".join(", ".join(group) for group in overall.groups)
            lines.append(
                f"No judged pairs connect these generators, so their strengths cannot be compared: {apart}."
            )
        if not any(row.interval for row in overall.strengths):
            lines.append("Intervals need at least two prompts.")
        return lines


def rank_generators(
    table: VideoTable, results: Iterable[PairResult], judge: str, samples: int = SAMPLES
) -> Ranking:
    """Rank the generators of a table by what was judged of it. The order of results makes no difference."""
    ordered = sorted(results, key=lambda result: result.pair.row)
    silent = [result for result in ordered if not result.has_verdict]
    counted = [result for result in as_counted(ordered, table.rule) if result.has_verdict]
    without = Counter(
        result.unreadable_generator for result in silent if result.unreadable_generator
    )
    weights = _weights(table, ordered)
    uncounted = Counter(
        _reason(result) for result in as_counted(silent, table.rule) if not result.has_verdict
    )
    return Ranking(
        judge,
        table.generators,
        len({result.pair.prompt for result in ordered if result.has_verdict}),
        len(ordered) - len(silent),
        table.rule,
        dict(sorted(uncounted.items())),
        tuple(
            f"{_named(result)}: {result.error or 'it ended without a verdict.'}"
            for result in silent
        ),
        table.left_out,
        {
            each: _dimension(count_wins(counted, table.generators, each, weights), samples, without)
            for each in Dimension
        },
        tuple(_best_of(table, counted)),
    )


def _weights(table: VideoTable, results: Sequence[PairResult]) -> dict[str, float]:
    """The weight of each pair with a missing video: the share of their other pairs that these generators were compared on.

    Within a budget few pairs are judged. If all missing videos counted in full beside them, they would count too much.
    """
    possible = Counter(_ends(pair) for pair in all_pairs(table) if not pair.fault)
    tried = Counter(_ends(result.pair) for result in results if not result.pair.fault)
    ends = {result.pair.id: _ends(result.pair) for result in results if result.pair.fault}
    return {
        name: tried[both] / possible[both] if possible[both] else 1.0 for name, both in ends.items()
    }


def _ends(pair: EvaluationPair) -> frozenset[str]:
    return frozenset((pair.first_generator, pair.second_generator))


def _reason(result: PairResult) -> str:
    """Why a pair counts for nobody, in a few words."""
    if result.unreadable:
        return f"no video of {result.unreadable_generator or 'either'}"
    if result.outside_scope:
        return "outside the judge's scope"
    return f"failed, {result.fault}" if result.fault else f"no verdict, {result.stop.value}"


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} ({name})" for name, number in counts.items())


def _named(result: PairResult) -> str:
    return f"{result.pair.first_generator} and {result.pair.second_generator}, {result.pair.prompt[:60]}"


def _dimension(
    counts: WinCounts, samples: int, without_video: Mapping[str, int]
) -> DimensionRanking:
    wins, ties = counts.wins.sum(0), counts.ties.sum(0)
    compared = (wins + wins.T + ties).sum(1) > 0
    strengths, _ = fit_strengths(wins, ties)
    intervals, margins = _bootstrap(counts, samples)
    rounded = [round(float(strength), 6) for strength in strengths]
    order = sorted(
        range(len(wins)), key=lambda i: (not compared[i], -rounded[i], counts.generators[i])
    )
    rows = [
        GeneratorStrength(
            generator=counts.generators[i],
            place=1 + sum(rounded[j] > rounded[i] for j in order if compared[j])
            if compared[i]
            else None,
            strength=float(strengths[i]) if compared[i] else None,
            interval=(float(intervals[0, i]), float(intervals[1, i]))
            if compared[i] and intervals is not None
            else None,
            all_pairs=_cell(wins[i].sum(), ties[i].sum(), wins[:, i].sum()),
            without_video=without_video.get(counts.generators[i], 0),
        )
        for i in order
    ]
    matrix = tuple(tuple(_cell(wins[i, j], ties[i, j], wins[j, i]) for j in order) for i in order)
    cycles = [
        MajorityCycle(tuple(counts.generators[i] for i in ring), cycle_share(ring, margins))
        for ring in majority_cycles(wins - wins.T)
    ]
    cycles.sort(key=lambda cycle: (-cycle.share, cycle.generators))
    return DimensionRanking(
        tuple(rows), matrix, tuple(cycles), _groups(counts.generators, wins + wins.T + ties)
    )


def _cell(wins: float, ties: float, losses: float) -> WinCell:
    return WinCell(round(float(wins), 6), round(float(ties), 6), round(float(losses), 6))


def _bootstrap(counts: WinCounts, samples: int) -> tuple[Counts | None, Counts]:
    """(Intervals [2, i] of the strengths, margins [sample, i, j]) over resampled prompts; no intervals from a single prompt.

    Where all prompts say the same of a generator, its interval goes as far as the exact binomial one does.
    """
    prompts = len(counts.prompts)
    if prompts < 2:
        wins = counts.wins.sum(0)
        return None, (wins - wins.T)[None]
    drawn = (
        np.random.default_rng(0)
        .multinomial(prompts, np.full(prompts, 1 / prompts), size=samples)
        .astype(float)
    )
    wins, ties = counts.sample(drawn)
    strengths = np.array([fit_strengths(*each)[0] for each in zip(wins, ties, strict=True)])
    intervals: Counts = np.percentile(strengths, [100 * TAIL, 100 - 100 * TAIL], axis=0)
    for place in np.flatnonzero(_says_the_same(counts)):
        worst, best = _extremes(counts, int(place))
        intervals[:, place] = min(intervals[0, place], worst), max(intervals[1, place], best)
    return intervals, wins - wins.transpose(0, 2, 1)


def _says_the_same(counts: WinCounts) -> NDArray[np.bool_]:
    """Of each generator, whether every prompt has the same shares of wins and ties against each other one.

    Resampled prompts then say the same too, and nothing of how sure that is.
    """
    pairs = counts.pairs
    parts = ((part, part.sum(0)) for part in (counts.wins, counts.ties))
    alike = [
        np.isclose(part * pairs.sum(0), whole * pairs).all(axis=(0, 2)) for part, whole in parts
    ]
    same: NDArray[np.bool_] = alike[0] & alike[1] & (pairs.sum((0, 2)) > 0)
    return same


def _extremes(counts: WinCounts, place: int) -> tuple[float, float]:
    """The strength of a generator if as few prompts as the exact binomial interval allows said what all have said of it.

    In all others it would lose to each other one, or beat it.
    """
    compared = counts.pairs.sum(0)[place]
    alike = exact_end(int((counts.pairs[:, place].sum(1) > 0).sum()))
    found = []
    for beats in (False, True):
        wins, ties = counts.wins.sum(0), counts.ties.sum(0)
        for part in (wins, ties):
            part[place] *= alike
            part[:, place] *= alike
        side = wins[place] if beats else wins[:, place]
        side += (1 - alike) * compared
        found.append(float(fit_strengths(wins, ties)[0][place]))
    return found[0], found[1]


def _groups(generators: Sequence[str], compared: Counts) -> tuple[tuple[str, ...], ...]:
    group = connected(len(generators), zip(*np.nonzero(compared), strict=True))
    return tuple(
        tuple(name for name, of in zip(generators, group, strict=True) if of == each)
        for each in sorted(set(group))
    )


def _best_of(table: VideoTable, said: Sequence[PairResult]) -> Iterable[BestOfPrompt]:
    """One for each name of which a pair was judged."""
    place = {name: number for number, name in enumerate(table.generators)}
    owner = {pair.id: name for name, pairs in pairs_by_name(table).items() for pair in pairs}
    scores: dict[str, dict[tuple[int, int], float | None]] = {}
    for result in said:
        ends = place[result.pair.first_generator], place[result.pair.second_generator]
        score = pair_score(labels_said(Dimension.OA, result.verdict, result.swapped))
        scores.setdefault(owner[result.pair.id], {})[ends] = score
    for name in sorted(scores):
        rates = dict(zip(table.generators, win_rates(len(place), scores[name]), strict=True))
        known = [rate for rate in rates.values() if rate is not None]
        best = tuple(generator for generator, rate in rates.items() if known and rate == max(known))
        shown = {
            g: rate for g, rate in rates.items() if rate is not None or (g, name) in table.videos
        }
        yield BestOfPrompt(name, table.prompts[name], shown, best)
