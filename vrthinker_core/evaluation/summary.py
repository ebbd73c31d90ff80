"""All figures of one evaluation, ready to become JSON."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import (
    NOT_SAID,
    DimensionAgreement,
    LabelTable,
    Metric,
    agreement,
    label_table,
)
from vrthinker_core.evaluation.behaviour import (
    COMPLEX,
    LONG,
    RESIDUAL,
    Calibration,
    Costs,
    PositionBias,
    Subset,
    SwapConsistency,
    calibration,
    costs,
    position_bias,
    subsets,
    swap_consistency,
)
from vrthinker_core.results.result import ROW_FAULT, EvaluationRun, PairResult
from vrthinker_core.types import Dimension, Preference, Settings, StopReason
from vrthinker_core.types.messages import SUB_SCORES
from vrthinker_core.words import share

GENAI, VIDEOGEN, MJ = "genai-bench", "videogen-reward", "mj-bench-video"  # on the command line


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """What a paper says of a model."""

    model: str
    value: float  # A share of 1


def _scores(*per_cent: float) -> tuple[PublishedScore, ...]:
    models = (
        "VideoScore 7B",
        "VideoReward 2B",
        "VisionReward 13B",
        "LiFT 13B",
        "UnifiedReward 7B",
        "UnifiedReward-Think 7B",
        "VR-Thinker 7B",
    )
    return tuple(map(PublishedScore, models, (value / 100 for value in per_cent)))


PUBLISHED: dict[tuple[str, Metric], tuple[PublishedScore, ...]] = {
    (GENAI, "tau"): _scores(47.5, 49.9, 52.6, 38.1, 61.2, 64.7, 68.7),
    (GENAI, "diff"): _scores(70.9, 73.1, 72.7, 59.4, 76.8, 80.4, 82.3),
    (VIDEOGEN, "tau"): _scores(41.9, 60.8, 57.9, 40.1, 67.1, 69.7, 71.8),
    (VIDEOGEN, "diff"): _scores(50.2, 73.8, 68.4, 57.9, 78.6, 79.1, 80.5),
    (MJ, "tau"): _scores(57.9, 56.8, 54.1, 42.5, 63.3, 62.8, 67.3),
    (MJ, "diff"): _scores(63.5, 62.6, 65.2, 51.4, 69.5, 71.9, 75.6),
}

ROWS = {GENAI: ((1069, 1069), (1889, 1889)), VIDEOGEN: ((26_000, 27_000),), MJ: ((1085, 1085),)}
"""How many rows each published set has, from and to; GenAI-Bench has two files."""


def published(data_set: str, metric: Metric, rows: int, broken: int) -> tuple[PublishedScore, ...]:
    """Give what was published for overall labels of that set.

    () unless the results are of all its rows, at most 5 % of them broken.
    """
    whole = any(low <= rows <= high for low, high in ROWS.get(data_set, ()))
    return PUBLISHED[data_set, metric] if whole and broken <= 0.05 * rows else ()


RANDOM_RETRIEVAL = {GENAI: 0.759, VIDEOGEN: 0.722, MJ: 0.667}
"""Diff of VR-Thinker 7B when its frames are drawn at random (arXiv 2510.10518v4, Fig. 3)."""


PUBLISHED_SUBSETS = {
    LONG: {GENAI: (0.662, 0.814), VIDEOGEN: (0.709, 0.796), MJ: (0.661, 0.748)},
    COMPLEX: {GENAI: (0.684, 0.819), VIDEOGEN: (0.706, 0.807), MJ: (0.663, 0.743)},
    RESIDUAL: {GENAI: (0.689, 0.824), VIDEOGEN: (0.719, 0.806), MJ: (0.674, 0.757)},
}
"""Tau and diff of VR-Thinker 7B (arXiv 2510.10518v4, Tables 2 and 3)."""


def published_remark(data_set: str, rows: int, broken: int, *, control: bool = False) -> str:
    """Say what limits published numbers, or why none; else ""."""
    if data_set not in ROWS:
        return ""
    if control:
        asked = PUBLISHED[data_set, "diff"][-1]
        return (
            f"Published for {asked.model}: diff {share(RANDOM_RETRIEVAL[data_set])} with frames "
            f"drawn at random, {share(asked.value)} with those that it asks for."
        )
    known = {
        GENAI: "GenAI-Bench has two test files, and the paper does not say which one its numbers "
        "are from.",
        MJ: "On MJ-Bench-Video an answer that is always a tie scores a tau of 89.0 % on the 1,077 "
        "rows that count (88.4 % with those that were hard to judge counted as wrong), above every "
        "published model.",
    }.get(data_set, "")
    if published(data_set, "tau", rows, broken):
        return known
    sizes = " or ".join(
        f"{low:,}" if low == high else f"about {(low + high) // 2:,}"
        for low, high in ROWS[data_set]
    )
    return (
        f"Published numbers are left out: they are of all {sizes} rows, and this is of "
        f"{rows - broken:,} that can be judged. {known}"
    ).strip()


@dataclass(frozen=True, slots=True)
class OverallCheck:
    """Of pairs with all four labels."""

    whose: str  # "judge" or "people"
    pairs: int
    with_sum: float  # OA is the side that more of the three prefer, a tie if as many prefer each
    contradictions: float
    """OA prefers a video that none of the three prefers, or ties though all three agree on one."""


def overall_checks(table: LabelTable) -> tuple[OverallCheck, ...]:
    """Check the judge, and people if they gave all four labels."""
    found = []
    for whose, labels in {"judge": table.judge, "people": table.people}.items():
        whole = np.all([labels[dimension] != NOT_SAID for dimension in Dimension], axis=0)
        if not whole.any():
            continue
        overall = labels[Dimension.OA][whole]
        votes = np.array([[labels[d][whole] == label for label in Preference] for d in SUB_SCORES])
        votes = votes.sum(axis=0)  # label × pair
        lead = votes[Preference.FIRST] - votes[Preference.SECOND]
        by_sum = np.select([lead > 0, lead < 0], [Preference.FIRST, Preference.SECOND])
        tie = overall == Preference.TIE
        alone = ~tie & (votes[overall, np.arange(len(overall))] == 0)
        ignored = tie & (votes[1:].max(axis=0) == len(SUB_SCORES))
        found.append(
            OverallCheck(
                whose,
                pairs=len(overall),
                with_sum=float((overall == by_sum).mean()),
                contradictions=float((alone | ignored).mean()),
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ResultCounts:
    """Counts of pairs: pairs = answered + unanswered + failed + cancelled."""

    rows: int  # of the data set, as far as they have a result
    broken: int  # rows that cannot be judged; they count in no figure
    left_out: int  # rows in which people could not say; neither do these
    pairs: int  # all others
    answered: int  # a verdict came
    unanswered: int  # the run came to its own end without one
    failed: int
    cancelled: int
    partial: int  # answered, but a label is missing
    provisional: int  # answered without a final answer: the last recommended one counts
    forced: int  # answered only when asked for it on the last turn
    prompts: int
    faults: tuple[tuple[str, int], ...] = ()  # what failed, by error, the most frequent first


@dataclass(frozen=True, slots=True)
class Summary:
    """One judge on one data set. Shares are of 1; only labelled dimensions have an agreement."""

    judge: str
    data_set: str  # as the command line calls it; "" if unknown
    counts: ResultCounts
    dimension: Dimension  # of figures for one dimension only: subsets
    agreement: tuple[DimensionAgreement, ...]
    position: tuple[PositionBias, ...]
    swap: tuple[SwapConsistency, ...]
    overall: tuple[OverallCheck, ...]
    calibration: tuple[Calibration, ...]
    costs: Costs | None
    subsets: tuple[Subset, ...]
    published_tau: tuple[PublishedScore, ...] = ()  # for overall labels, of the same set only
    published_diff: tuple[PublishedScore, ...] = ()
    published_remark: str = ""
    settings: Settings | None = None  # as chosen; None if unknown
    is_control: bool = False  # frames were drawn at random: no ordinary evaluation of the judge


def published_subset(summary: Summary, name: str) -> tuple[float | None, float | None]:
    """Give tau and diff that were published for a subset of this whole set, else None."""
    whole = summary.published_tau and summary.dimension is Dimension.OA
    return PUBLISHED_SUBSETS[name][summary.data_set] if whole else (None, None)


def summarize(results: Iterable[PairResult], run: EvaluationRun | None = None) -> Summary:
    """Sum up an evaluation; `run` says what was judged and how, if known.

    Equal results give equal figures, in whatever order they come: intervals are drawn with one
    seed. Raises BadInput for no results at all.
    """
    found = list(results)
    if not found:
        raise BadInput("There is no result to sum up.")
    table = label_table(found)
    pairs, broken = table.results, sum(result.fault == ROW_FAULT for result in found)
    answers = [result for result in pairs if result.has_verdict]
    faults = Counter(result.fault or result.stop.value for result in pairs if not result.judged)
    cancelled = faults.pop(StopReason.CANCELLED.value, 0)
    failed = faults.total()
    counts = ResultCounts(
        rows=len(found),
        broken=broken,
        left_out=len(found) - len(pairs) - broken,
        pairs=len(pairs),
        answered=len(answers),
        unanswered=len(pairs) - len(answers) - failed - cancelled,
        failed=failed,
        cancelled=cancelled,
        partial=sum(not result.verdict.whole for result in answers if result.verdict),
        provisional=sum(result.provisional for result in answers),
        forced=sum(result.forced for result in answers),
        prompts=len({result.pair.prompt for result in pairs}),
        faults=tuple(sorted(faults.items(), key=lambda item: (-item[1], item[0]))),
    )
    data_set, settings = (run.dataset, run.settings) if run else ("", None)
    control = any(result.control for result in found)
    whole = "" if control else data_set  # Published numbers are of frames that were asked for
    return Summary(
        judge=", ".join(sorted({result.judge for result in found})),
        data_set=data_set,
        counts=counts,
        dimension=table.main,
        agreement=agreement(table),
        position=position_bias(table),
        swap=swap_consistency(table),
        overall=overall_checks(table),
        calibration=calibration(table),
        costs=costs(table, run.starts if run else ()),
        subsets=subsets(table, table.main),
        published_tau=published(whole, "tau", len(found), broken),
        published_diff=published(whole, "diff", len(found), broken),
        published_remark=published_remark(data_set, len(found), broken, control=control),
        settings=settings,
        is_control=control,
    )
