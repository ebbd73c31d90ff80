"""Agreement of one judge or two with people: `tau` and `diff`, with intervals and tests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.errors import BadInput
from vrthinker_core.results.result import LEFT_OUT, ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Preference, Verdict

NOT_SAID = -1  # in place of a label that nobody gave

LabelColumn = NDArray[np.int8]  # 0, 1, 2 or NOT_SAID
Rows = NDArray[np.bool_]
Numbers = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class LabelTable:
    """Labels of people and a judge by row; NOT_SAID if missing."""

    results: tuple[PairResult, ...]
    prompts: NDArray[np.int64]  # which prompt each row has, counted in alphabetical order
    people: dict[Dimension, LabelColumn]
    judge: dict[Dimension, LabelColumn]
    swapped: dict[Dimension, LabelColumn]  # of the second order, mapped back to the first

    def labelled(self, dimension: Dimension) -> Rows:
        """Mark the rows in which people gave a label."""
        labelled: Rows = self.people[dimension] != NOT_SAID
        return labelled

    @property
    def main(self) -> Dimension:
        """Dimension of single figures: OA, or the first labelled one without OA."""
        known = [dimension for dimension in Dimension if self.labelled(dimension).any()]
        return Dimension.OA if Dimension.OA in known or not known else known[0]


def label_table(results: Iterable[PairResult]) -> LabelTable:
    """Make the table of all results that are neither broken nor left out."""
    counted = (result for result in results if result.fault not in (ROW_FAULT, LEFT_OUT))
    rows = sorted(counted, key=lambda result: (result.pair.id, result.pair.row))
    texts = np.array([result.pair.prompt for result in rows], dtype=object)
    _, prompts = np.unique(texts, return_inverse=True)

    def columns(verdicts: list[Verdict | None]) -> dict[Dimension, LabelColumn]:
        found = {}
        for dimension in Dimension:
            labels = (getattr(verdict, dimension.value, None) for verdict in verdicts)
            numbers = [NOT_SAID if label is None else int(label) for label in labels]
            found[dimension] = np.array(numbers, dtype=np.int8)
        return found

    return LabelTable(
        tuple(rows),
        prompts.astype(np.int64),
        columns([result.pair.labels for result in rows]),
        columns([result.verdict if result.judged else None for result in rows]),
        columns([result.swapped if result.judged else None for result in rows]),
    )


def decided(labels: LabelColumn) -> Rows:
    """Mark the rows whose label prefers a video."""
    preferred: Rows = labels > Preference.TIE
    return preferred


TAIL = 0.025  # below and above a 95 % interval

Key = TypeVar("Key")
Ratio = tuple[NDArray[Any], NDArray[Any]]
"""Numerator and denominator of each row: the figure is the ratio of their sums."""


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A figure with its 95 % interval; no ends below two prompts."""

    value: float
    low: float | None = None
    high: float | None = None


def estimate_ratios(
    ratios: Mapping[Key, Ratio], prompts: NDArray[np.int64], *, least: float = 0.0
) -> dict[Key, IntervalEstimate | None]:
    """Estimate ratios with intervals; None for a denominator of 0.

    Equal prompts give equal draws. Ends are the 2.5 and 97.5 percentiles. A ratio that is the same
    in every prompt is the same in every draw: then only as many prompts as the exact binomial
    interval allows are taken to be like that, and the figure to be `least` or 1 in all others
    (0 or 1 for a share, -1 or 1 for a difference). A difference is treated alike in both
    directions, so its interval excludes 0 exactly when the sign test is significant.
    """
    if not ratios or not len(prompts):
        return dict.fromkeys(ratios)
    parts = [ratio[side].astype(np.float64) for side in (0, 1) for ratio in ratios.values()]
    sums = np.column_stack([np.bincount(prompts, weights=part) for part in parts])
    drawn = np.concatenate([times.astype(np.float64) @ sums for times in _draw(len(sums))])
    numerators, denominators = np.hsplit(drawn, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = np.where(denominators > 0, numerators / denominators, np.nan)
    found: dict[Key, IntervalEstimate | None] = {}
    for at, key in enumerate(ratios):
        above, below = sums[:, at], sums[:, len(ratios) + at]
        if below.sum() <= 0:
            found[key] = None
            continue
        value, voices = float(above.sum() / below.sum()), int((below > 0).sum())
        ends: tuple[float, ...] = ()
        if voices >= 2 and np.allclose(above, value * below, rtol=0.0, atol=1e-9):
            alike = exact_end(voices)
            others = max(least, -value) if value > 0 else least, -value if value < 0 else 1.0
            ends = tuple(alike * value + (1 - alike) * other for other in others)
        elif voices >= 2:
            ends = tuple(np.nanpercentile(drawn[:, at], (100 * TAIL, 100 - 100 * TAIL)).tolist())
        found[key] = IntervalEstimate(value, *ends)
    return found


def _draw(prompts: int) -> Iterator[NDArray[np.int64]]:
    """Give how often prompts are drawn, some of 1000 draws at once."""
    generator = np.random.default_rng(0)
    at_once = max(1, 2**20 // prompts)  # bounds the memory
    for start in range(0, 1000, at_once):
        size = min(at_once, 1000 - start)
        drawn = generator.integers(0, prompts, (size, prompts)) + prompts * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * prompts).reshape(size, prompts)


def exact_end(count: int) -> float:
    """Exact lower end of the 95 % interval of `count` of `count`."""
    return float(TAIL ** (1 / count))


Metric = Literal["tau", "diff"]
"""tau: the share of labelled pairs with exactly people's label, of 1, 2 and tie.

diff: the same share of the pairs in which people prefer a video; a tie is wrong there. A pair
without an answer is wrong in both.
"""

CONSTANT = {
    "always tie": Preference.TIE,
    "always 1": Preference.FIRST,
    "always 2": Preference.SECOND,
}
COIN = "coin flip"  # over 1, 2 and tie
COIN_OF_TWO = "coin flip, never a tie"


@dataclass(frozen=True, slots=True)
class Baseline:
    """Score of answers without a look: exact if constant, else the mean."""

    name: str
    tau: float
    diff: float | None


@dataclass(frozen=True, slots=True)
class DimensionAgreement:
    """One dimension. Counts are of pairs that people labelled in it."""

    dimension: Dimension
    labelled: int
    decided: int  # people prefer a video
    answered: int  # the judge gave a label
    provisional: int  # of those, recommended only: no final answer came
    tau: IntervalEstimate
    diff: IntervalEstimate | None
    tie_rate: IntervalEstimate | None  # of the judge, among its answers
    people_tie_rate: IntervalEstimate
    margin: IntervalEstimate  # tau less the best baseline's
    baselines: tuple[Baseline, ...]
    confusion: tuple[tuple[int, ...], ...]
    """Rows: people said tie, 1, 2. Columns: the judge said tie, 1, 2, nothing."""

    @property
    def best(self) -> Baseline:
        """Baseline with the highest tau."""
        return max(self.baselines, key=lambda each: each.tau)


def agreement(table: LabelTable) -> tuple[DimensionAgreement, ...]:
    """Compute every dimension that people labelled in any pair."""
    dimensions = [dimension for dimension in Dimension if table.labelled(dimension).any()]
    known = {dimension: _baselines(table.people[dimension]) for dimension in dimensions}
    ratios: dict[tuple[Dimension, str], Ratio] = {}
    margins: dict[Dimension, Ratio] = {}
    for dimension in dimensions:
        people, judge = table.people[dimension], table.judge[dimension]
        labelled, correct = table.labelled(dimension), right(people, judge)
        answered = labelled & (judge != NOT_SAID)
        ratios |= {(dimension, key): of for key, of in metric_ratios(people, correct).items()}
        ratios[dimension, "ties"] = (answered & (judge == Preference.TIE), answered)
        ratios[dimension, "people's ties"] = (people == Preference.TIE, labelled)
        best = max(known[dimension], key=lambda each: each.tau)
        margins[dimension] = (correct - _baseline_right(people, best.name), labelled)
    scores = {key: each for key, each in estimate_ratios(ratios, table.prompts).items() if each}
    above = estimate_ratios(margins, table.prompts, least=-1.0)
    provisional = np.array([result.provisional for result in table.results], dtype=bool)
    found = []
    for dimension, margin in above.items():
        assert margin is not None
        people, judge = table.people[dimension], table.judge[dimension]
        labelled, answered = ratios[dimension, "tau"][1], ratios[dimension, "ties"][1]
        cells = [
            tuple(int(((people == mine) & (judge == its)).sum()) for its in (0, 1, 2, NOT_SAID))
            for mine in Preference
        ]
        found.append(
            DimensionAgreement(
                dimension,
                labelled=int(labelled.sum()),
                decided=int(decided(people).sum()),
                answered=int(answered.sum()),
                provisional=int((answered & provisional).sum()),
                tau=scores[dimension, "tau"],
                diff=scores.get((dimension, "diff")),
                tie_rate=scores.get((dimension, "ties")),
                people_tie_rate=scores[dimension, "people's ties"],
                margin=margin,
                baselines=known[dimension],
                confusion=tuple(cells),
            )
        )
    return tuple(found)


def right(people: LabelColumn, judge: LabelColumn) -> Numbers:
    """Give 1 if the judge gave people's label, else 0."""
    correct: Numbers = ((people == judge) & (people != NOT_SAID)).astype(np.float64)
    return correct


def metric_ratios(people: LabelColumn, correct: Numbers) -> dict[Metric, Ratio]:
    """Give tau and diff as ratios from how right each row is."""
    preferred = decided(people)
    return {"tau": (correct, people != NOT_SAID), "diff": (correct * preferred, preferred)}


def _baselines(people: LabelColumn) -> tuple[Baseline, ...]:
    labelled, preferred = people != NOT_SAID, decided(people)
    found = []
    for name in (*CONSTANT, COIN, COIN_OF_TWO):
        score = _baseline_right(people, name)
        diff = float(score[preferred].mean()) if preferred.any() else None
        found.append(Baseline(name, float(score[labelled].mean()), diff))
    return tuple(found)


def _baseline_right(people: LabelColumn, name: str) -> Numbers:
    """Give how likely the baseline is right, row by row."""
    if name in CONSTANT:
        return right(people, np.full_like(people, CONSTANT[name]))
    return (people != NOT_SAID) / 3 if name == COIN else decided(people) / 2


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """One metric of one dimension."""

    dimension: Dimension
    metric: Metric
    pairs: int
    first: float
    second: float
    difference: IntervalEstimate  # first less second; over prompts
    first_alone: int  # pairs that only the first judge has right
    second_alone: int
    p: float  # of McNemar's test, which takes pairs for independent, also of one prompt


@dataclass(frozen=True, slots=True)
class JudgeComparison:
    """Pairs that both judges have judged; a missing label is wrong."""

    judges: tuple[str, str]
    shared: int
    only_first: int  # pairs that only the first judge has judged
    only_second: int
    metrics: tuple[MetricComparison, ...]
    same: tuple[tuple[Dimension, float], ...]  # share of equal labels among pairs with both


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


Shared = list[list[PairResult]]  # of each evaluation, the same pairs in one order


def shared_results(*evaluations: Iterable[PairResult]) -> Shared:
    """Match evaluations by the ids of their pairs. Raises BadInput if they share none."""
    judged = [
        {result.pair.id: result for result in results if result.judged} for results in evaluations
    ]
    shared = sorted(set.intersection(*map(set, judged)))
    if not shared:
        raise BadInput("No pair was judged by all: compare evaluations of one data set.")
    changed = [name for name in shared if len({each[name].pair.labels for each in judged}) > 1]
    if changed:
        raise BadInput(
            f"People's labels differ in {len(changed):,} of the shared pairs, first in row "
            f"{judged[0][changed[0]].pair.row}: compare one data set."
        )
    return [[each[name] for name in shared] for each in judged]


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
