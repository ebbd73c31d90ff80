"""The same figures for groups of pairs: by the generators of their videos, and by the length of the clips."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vrthinker_core.evaluation.agreement import (
    NOT_SAID,
    IntervalEstimate,
    LabelColumn,
    LabelTable,
    Numbers,
    Ratio,
    Rows,
    decided,
    diff_ratio,
    estimate_ratios,
    right,
    tau_ratio,
)
from vrthinker_core.types import Dimension, Preference

LEVELS = range(1, 6)  # CF
BINS = 10  # Of a reliability diagram, equally wide


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
    expected: float  # Their mean probability
    right: float  # How often they are people's label


@dataclass(frozen=True, slots=True)
class Calibration:
    """One dimension, over answered pairs that people labelled. Probabilities are as the judge gives them, not scaled."""

    dimension: Dimension
    confidence: tuple[ConfidenceLevel, ...]
    pairs: int  # With probabilities
    bins: tuple[ProbabilityBin, ...]
    error: (
        float | None
    )  # Expected calibration error: mean distance of `expected` and `right` of the bins, weighted by pairs
    brier: (
        float | None
    )  # Mean over pairs of the summed squares of (probability - 1 if people's label else 0); 0 best, 2 worst


def calibration(table: LabelTable) -> tuple[Calibration, ...]:
    """Of every dimension in which an answered and labelled pair has a CF or probabilities."""
    levels = np.array([result.confidence or 0 for result in table.results], dtype=np.int64)
    found = []
    for dimension in Dimension:
        answered = table.labelled(dimension) & (table.judge[dimension] != NOT_SAID)
        confidence = _levels(table, dimension, np.where(answered, levels, 0))
        probabilities = _probabilities(table, dimension)
        known = answered & ~np.isnan(probabilities).any(axis=1)
        if confidence or known.any():
            found.append(_calibration(table, dimension, confidence, probabilities[known], known))
    return tuple(found)


def _levels(
    table: LabelTable, dimension: Dimension, levels: np.ndarray
) -> tuple[ConfidenceLevel, ...]:
    correct = right(table.people[dimension], table.judge[dimension])
    ratios: dict[int, Ratio] = {
        level: (correct * (levels == level), levels == level) for level in LEVELS
    }
    estimates = estimate_ratios(ratios, table.prompts) if levels.any() else {}
    return tuple(
        ConfidenceLevel(level, int((levels == level).sum()), share)
        for level, share in estimates.items()
        if share
    )


def _probabilities(table: LabelTable, dimension: Dimension) -> Numbers:
    """Of tie, 1 and 2 in each row; not a number where the judge tells none."""
    unknown = (np.nan, np.nan, np.nan)
    rows = [(result.probabilities or {}).get(dimension, unknown) for result in table.results]
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _calibration(
    table: LabelTable,
    dimension: Dimension,
    confidence: tuple[ConfidenceLevel, ...],
    probabilities: Numbers,
    known: np.ndarray,
) -> Calibration:
    people, judge = table.people[dimension][known], table.judge[dimension][known]
    if not known.any():
        return Calibration(dimension, confidence, 0, (), None, None)
    said = probabilities[np.arange(len(judge)), judge]
    bins = _bins(said, right(people, judge))
    error = sum(each.pairs * abs(each.expected - each.right) for each in bins) / len(judge)
    truth = np.eye(3)[people]
    return Calibration(
        dimension,
        confidence,
        len(judge),
        bins,
        float(error),
        float(((probabilities - truth) ** 2).sum(axis=1).mean()),
    )


def _bins(said: Numbers, correct: Numbers) -> tuple[ProbabilityBin, ...]:
    """The bins that hold any; a probability on an edge belongs to the upper bin, 1 to the last."""
    place = np.clip((said * BINS + 1e-9).astype(int), 0, BINS - 1)
    filled = [(number, place == number) for number in range(BINS) if (place == number).any()]
    return tuple(
        ProbabilityBin(
            number / BINS,
            (number + 1) / BINS,
            int(rows.sum()),
            float(said[rows].mean()),
            float(correct[rows].mean()),
        )
        for number, rows in filled
    )


SECOND_BINS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # Lower edges; the last bin is open


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over pairs."""

    mean: float
    median: float
    p90: float
    total: float


@dataclass(frozen=True, slots=True)
class SecondsBin:
    """Pairs that took from `low` seconds to below `high`; None for the open end."""

    low: float
    high: float | None
    pairs: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Over pairs whose run came to its own end."""

    pairs: int
    frames: Spread  # Pictures shown to the judge
    turns: Spread
    prompt_tokens: Spread  # Of all turns, each as it was sent
    new_tokens: Spread
    seconds: Spread
    turn_counts: tuple[tuple[int, int], ...]  # Turns, and how many pairs took so many
    second_bins: tuple[SecondsBin, ...]


def costs(table: LabelTable) -> Costs | None:
    """None where no run came to its own end."""
    runs = [result for result in table.results if result.judged]
    if not runs:
        return None
    turns, seconds = [run.turns for run in runs], [run.seconds for run in runs]
    return Costs(
        len(runs),
        _spread([run.frames for run in runs]),
        _spread(turns),
        _spread([run.prompt_tokens for run in runs]),
        _spread([run.new_tokens for run in runs]),
        _spread(seconds),
        tuple((number, turns.count(number)) for number in range(min(turns), max(turns) + 1)),
        _second_bins(np.asarray(seconds)),
    )


def _spread(values: Sequence[float]) -> Spread:
    numbers = np.sort(
        np.asarray(values, dtype=np.float64)
    )  # a sum of floats depends on their order
    median, p90 = np.percentile(numbers, (50, 90))
    return Spread(float(numbers.mean()), float(median), float(p90), float(numbers.sum()))


def _second_bins(seconds: np.ndarray) -> tuple[SecondsBin, ...]:
    highs = (*SECOND_BINS[1:], None)
    bins = [
        SecondsBin(
            low,
            high,
            int(((seconds >= low) & (seconds < (np.inf if high is None else high))).sum()),
        )
        for low, high in zip(SECOND_BINS, highs, strict=True)
    ]
    filled = [position for position, each in enumerate(bins) if each.pairs]
    return tuple(bins[filled[0] : filled[-1] + 1]) if filled else ()


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How often the judge prefers the video that it is shown first. Without a bias `shown_first` is a half, whatever the videos."""

    dimension: Dimension
    decided: int  # Pairs in which the judge prefers a video, as the data set orders them
    first: IntervalEstimate  # of those, the share that prefers video 1
    people_first: (
        float | None
    )  # The same of people: it differs from a half where the data set puts better videos on one side
    shown_first: IntervalEstimate | None = (
        None  # Over both orders: share of preferences that went to the video that was shown first
    )
    difference: float | None = (
        None  # Share that prefers video 1 when it is shown first, less the share when it is shown second
    )


@dataclass(frozen=True, slots=True)
class SwapConsistency:
    """Pairs with a label in both orders: shares of those whose label stays, turns to the other video, or to a tie or from one."""

    dimension: Dimension
    pairs: int
    stable: IntervalEstimate
    flips: float
    tie_changes: float


def position_bias(table: LabelTable) -> tuple[PositionBias, ...]:
    """Of every dimension in which the judge prefers a video in any pair."""
    dimensions = [dimension for dimension in Dimension if decided(table.judge[dimension]).any()]
    ratios: dict[tuple[Dimension, str], Ratio] = {}
    for dimension in dimensions:
        judge, swapped = table.judge[dimension], table.swapped[dimension]
        both = (judge != NOT_SAID) & (swapped != NOT_SAID)
        to_first = both * (
            (judge == Preference.FIRST).astype(float) + (swapped == Preference.SECOND)
        )
        ratios[dimension, "first"] = (judge == Preference.FIRST, decided(judge))
        ratios[dimension, "shown first"] = (
            to_first,
            both * (decided(judge).astype(float) + decided(swapped)),
        )
        ratios[dimension, "people"] = (
            table.people[dimension] == Preference.FIRST,
            decided(table.people[dimension]),
        )
    estimates = estimate_ratios(ratios, table.prompts)
    return tuple(_position(table, dimension, estimates) for dimension in dimensions)


def _position(
    table: LabelTable,
    dimension: Dimension,
    estimates: dict[tuple[Dimension, str], IntervalEstimate | None],
) -> PositionBias:
    judge, swapped = table.judge[dimension], table.swapped[dimension]
    both = (judge != NOT_SAID) & (swapped != NOT_SAID)
    first, people = estimates[dimension, "first"], estimates[dimension, "people"]
    assert first is not None
    shares = [side[both & decided(side)] == Preference.FIRST for side in (judge, swapped)]
    difference = float(shares[0].mean() - shares[1].mean()) if all(map(len, shares)) else None
    return PositionBias(
        dimension,
        int(decided(judge).sum()),
        first,
        people.value if people else None,
        estimates[dimension, "shown first"],
        difference,
    )


def swap_consistency(table: LabelTable) -> tuple[SwapConsistency, ...]:
    """Of every dimension with a label in both orders of any pair."""
    both = {d: (table.judge[d] != NOT_SAID) & (table.swapped[d] != NOT_SAID) for d in Dimension}
    same = {d: (table.judge[d] == table.swapped[d], both[d]) for d in Dimension if both[d].any()}
    ratios: dict[Dimension, Ratio] = {d: (equal & rows, rows) for d, (equal, rows) in same.items()}
    found = []
    for dimension, stable in estimate_ratios(ratios, table.prompts).items():
        assert stable is not None
        judge, swapped = (side[dimension][both[dimension]] for side in (table.judge, table.swapped))
        flips = decided(judge) & decided(swapped) & (judge != swapped)
        changes = decided(judge) != decided(swapped)
        found.append(
            SwapConsistency(
                dimension, len(judge), stable, float(np.mean(flips)), float(np.mean(changes))
            )
        )
    return tuple(found)


LENGTHS = (
    0.0,
    2.0,
    4.0,
    6.0,
    10.0,
    20.0,
)  # Lower edges of the bins in seconds; the last bin is open


@dataclass(frozen=True, slots=True)
class GeneratorPair:
    """All pairs of two generators, whichever made video 1. Wins count a tie as half a win."""

    first: str  # The two in alphabetical order
    second: str
    pairs: int
    wins: float | None  # Of the first one, as the judge says: share of the pairs that it answered
    people_wins: float | None  # The same as people say
    tau: float | None
    diff: float | None


@dataclass(frozen=True, slots=True)
class GeneratorScore:
    """One generator against all others that it was paired with."""

    name: str
    pairs: int
    wins: float | None
    people_wins: float | None


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Pairs whose longer clip lasts from `low` seconds to below `high`; None for the open end."""

    low: float
    high: float | None
    pairs: int  # That people labelled
    tau: IntervalEstimate


def by_generators(table: LabelTable, dimension: Dimension) -> tuple[GeneratorPair, ...]:
    """Every two generators that were paired, in alphabetical order; () where generators are not known."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row, result in enumerate(table.results):
        names = result.pair.first_generator, result.pair.second_generator
        if all(names) and names[0] != names[1]:
            groups[min(names), max(names)].append(row)
    return tuple(
        _generator_pair(table, dimension, names, np.array(rows))
        for names, rows in sorted(groups.items())
    )


def _generator_pair(
    table: LabelTable, dimension: Dimension, names: tuple[str, str], rows: np.ndarray
) -> GeneratorPair:
    people, judge = table.people[dimension][rows], table.judge[dimension][rows]
    turned = np.array([table.results[row].pair.first_generator != names[0] for row in rows])
    tau, diff = (_share(ratio) for ratio in (tau_ratio(people, judge), diff_ratio(people, judge)))
    return GeneratorPair(
        *names, len(rows), _share(_wins(judge, turned)), _share(_wins(people, turned)), tau, diff
    )


def generator_scores(table: LabelTable, dimension: Dimension) -> tuple[GeneratorScore, ...]:
    """Every generator, the one that wins most often first."""
    sides: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for row, result in enumerate(table.results):
        names = result.pair.first_generator, result.pair.second_generator
        if all(names) and names[0] != names[1]:
            for name in names:
                sides[name].append((row, name != names[0]))
    scores = []
    for name, places in sides.items():
        rows, turned = np.array([row for row, _ in places]), np.array([side for _, side in places])
        judge, people = table.judge[dimension][rows], table.people[dimension][rows]
        scores.append(
            GeneratorScore(
                name, len(rows), _share(_wins(judge, turned)), _share(_wins(people, turned))
            )
        )
    return tuple(
        sorted(scores, key=lambda score: (-1.0 if score.wins is None else -score.wins, score.name))
    )


def by_length(table: LabelTable, dimension: Dimension) -> tuple[LengthGroup, ...]:
    """Every bin that holds a pair that people labelled; a pair whose videos could not be opened has no length, and is left out."""
    lengths = np.array(
        [max(result.clip_seconds) if result.clip_seconds else np.nan for result in table.results]
    )
    people, labelled = table.people[dimension], table.labelled(dimension)
    correct = right(people, table.judge[dimension])
    highs = (*LENGTHS[1:], None)
    ratios: dict[tuple[float, float | None], Ratio] = {}
    for low, high in zip(LENGTHS, highs, strict=True):
        rows: Rows = labelled & (lengths >= low) & (lengths < (np.inf if high is None else high))
        ratios[low, high] = (correct * rows, rows)
    estimates = estimate_ratios(ratios, table.prompts)
    return tuple(
        LengthGroup(*edges, int(ratios[edges][1].sum()), tau)
        for edges, tau in estimates.items()
        if tau
    )


def _wins(labels: LabelColumn, turned: Rows) -> Ratio:
    """Wins of the video 1, or of video 2 where `turned`, a tie as half a win; over the pairs with a label."""
    won = labels == np.where(turned, int(Preference.SECOND), int(Preference.FIRST))
    return won + 0.5 * (labels == Preference.TIE), labels != NOT_SAID


def _share(ratio: Ratio) -> float | None:
    above, below = float(ratio[0].sum()), float(ratio[1].sum())
    return above / below if below else None
