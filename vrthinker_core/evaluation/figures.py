"""Shares, differences and intervals as text, the same in page and terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vrthinker_core.evaluation.html import Bar, Cell, number
from vrthinker_core.results.result import OUTSIDE_FAULT
from vrthinker_core.types.wording import CONTROL, DEMO_RUN, DIMENSION_NAMES, NOT_SWAP_TESTED
from vrthinker_core.words import count, points, share

if TYPE_CHECKING:
    from vrthinker_core.evaluation.agreement import DimensionAgreement, IntervalEstimate
    from vrthinker_core.evaluation.behaviour import Costs
    from vrthinker_core.evaluation.summary import Summary


def interval_text(
    estimate: IntervalEstimate | None, form: str = ".1f", around: str = "{} to {}"
) -> str:
    """Format the interval, as in `61.9 to 81.8`; "" for none."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    return around.format(format(100 * estimate.low, form), format(100 * estimate.high, form))


def share_with_interval(estimate: IntervalEstimate | None) -> str:
    """Format as in `72.7 % (61.9 to 81.8)`."""
    return share(value_of(estimate)) + interval_text(estimate, around=" ({} to {})")


def value_of(estimate: IntervalEstimate | None) -> float | None:
    """Give the figure without its interval."""
    return None if estimate is None else estimate.value


def share_cell(estimate: IntervalEstimate | None) -> Cell:
    """Show a share with its interval as a cell."""
    return Cell(share_with_interval(estimate), value_of(estimate))


def estimate_bars(known: Iterable[tuple[str, IntervalEstimate | None]]) -> list[Bar]:
    """Make a bar for each label with an estimate."""
    return [Bar(label, each.value, each.low, each.high) for label, each in known if each]


def points_with_interval(estimate: IntervalEstimate) -> str:
    """Format as in `+4.2 (-1.0 to +9.4)`."""
    return points(estimate.value) + interval_text(estimate, "+z.1f", " ({} to {})")


def cost_cells(costs: Costs) -> dict[str, Cell]:
    """Show what a pair and an hour bring, by name."""
    return {
        "frames a pair": number(costs.frames, 1),
        "turns a pair": number(costs.turns, 1),
        "seconds a pair": number(costs.seconds, 2),
        "seconds a pair, median": number(costs.median_seconds, 2),
        "pairs an hour": number(costs.pairs_an_hour),
        "tokens read a pair": number(costs.prompt_tokens),
        "tokens written a pair": number(costs.new_tokens),
        "tokens written a second, one pair": number(costs.speed, 1),
        "tokens written a second, all pairs": number(costs.throughput, 1),
        "peak memory, GB": number(costs.peak_gb, 1),
        "runs in which frames had left the view": share_cell(costs.left_view),
    }


def fault_name(fault: str) -> str:
    """Name a fault as people read it."""
    return DEMO_RUN if fault == OUTSIDE_FAULT else fault


def outcome_sentences(summary: Summary) -> list[str]:
    """Say what became of the pairs, and what verdicts lack."""
    counts = summary.counts
    faults = "; ".join(f"{fault_name(name)}: {number:,}" for name, number in counts.faults)
    outcomes = [
        f"{counts.answered:,} with a verdict",
        f"{counts.unanswered:,} without" if counts.unanswered else "",
        f"{counts.failed:,} failed ({faults})" if counts.failed else "",
        f"{counts.cancelled:,} stopped" if counts.cancelled else "",
    ]
    outside = [(counts.broken, "broken"), (counts.left_out, "left out, for people could not say")]
    aside = ", ".join(f"{number:,} {what}" for number, what in outside if number)
    of = f"{count(counts.pairs, 'pair')} of {count(counts.prompts, 'prompt')}"
    kinds = [
        (counts.provisional, "provisional (the last recommended one, for no final answer came)"),
        (counts.forced, "asked for on the last turn"),
        (counts.partial, "partial (a label is missing)"),
    ]
    not_final = "; ".join(
        f"{share(number / counts.answered)} are {what}" for number, what in kinds if number
    )
    sentences = [
        CONTROL if summary.is_control else "",
        f"{of}: {', '.join(filter(None, outcomes))}.{aside and f' Not counted: {aside}.'}",
        not_final and f"Of the verdicts {not_final}. They count like all others.",
        unchecked_sentence(summary),
    ]
    return [sentence for sentence in sentences if sentence]


def unchecked_sentence(*summaries: Summary) -> str:
    """Say that no verdict was tested with swapped sides; else ""."""
    if any(each.swap for each in summaries) or not any(each.counts.answered for each in summaries):
        return ""
    return (
        f"The verdicts are {NOT_SWAP_TESTED}: judging with --swap tells which of them follow from "
        "the order of the videos."
    )


def agreement_sentence(found: DimensionAgreement) -> str:
    """Tell tau, and whether it differs clearly from the best baseline."""
    best, margin = found.best.name, found.margin
    told = (
        f"{DIMENSION_NAMES[found.dimension]}: the judge gives people's label in "
        f"{share_with_interval(found.tau)} of {count(found.labelled, 'pair')}, "
        f"{points_with_interval(margin)} points compared with “{best}”."
    )
    if margin.high is not None and margin.high < 0:
        return f"{told} On these pairs that is clearly worse than “{best}”."
    if margin.low is None or margin.low <= 0:
        return f"{told} On these pairs that is not clearly better than “{best}”."
    return told
