"""The same figures for groups of pairs: by the generators of their videos, and by the length of the clips."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from vrthinker_core.evaluation.scores.agreement import diff_ratio, right, tau_ratio
from vrthinker_core.evaluation.scores.bootstrap import IntervalEstimate, Ratio, estimate_ratios
from vrthinker_core.evaluation.scores.labels import NOT_SAID, LabelColumn, LabelTable, Rows
from vrthinker_core.types import Dimension, Preference

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
