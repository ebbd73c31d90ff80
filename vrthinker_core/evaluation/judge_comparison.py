"""Two judges on the same pairs, with intervals and McNemar's exact test."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import (
    NOT_SAID,
    IntervalEstimate,
    Metric,
    Ratio,
    estimate_ratios,
    label_table,
    metric_ratios,
    right,
)
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of one dimension.

    The interval is over prompts; McNemar's test takes pairs for independent, also of one prompt.
    """

    dimension: Dimension
    metric: Metric
    pairs: int
    first: float
    second: float
    difference: IntervalEstimate  # first less second
    first_alone: int  # pairs that only the first judge has right
    second_alone: int
    p: float  # of McNemar's test


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """Pairs that both judges have judged; a missing label is wrong."""

    judges: tuple[str, str]
    shared: int
    only_first: int  # pairs that only the first judge has judged
    only_second: int
    metrics: tuple[MetricComparison, ...]
    same: tuple[tuple[Dimension, float], ...]
    """Share of pairs with both labels in which they are equal."""


def compare_judges(first: Sequence[PairResult], second: Sequence[PairResult]) -> JudgeComparison:
    """Compare two evaluations of one data set. Raises BadInput if no pair was judged by both."""
    shared = shared_results(first, second)
    table, other = map(label_table, shared)
    ratios: dict[tuple[Dimension, Metric], Ratio] = {}
    correct, same = {}, []
    for dimension in Dimension:
        people, mine, its = table.people[dimension], table.judge[dimension], other.judge[dimension]
        correct[dimension] = scores = right(people, mine), right(other.people[dimension], its)
        for metric, ratio in metric_ratios(people, scores[0] - scores[1]).items():
            ratios[dimension, metric] = ratio
        said = (mine != NOT_SAID) & (its != NOT_SAID)
        if said.any():
            same.append((dimension, float((mine == its)[said].mean())))
    metrics = []
    for (dimension, metric), difference in estimate_ratios(ratios, table.prompts, least=-1).items():
        if difference is None:
            continue
        rows = ratios[dimension, metric][1]
        a, b = (score[rows] > 0 for score in correct[dimension])
        alone = int((a & ~b).sum()), int((b & ~a).sum())
        shares, pairs = (float(a.mean()), float(b.mean())), int(rows.sum())
        p = mcnemar(*alone)
        metrics.append(MetricComparison(dimension, metric, pairs, *shares, difference, *alone, p))
    name, other_name = (
        ", ".join(sorted({result.judge for result in results})) for results in shared
    )
    only_first, only_second = (
        sum(result.judged for result in results) - len(shared[0]) for results in (first, second)
    )
    return JudgeComparison(
        (name, other_name), len(shared[0]), only_first, only_second, tuple(metrics), tuple(same)
    )


Shared = tuple[list[PairResult], list[PairResult]]
"""The results of both judges, of the same pairs in one order."""


def shared_results(first: Iterable[PairResult], second: Iterable[PairResult]) -> Shared:
    """Match two evaluations by the ids of their pairs. Raises BadInput if they share none."""
    mine, its = (
        {result.pair.id: result for result in results if result.judged}
        for results in (first, second)
    )
    shared = sorted(mine.keys() & its.keys())
    if not shared:
        raise BadInput("No pair was judged by both: compare two evaluations of one data set.")
    changed = [name for name in shared if mine[name].pair.labels != its[name].pair.labels]
    if changed:
        raise BadInput(
            f"People's labels differ in {len(changed):,} of the shared pairs, first in row "
            f"{mine[changed[0]].pair.row}: compare one data set."
        )
    return [mine[name] for name in shared], [its[name] for name in shared]


def mcnemar(first_alone: int, second_alone: int) -> float:
    """Compute the exact two-sided p of McNemar's test, a sign test.

    It is how likely counts at least as unequal are between judges that are equally good. The
    counts are pairs that only one judge has right.
    """
    count, fewer = first_alone + second_alone, min(first_alone, second_alone)
    ways = total = 1  # exact whole numbers: n over 0, then n over 1, …
    for taken in range(fewer):
        ways = ways * (count - taken) // (taken + 1)
        total += ways
    return min(1.0, 2 * total / (1 << count))
