"""Agreement with people: `tau` and `diff` of each dimension with intervals, beside what answers without a look would score."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.results.result import LEFT_OUT, ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Preference, Verdict

NOT_SAID = -1  # In place of a label that nobody gave

LabelColumn = NDArray[np.int8]  # 0, 1, 2 or NOT_SAID
Rows = NDArray[np.bool_]
Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The labels of people and of a judge, row by row. A pair that was not judged, or whose label is missing, has NOT_SAID."""

    results: tuple[PairResult, ...]
    prompts: NDArray[np.int64]
    """Which prompt each row has, counted in alphabetical order."""
    people: dict[Dimension, LabelColumn]
    judge: dict[Dimension, LabelColumn]
    swapped: dict[Dimension, LabelColumn]
    """Of the second order, with the labels of the first."""

    def labelled(self, dimension: Dimension) -> Rows:
        """The rows in which people gave a label."""
        labelled: Rows = self.people[dimension] != NOT_SAID
        return labelled

    @property
    def main(self) -> Dimension:
        """What figures of one dimension are about: overall, or the first dimension with labels where people left that out."""
        known = [dimension for dimension in Dimension if self.labelled(dimension).any()]
        return Dimension.OA if Dimension.OA in known or not known else known[0]


def counts(result: PairResult) -> bool:
    """Whether a result stands in the statistics: all do but broken rows, and rows that were left out."""
    return result.fault not in (ROW_FAULT, LEFT_OUT)


def label_table(results: Iterable[PairResult]) -> LabelTable:
    """The table of all results that count."""
    rows = sorted(
        (result for result in results if counts(result)),
        key=lambda result: (result.pair.id, result.pair.row),
    )
    _, prompts = np.unique(
        np.array([result.pair.prompt for result in rows], dtype=object), return_inverse=True
    )
    return LabelTable(
        tuple(rows),
        prompts.astype(np.int64),
        _columns([result.pair.labels for result in rows]),
        _columns([result.verdict if result.judged else None for result in rows]),
        _columns([result.swapped if result.judged else None for result in rows]),
    )


def decided(labels: LabelColumn) -> Rows:
    """The rows whose label prefers a video."""
    preferred: Rows = labels > Preference.TIE
    return preferred


def _columns(verdicts: Sequence[Verdict | None]) -> dict[Dimension, LabelColumn]:
    return {
        dimension: _column([getattr(verdict, dimension.value, None) for verdict in verdicts])
        for dimension in Dimension
    }


def _column(labels: Sequence[Preference | None]) -> LabelColumn:
    return np.array([NOT_SAID if label is None else int(label) for label in labels], dtype=np.int8)


RESAMPLES = 1000
TAIL = 0.025  # Below and above a 95 % interval
DRAWS = 2**20  # Prompts that are drawn at a time, which bounds the memory

Key = TypeVar("Key")
Column = NDArray[Any]
Ratio = tuple[Column, Column]
"""Numerator and denominator of each row: the figure is the sum of the one over the sum of the other."""


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A figure with its 95 % interval; no ends where fewer than two prompts have a say."""

    value: float
    low: float | None = None
    high: float | None = None


def estimate_ratios(
    ratios: Mapping[Key, Ratio], prompts: NDArray[np.int64], *, seed: int = 0, least: float = 0.0
) -> dict[Key, IntervalEstimate | None]:
    """Every ratio with its interval, over the same draws; None where nothing stands below the line.

    Equal seeds give equal draws. Ends are the 2.5 and 97.5 percentiles. A ratio that is the same in every prompt is the same in
    every draw. Then as few prompts are taken to be like that as the exact binomial interval allows, and the figure to be `least`
    or 1 in all others: 0 or 1 for a share, -1 or 1 for a difference. Towards 0 a difference is as large the other way in these, and
    so is clear exactly where the sign test finds it so.
    """
    if not ratios or not len(prompts):
        return dict.fromkeys(ratios)
    above = np.column_stack([_by_prompt(ratio[0], prompts) for ratio in ratios.values()])
    below = np.column_stack([_by_prompt(ratio[1], prompts) for ratio in ratios.values()])
    drawn = _draw_ratios(above, below, seed)
    return {
        key: _estimate(above[:, at], below[:, at], drawn[:, at], least)
        for at, key in enumerate(ratios)
    }


def exact_end(count: int) -> float:
    """The lower end of the exact 95 % interval of a share that is 1 in all of `count` independent draws."""
    return float(TAIL ** (1 / count))


def _by_prompt(rows: Column, prompts: NDArray[np.int64]) -> Numbers:
    return np.bincount(prompts, weights=rows.astype(np.float64)).astype(np.float64)


def _draw_ratios(above: Numbers, below: Numbers, seed: int) -> Numbers:
    """The ratios of each draw, a row for each."""
    sums = np.concatenate(
        [
            counts.astype(np.float64) @ np.hstack((above, below))
            for counts in _draw(len(above), seed)
        ]
    )
    numerators, denominators = np.hsplit(sums, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominators > 0, numerators / denominators, np.nan)


def _draw(prompts: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """How often each prompt is drawn in each draw, some draws at a time."""
    generator = np.random.default_rng(seed)
    at_once = max(1, DRAWS // prompts)
    for start in range(0, RESAMPLES, at_once):
        size = min(at_once, RESAMPLES - start)
        drawn = generator.integers(0, prompts, (size, prompts)) + prompts * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * prompts).reshape(size, prompts)


def _estimate(
    above: Numbers, below: Numbers, drawn: Numbers, least: float
) -> IntervalEstimate | None:
    if below.sum() <= 0:
        return None
    value, voices = float(above.sum() / below.sum()), int((below > 0).sum())
    if voices < 2:
        return IntervalEstimate(value)
    if np.allclose(above, value * below, rtol=0.0, atol=1e-9):
        alike = exact_end(voices)
        others = max(least, -value) if value > 0 else least, -value if value < 0 else 1.0
        return IntervalEstimate(value, *(alike * value + (1 - alike) * other for other in others))
    low, high = (float(end) for end in np.nanpercentile(drawn, (100 * TAIL, 100 - 100 * TAIL)))
    return IntervalEstimate(value, low, high)


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
