"""Calibration, cost, position bias, and figures by generator."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vrthinker_core.evaluation.agreement import (
    NOT_SAID,
    IntervalEstimate,
    LabelColumn,
    LabelTable,
    Ratio,
    decided,
    estimate_ratios,
    metric_ratios,
    right,
)
from vrthinker_core.types import Dimension, Preference


@dataclass(frozen=True, slots=True)
class ConfidenceLevel:
    """Answers with one CF: how often they are people's label."""

    confidence: int
    pairs: int
    right: IntervalEstimate


@dataclass(frozen=True, slots=True)
class ProbabilityBin:
    """Answers whose label had a probability in this bin."""

    low: float
    high: float
    pairs: int
    expected: float  # mean probability
    right: float  # how often they are people's label


@dataclass(frozen=True, slots=True)
class Calibration:
    """One dimension, over answered pairs that people labelled; probabilities are not scaled."""

    dimension: Dimension
    confidence: tuple[ConfidenceLevel, ...]
    pairs: int  # with probabilities
    bins: tuple[ProbabilityBin, ...]
    error: float | None
    """Expected calibration error: mean of |expected - right| of the bins, weighted by pairs."""
    brier: float | None
    """Mean over pairs of the sum of (probability - (1 for people's label, else 0))², 0 to 2."""


def calibration(table: LabelTable) -> tuple[Calibration, ...]:
    """Compute every dimension with a CF or probabilities of labelled answers."""
    cf = np.array([result.confidence or 0 for result in table.results], dtype=np.int64)
    found = []
    for dimension in Dimension:
        people, judge = table.people[dimension], table.judge[dimension]
        answered = table.labelled(dimension) & (judge != NOT_SAID)
        correct = right(people, judge)
        levels = {level: answered & (cf == level) for level in range(1, 6)}
        ratios: dict[int, Ratio] = {
            level: (correct * rows, rows) for level, rows in levels.items() if rows.any()
        }
        confidence = tuple(
            ConfidenceLevel(level, int(levels[level].sum()), share)
            for level, share in estimate_ratios(ratios, table.prompts).items()
            if share
        )
        unknown = (np.nan, np.nan, np.nan)  # of tie, 1 and 2, if the judge tells none
        told = [(result.probabilities or {}).get(dimension, unknown) for result in table.results]
        probabilities = np.array(told, dtype=np.float64).reshape(-1, 3)
        known = answered & ~np.isnan(probabilities).any(axis=1)
        if not known.any():
            if confidence:
                found.append(Calibration(dimension, confidence, 0, (), None, None))
            continue
        pairs = int(known.sum())
        said = probabilities[np.arange(len(judge)), judge]
        # A probability on an edge belongs to the upper one of ten bins, 1 to the last.
        place = np.clip((said[known] * 10 + 1e-9).astype(int), 0, 9)
        bins = tuple(
            ProbabilityBin(
                number / 10,
                (number + 1) / 10,
                int(rows.sum()),
                float(said[known][rows].mean()),
                float(correct[known][rows].mean()),
            )
            for number in range(10)
            if (rows := place == number).any()
        )
        error = sum(each.pairs * abs(each.expected - each.right) for each in bins) / pairs
        squares = ((probabilities[known] - np.eye(3)[people[known]]) ** 2).sum(axis=1)
        found.append(Calibration(dimension, confidence, pairs, bins, error, float(squares.mean())))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over pairs."""

    mean: float
    median: float
    p90: float
    total: float


@dataclass(frozen=True, slots=True)
class SecondsBin:
    """Pairs of at least `low` and below `high` seconds; None if open."""

    low: float
    high: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Over pairs whose run came to its own end."""

    pairs: int
    frames: Spread  # shown to the judge
    turns: Spread
    prompt_tokens: Spread  # of all turns, each as it was sent
    new_tokens: Spread
    seconds: Spread
    turn_counts: tuple[tuple[int, int], ...]  # turns, and how many pairs took so many
    second_bins: tuple[SecondsBin, ...]


SPENT = ("frames", "turns", "prompt_tokens", "new_tokens", "seconds")  # fields of each result


def costs(table: LabelTable) -> Costs | None:
    """Compute costs; None if no run came to its own end."""
    runs = [result for result in table.results if result.judged]
    if not runs:
        return None
    spreads = {name: _spread([getattr(run, name) for run in runs]) for name in SPENT}
    turns = [run.turns for run in runs]
    edges = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, np.inf)
    pairs = np.histogram([run.seconds for run in runs], edges)[0].tolist()
    bins = list(map(SecondsBin, edges, (*edges[1:-1], None), pairs))
    filled = np.flatnonzero(pairs)
    return Costs(
        len(runs),
        **spreads,
        turn_counts=tuple((n, turns.count(n)) for n in range(min(turns), max(turns) + 1)),
        second_bins=tuple(bins[filled[0] : filled[-1] + 1]) if filled.size else (),
    )


def _spread(values: Sequence[float]) -> Spread:
    numbers = np.sort(np.array(values, dtype=np.float64))  # a sum of floats depends on their order
    median, p90 = np.percentile(numbers, (50, 90))
    return Spread(float(numbers.mean()), float(median), float(p90), float(numbers.sum()))


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How often the judge prefers the video that it is shown first."""

    dimension: Dimension
    decided: int  # pairs in which the judge prefers a video, as the data set orders them
    first: IntervalEstimate  # of those, the share that prefers video 1
    people_first: float | None
    """The same of people; differs from a half if the data set has better videos on one side."""
    shown_first: IntervalEstimate | None = None
    """Share of preferences over both orders for the video shown first; a half without a bias."""
    difference: float | None = None
    """Share that prefers video 1 when it is shown first, less the share when shown second."""


@dataclass(frozen=True, slots=True)
class SwapConsistency:
    """What becomes of the label of pairs with one in both orders."""

    dimension: Dimension
    pairs: int
    stable: IntervalEstimate
    flips: float  # to the other video
    tie_changes: float  # to a tie or from one


def position_bias(table: LabelTable) -> tuple[PositionBias, ...]:
    """Compute every dimension in which the judge prefers any video."""
    dimensions = [dimension for dimension in Dimension if decided(table.judge[dimension]).any()]
    ratios: dict[tuple[Dimension, str], Ratio] = {}
    differences: dict[Dimension, float] = {}
    for dimension in dimensions:
        people, judge, swapped = (
            side[dimension] for side in (table.people, table.judge, table.swapped)
        )
        both = (judge != NOT_SAID) & (swapped != NOT_SAID)
        to_first = (judge == Preference.FIRST).astype(float) + (swapped == Preference.SECOND)
        preferences = decided(judge).astype(float) + decided(swapped)
        ratios[dimension, "first"] = (judge == Preference.FIRST, decided(judge))
        ratios[dimension, "shown first"] = (both * to_first, both * preferences)
        ratios[dimension, "people"] = (people == Preference.FIRST, decided(people))
        shares = [side[both & decided(side)] == Preference.FIRST for side in (judge, swapped)]
        if all(map(len, shares)):
            differences[dimension] = float(shares[0].mean() - shares[1].mean())
    estimates = estimate_ratios(ratios, table.prompts)
    found = []
    for dimension in dimensions:
        first, people_first = estimates[dimension, "first"], estimates[dimension, "people"]
        assert first is not None
        found.append(
            PositionBias(
                dimension,
                int(decided(table.judge[dimension]).sum()),
                first,
                people_first.value if people_first else None,
                estimates[dimension, "shown first"],
                differences.get(dimension),
            )
        )
    return tuple(found)


def swap_consistency(table: LabelTable) -> tuple[SwapConsistency, ...]:
    """Compute every dimension with a label in both orders of any pair."""
    both = {d: (table.judge[d] != NOT_SAID) & (table.swapped[d] != NOT_SAID) for d in Dimension}
    ratios: dict[Dimension, Ratio] = {
        d: ((table.judge[d] == table.swapped[d]) & rows, rows)
        for d, rows in both.items()
        if rows.any()
    }
    found = []
    for dimension, stable in estimate_ratios(ratios, table.prompts).items():
        assert stable is not None
        judge, swapped = (side[dimension][both[dimension]] for side in (table.judge, table.swapped))
        flips = float(np.mean(decided(judge) & decided(swapped) & (judge != swapped)))
        changes = float(np.mean(decided(judge) != decided(swapped)))
        found.append(SwapConsistency(dimension, len(judge), stable, flips, changes))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class GeneratorPair:
    """All pairs of two generators, in any order; ties are half wins."""

    first: str  # the two in alphabetical order
    second: str
    pairs: int
    wins: float | None  # of the first one by the judge: share of the pairs that it answered
    people_wins: float | None
    tau: float | None
    diff: float | None


@dataclass(frozen=True, slots=True)
class GeneratorScore:
    """One generator against all others that it was paired with."""

    name: str
    pairs: int
    wins: float | None
    people_wins: float | None


def by_generators(table: LabelTable, dimension: Dimension) -> tuple[GeneratorPair, ...]:
    """Compute every two paired generators, alphabetically; () if unknown."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, names in _generators(table):
        groups[min(names), max(names)].append(row)
    found = []
    for names, rows in sorted(groups.items()):
        judge, people = table.judge[dimension][rows], table.people[dimension][rows]
        turned = [table.results[row].pair.first_generator != names[0] for row in rows]
        metrics = map(_share, metric_ratios(people, right(people, judge)).values())
        wins = _wins(judge, turned), _wins(people, turned)
        found.append(GeneratorPair(*names, len(rows), *wins, *metrics))
    return tuple(found)


def generator_scores(table: LabelTable, dimension: Dimension) -> tuple[GeneratorScore, ...]:
    """Compute every generator, the one that wins most often first."""
    sides: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for row, names in _generators(table):
        for name in names:
            sides[name].append((row, name != names[0]))
    scores = []
    for name, places in sides.items():
        rows, turned = map(list, zip(*places, strict=True))
        wins = (_wins(side[dimension][rows], turned) for side in (table.judge, table.people))
        scores.append(GeneratorScore(name, len(rows), *wins))
    scores.sort(key=lambda score: (-1.0 if score.wins is None else -score.wins, score.name))
    return tuple(scores)


def _generators(table: LabelTable) -> Iterator[tuple[int, tuple[str, str]]]:
    for row, result in enumerate(table.results):
        names = result.pair.first_generator, result.pair.second_generator
        if all(names) and names[0] != names[1]:
            yield row, names


def _wins(labels: LabelColumn, turned: Sequence[bool]) -> float | None:
    """Share of wins of video 1, or video 2 if `turned`."""
    won = labels == np.where(turned, int(Preference.SECOND), int(Preference.FIRST))
    return _share((won + 0.5 * (labels == Preference.TIE), labels != NOT_SAID))


def _share(ratio: Ratio) -> float | None:
    above, below = float(ratio[0].sum()), float(ratio[1].sum())
    return above / below if below else None
