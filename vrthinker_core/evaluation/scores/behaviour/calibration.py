"""Calibration: whether a judge is right as often as it says, by its own CF and by the probabilities of its labels."""

from dataclasses import dataclass

import numpy as np

from vrthinker_core.evaluation.scores.agreement import right
from vrthinker_core.evaluation.scores.bootstrap import IntervalEstimate, Ratio, estimate_ratios
from vrthinker_core.evaluation.scores.labels import NOT_SAID, LabelTable, Numbers
from vrthinker_core.types import Dimension

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
