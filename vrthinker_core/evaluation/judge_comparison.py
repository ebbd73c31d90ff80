"""Two judges on the same pairs: what each scores there, the difference with its interval, and McNemar's exact test."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import (
    NOT_SAID,
    IntervalEstimate,
    LabelTable,
    Metric,
    Ratio,
    Rows,
    decided,
    estimate_ratios,
    label_table,
    right,
)
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of one dimension. The interval is over prompts; McNemar's test takes pairs for independent, also of one prompt."""

    dimension: Dimension
    metric: Metric
    pairs: int
    first: float
    second: float
    difference: IntervalEstimate  # first less second
    first_alone: int  # Pairs that only the first judge has right
    second_alone: int
    p: float  # McNemar's exact test, two-sided: how likely counts at least as unequal are between judges that are equally good


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """Pairs that both judges have judged; a label that one of them left out there is wrong."""

    judges: tuple[str, str]
    shared: int
    only_first: int  # Pairs that only the first judge has judged
    only_second: int
    metrics: tuple[MetricComparison, ...]
    same: tuple[
        tuple[Dimension, float], ...
    ]  # Share of pairs with both labels in which they are equal


def compare_judges(first: Iterable[PairResult], second: Iterable[PairResult]) -> JudgeComparison:
    """Compare two evaluations of one data set. Raises BadInput where no pair was judged by both."""
    both = shared_results(first, second)
    tables = label_table(both.first), label_table(both.second)
    metrics = _metrics(*tables)
    names = _name(both.first), _name(both.second)
    return JudgeComparison(
        names, len(both.first), both.only_first, both.only_second, metrics, _same(*tables)
    )


@dataclass(frozen=True, slots=True)
class SharedResults:
    """The results of pairs that both judges have judged, in one order."""

    first: tuple[PairResult, ...]
    second: tuple[PairResult, ...]
    only_first: int
    only_second: int


def shared_results(first: Iterable[PairResult], second: Iterable[PairResult]) -> SharedResults:
    """Match two evaluations by the ids of their pairs. Raises BadInput where they share none."""
    mine, its = (
        {result.pair.id: result for result in results if result.judged}
        for results in (first, second)
    )
    shared = sorted(mine.keys() & its.keys())
    if not shared:
        raise BadInput("No pair was judged by both: compare two evaluations of one data set.")
    changed = [name for name in shared if mine[name].pair.labels != its[name].pair.labels]
    if changed:
        rows = f"row {mine[changed[0]].pair.row}"
        raise BadInput(
            f"People's labels differ in {len(changed):,} of the shared pairs, first in {rows}: compare one data set."
        )
    first_results, second_results = (
        tuple(results[name] for name in shared) for results in (mine, its)
    )
    return SharedResults(
        first_results, second_results, len(mine) - len(shared), len(its) - len(shared)
    )


def mcnemar(first_alone: int, second_alone: int) -> float:
    """The exact two-sided p of McNemar's test, from the pairs that only one judge has right: a sign test with a fair coin."""
    count, fewer = first_alone + second_alone, min(first_alone, second_alone)
    ways = total = 1  # Exact whole numbers: n over 0, then n over 1, …
    for taken in range(fewer):
        ways = ways * (count - taken) // (taken + 1)
        total += ways
    return min(1.0, 2 * total / (1 << count))


def _metrics(first: LabelTable, second: LabelTable) -> tuple[MetricComparison, ...]:
    ratios: dict[tuple[Dimension, Metric], Ratio] = {}
    for dimension in Dimension:
        difference = _right(first, dimension) - _right(second, dimension)
        ratios[dimension, "tau"] = (difference, first.labelled(dimension))
        preferred = decided(first.people[dimension])
        ratios[dimension, "diff"] = (difference * preferred, preferred)
    estimates = estimate_ratios(ratios, first.prompts, least=-1.0)
    return tuple(
        _metric((first, second), dimension, metric, difference)
        for (dimension, metric), difference in estimates.items()
        if difference is not None
    )


def _metric(
    tables: tuple[LabelTable, LabelTable],
    dimension: Dimension,
    metric: Metric,
    difference: IntervalEstimate,
) -> MetricComparison:
    people = tables[0].people[dimension]
    rows: Rows = people != NOT_SAID if metric == "tau" else decided(people)
    first, second = (_right(table, dimension)[rows] > 0 for table in tables)
    alone = int((first & ~second).sum()), int((second & ~first).sum())
    shares = float(first.mean()), float(second.mean())
    return MetricComparison(
        dimension, metric, int(rows.sum()), *shares, difference, *alone, mcnemar(*alone)
    )


def _right(table: LabelTable, dimension: Dimension) -> np.ndarray:
    return right(table.people[dimension], table.judge[dimension])


def _same(first: LabelTable, second: LabelTable) -> tuple[tuple[Dimension, float], ...]:
    found = []
    for dimension in Dimension:
        mine, its = first.judge[dimension], second.judge[dimension]
        both = (mine != NOT_SAID) & (its != NOT_SAID)
        if both.any():
            found.append((dimension, float((mine == its)[both].mean())))
    return tuple(found)


def _name(results: Iterable[PairResult]) -> str:
    return ", ".join(sorted({result.judge for result in results}))
