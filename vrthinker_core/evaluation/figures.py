"""Figures as people read them, the same in page and terminal: shares in per cent, differences in points, each with its interval."""

from vrthinker_core.evaluation.agreement import Baseline, DimensionAgreement, IntervalEstimate
from vrthinker_core.evaluation.html import Cell
from vrthinker_core.evaluation.summary import ResultCounts, Summary
from vrthinker_core.results.result import OUTSIDE_FAULT
from vrthinker_core.types import Preference
from vrthinker_core.types.progress import count
from vrthinker_core.types.wording import DEMO_RUN, DIMENSION_NAMES, NOT_SWAP_TESTED

NONE = "–"
LABELS = {Preference.TIE: "tie", Preference.FIRST: "1", Preference.SECOND: "2", None: NONE}
FLIPS = "flips"  # Stands in place of a label that swapping the sides changed: there is no reliable winner


def share(value: float | None) -> str:
    """A share of 1, as in `72.7 %`."""
    return NONE if value is None else f"{100 * value:.1f} %"


def share_with_interval(estimate: IntervalEstimate | None) -> str:
    """As in `72.7 % (61.9 to 81.8)`."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return share(value_of(estimate))
    return f"{share(estimate.value)} ({100 * estimate.low:.1f} to {100 * estimate.high:.1f})"


def value_of(estimate: IntervalEstimate | None) -> float | None:
    """The figure without its interval."""
    return None if estimate is None else estimate.value


def share_cell(estimate: IntervalEstimate | None) -> Cell:
    """A share with its interval in a table; it sorts by the share."""
    return Cell(share_with_interval(estimate), value_of(estimate))


def points(value: float) -> str:
    """A difference of shares, as in `+4.2`."""
    return f"{100 * value:+z.1f}"


def points_with_interval(estimate: IntervalEstimate) -> str:
    """As in `+4.2 (-1.0 to +9.4)`."""
    if estimate.low is None or estimate.high is None:
        return points(estimate.value)
    return f"{points(estimate.value)} ({points(estimate.low)} to {points(estimate.high)})"


def probability(p: float) -> str:
    """A p-value, as in `0.031`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def best_baseline(found: DimensionAgreement) -> Baseline:
    """The answer without a look that has the highest tau."""
    return max(found.baselines, key=lambda each: each.tau)


def fault_name(fault: str) -> str:
    """The name of a fault as people read it."""
    return DEMO_RUN if fault == OUTSIDE_FAULT else fault


def outcome_sentences(summary: Summary) -> list[str]:
    """What became of the pairs, and what must be known of the verdicts."""
    counts = summary.counts
    return list(
        filter(
            None,
            (_counts_sentence(counts), _provisional_sentence(counts), unchecked_sentence(summary)),
        )
    )


def unchecked_sentence(*summaries: Summary) -> str:
    """That no verdict was tested with its sides swapped; "" if one was, or there is none."""
    if any(each.swap for each in summaries) or not any(each.counts.answered for each in summaries):
        return ""
    return f"The verdicts are {NOT_SWAP_TESTED}: judging with --swap tells which of them follow from the order of the videos."


def _counts_sentence(counts: ResultCounts) -> str:
    """How many pairs there are and what became of them."""
    outcomes = [
        (counts.answered, "with a verdict"),
        (counts.unanswered, "without"),
        (
            counts.failed,
            f"failed ({'; '.join(f'{fault_name(name)}: {number:,}' for name, number in counts.faults)})",
        ),
        (counts.cancelled, "stopped"),
    ]
    told = ", ".join(
        f"{number:,} {what}" for number, what in outcomes if number or what == "with a verdict"
    )
    outside = [(counts.broken, "broken"), (counts.left_out, "left out, for people could not say")]
    aside = ", ".join(f"{number:,} {what}" for number, what in outside if number)
    return f"{count(counts.pairs, 'pair')} of {count(counts.prompts, 'prompt')}: {told}.{f' Not counted: {aside}.' if aside else ''}"


def _provisional_sentence(counts: ResultCounts) -> str:
    """How many verdicts are not final answers, or not whole; "" for none."""
    kinds = [
        (counts.provisional, "provisional (the last recommended one, for no final answer came)"),
        (counts.forced, "asked for on the last turn"),
        (counts.partial, "partial (a label is missing)"),
    ]
    told = "; ".join(
        f"{share(number / counts.answered)} are {what}" for number, what in kinds if number
    )
    return f"Of the verdicts {told}. They count like all others." if told else ""


def agreement_sentence(found: DimensionAgreement) -> str:
    """The main figure in words, and whether it says anything."""
    best, name = best_baseline(found), DIMENSION_NAMES[found.dimension]
    told = (
        f"{name}: the judge gives people's label in {share_with_interval(found.tau)} of {count(found.labelled, 'pair')}, "
        f"{points_with_interval(found.margin)} points compared with “{best.name}”."
    )
    if found.margin.high is not None and found.margin.high < 0:
        told += f" On these pairs that is clearly worse than “{best.name}”."
    elif found.margin.low is None or found.margin.low <= 0:
        told += f" On these pairs that is not clearly better than “{best.name}”."
    return told
