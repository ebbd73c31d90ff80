"""Agreement with people: `tau` and `diff` of each dimension with intervals, beside what answers without a look would score."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from vrthinker_core.evaluation.scores.bootstrap import IntervalEstimate, Ratio, estimate_ratios
from vrthinker_core.evaluation.scores.labels import (
    NOT_SAID,
    LabelColumn,
    LabelTable,
    Numbers,
    decided,
)
from vrthinker_core.types import Dimension, Preference

Metric = Literal["tau", "diff"]
"""tau: the share of labelled pairs with exactly people's label, of 1, 2 and tie. diff: the same share of the pairs in which people
prefer a video; a tie is wrong there. A pair without an answer is wrong in both."""

CONSTANT = {
    "always tie": Preference.TIE,
    "always 1": Preference.FIRST,
    "always 2": Preference.SECOND,
}
COIN, COIN_OF_TWO = (
    "coin flip",
    "coin flip, never a tie",
)  # Over 1, 2 and tie, and over 1 and 2 alone


@dataclass(frozen=True, slots=True)
class Baseline:
    """What answers without a look score: a constant one exactly, a coin flip on average."""

    name: str
    tau: float
    diff: float | None


@dataclass(frozen=True, slots=True)
class DimensionAgreement:
    """One dimension. Counts are of pairs that people labelled in it."""

    dimension: Dimension
    labelled: int
    decided: int  # People prefer a video
    answered: int  # The judge gave a label
    provisional: int  # of those, recommended only: no final answer came
    tau: IntervalEstimate
    diff: IntervalEstimate | None
    tie_rate: IntervalEstimate | None  # Of the judge, among its answers
    people_tie_rate: IntervalEstimate
    margin: IntervalEstimate  # tau above that of the best baseline
    baselines: tuple[Baseline, ...]
    confusion: tuple[tuple[int, int, int, int], ...]
    """Rows: people said tie, 1, 2. Columns: the judge said tie, 1, 2, nothing."""


def agreement(table: LabelTable) -> tuple[DimensionAgreement, ...]:
    """Of every dimension that people labelled in any pair."""
    dimensions = [dimension for dimension in Dimension if table.labelled(dimension).any()]
    best = {
        dimension: max(baselines(table.people[dimension]), key=lambda each: each.tau)
        for dimension in dimensions
    }
    ratios: dict[tuple[Dimension, str], Ratio] = {}
    margins: dict[Dimension, Ratio] = {}
    for dimension in dimensions:
        people, judge = table.people[dimension], table.judge[dimension]
        ratios[dimension, "tau"] = tau_ratio(people, judge)
        ratios[dimension, "diff"] = diff_ratio(people, judge)
        answered = (people != NOT_SAID) & (judge != NOT_SAID)
        ratios[dimension, "ties"] = (answered & (judge == Preference.TIE), answered)
        ratios[dimension, "people's ties"] = (people == Preference.TIE, people != NOT_SAID)
        margins[dimension] = (
            right(people, judge) - baseline_right(people, best[dimension].name),
            people != NOT_SAID,
        )
    scores = estimate_ratios(ratios, table.prompts)
    above = estimate_ratios(margins, table.prompts, least=-1.0)
    return tuple(_dimension(table, d, scores, above[d]) for d in dimensions)


def right(people: LabelColumn, judge: LabelColumn) -> Numbers:
    """1 where the judge gave people's label, else 0; a label that is missing on either side is not right."""
    correct: Numbers = ((people == judge) & (people != NOT_SAID)).astype(np.float64)
    return correct


def tau_ratio(people: LabelColumn, judge: LabelColumn) -> Ratio:
    """tau as numerator and denominator of each row."""
    return right(people, judge), people != NOT_SAID


def diff_ratio(people: LabelColumn, judge: LabelColumn) -> Ratio:
    """diff as numerator and denominator of each row."""
    return right(people, judge) * decided(people), decided(people)


def baselines(people: LabelColumn) -> tuple[Baseline, ...]:
    """Answers that need no look, scored on the same labels."""
    return tuple(_baseline(name, people) for name in (*CONSTANT, COIN, COIN_OF_TWO))


def baseline_right(people: LabelColumn, name: str) -> Numbers:
    """How likely the baseline is right, row by row."""
    if name in CONSTANT:
        return right(people, np.full_like(people, CONSTANT[name]))
    return (people != NOT_SAID) / 3 if name == COIN else decided(people) / 2


def _baseline(name: str, people: LabelColumn) -> Baseline:
    score, labelled, preferred = baseline_right(people, name), people != NOT_SAID, decided(people)
    diff = float(score[preferred].mean()) if preferred.any() else None
    return Baseline(name, float(score[labelled].mean()), diff)


def _dimension(
    table: LabelTable,
    dimension: Dimension,
    scores: dict[tuple[Dimension, str], IntervalEstimate | None],
    margin: IntervalEstimate | None,
) -> DimensionAgreement:
    people, judge, labelled = (
        table.people[dimension],
        table.judge[dimension],
        table.labelled(dimension),
    )
    answered = labelled & (judge != NOT_SAID)
    provisional = np.array([result.provisional for result in table.results], dtype=bool)
    tau, people_ties = scores[dimension, "tau"], scores[dimension, "people's ties"]
    assert tau is not None
    assert margin is not None
    assert people_ties is not None
    return DimensionAgreement(
        dimension,
        labelled=int(labelled.sum()),
        decided=int(decided(people).sum()),
        answered=int(answered.sum()),
        provisional=int((answered & provisional).sum()),
        tau=tau,
        diff=scores[dimension, "diff"],
        tie_rate=scores[dimension, "ties"],
        people_tie_rate=people_ties,
        margin=margin,
        baselines=baselines(people),
        confusion=_confusion(people, judge),
    )


def _confusion(people: LabelColumn, judge: LabelColumn) -> tuple[tuple[int, int, int, int], ...]:
    rows = (
        [int(((people == mine) & (judge == its)).sum()) for its in (0, 1, 2, NOT_SAID)]
        for mine in Preference
    )
    return tuple((tie, first, second, missing) for tie, first, second, missing in rows)
