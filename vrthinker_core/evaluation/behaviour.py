"""Calibration, cost, hard subsets, and position bias."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vrthinker_core.evaluation.agreement import (
    NOT_SAID,
    IntervalEstimate,
    LabelTable,
    Metric,
    Ratio,
    Rows,
    decided,
    estimate_ratios,
    metric_ratios,
    right,
)
from vrthinker_core.results.result import RunStart
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
class Costs:
    """Over pairs whose run came to its own end, the first order alone; None is unknown."""

    pairs: int
    frames: float  # mean of a pair, as the next four: shown to the judge
    turns: float
    prompt_tokens: float  # of all turns, each as it was sent
    new_tokens: float
    seconds: float
    median_seconds: float
    left_view: IntervalEstimate | None  # share of runs in which frames had left the view
    speed: float | None  # tokens written in a second of a pair
    pairs_an_hour: float | None  # side by side
    throughput: float | None  # tokens written in a second by all pairs side by side
    peak_gb: float | None  # memory of the judge's device, without one of its process


SPENT = ("frames", "turns", "prompt_tokens", "new_tokens", "seconds")  # fields of each result


def costs(table: LabelTable, starts: Sequence[RunStart] = ()) -> Costs | None:
    """Compute costs; None if no run came to its own end. `starts`: of the whole evaluation."""
    rows = np.array([result.judged for result in table.results], dtype=bool)
    runs = [result for result in table.results if result.judged]
    if not runs:
        return None
    # A sum of floats depends on their order
    spent = {name: np.sort([float(getattr(run, name)) for run in runs]) for name in SPENT}
    means = {name: float(values.mean()) for name, values in spent.items()}
    left = np.array([bool(result.left_view) for result in table.results])
    known = rows & np.array([result.left_view is not None for result in table.results])
    seconds = sum(start.seconds for start in starts if start.judged)
    rate = sum(start.judged for start in starts) / seconds if seconds else None
    return Costs(
        len(runs),
        **means,
        median_seconds=float(np.median(spent["seconds"])),
        left_view=estimate_ratios({"left": (left & known, known)}, table.prompts)["left"],
        speed=means["new_tokens"] / means["seconds"] if means["seconds"] else None,
        pairs_an_hour=rate and 3600 * rate,
        throughput=rate and rate * means["new_tokens"],
        peak_gb=max((start.peak_gb for start in starts if start.peak_gb), default=None),
    )


LONG, COMPLEX, RESIDUAL = "Longest 10 % of videos", "Longest 10 % of prompts", "Neither of both"


@dataclass(frozen=True, slots=True)
class Subset:
    """Pairs of one kind (arXiv 2510.10518v4, Tables 2 and 3).

    The paper's "redundant" set is no part of a data set: random frames of its videos are repeated.
    """

    name: str  # LONG, COMPLEX or RESIDUAL
    pairs: int  # that people labelled
    tau: IntervalEstimate
    diff: IntervalEstimate | None


def subsets(table: LabelTable, dimension: Dimension) -> tuple[Subset, ...]:
    """Score the pairs with the longest videos, with the longest prompts, and the rest.

    The length of a pair is that of both videos together, in seconds, or of the prompt, in
    characters. Ties at the cut belong to the longest. A length that is the same
    in all pairs gives no subset.
    """
    results = table.results
    clips = [sum(each.clip_seconds) if each.clip_seconds else np.nan for each in results]
    lengths = {LONG: clips, COMPLEX: [float(len(each.pair.prompt)) for each in results]}
    found: dict[str, Rows] = {}
    for name, values in lengths.items():
        numbers = np.array(values)
        if len(known := np.sort(numbers[~np.isnan(numbers)])):
            rows: Rows = numbers >= known[-math.ceil(len(known) / 10)]
            found |= {name: rows} if rows.sum() < len(known) else {}
    if len(found) == 2:
        found[RESIDUAL] = ~np.isnan(clips) & ~found[LONG] & ~found[COMPLEX]
    people = table.people[dimension]
    metrics = metric_ratios(people, right(people, table.judge[dimension]))
    ratios: dict[tuple[str, Metric], Ratio] = {
        (name, metric): (above * rows, below * rows)
        for name, rows in found.items()
        for metric, (above, below) in metrics.items()
    }
    scores = estimate_ratios(ratios, table.prompts)
    return tuple(
        Subset(name, int((rows & table.labelled(dimension)).sum()), tau, scores[name, "diff"])
        for name, rows in found.items()
        if (tau := scores[name, "tau"])
    )


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
