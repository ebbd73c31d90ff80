"""The figures that decide, in a terminal; the report has the rest."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vrthinker_core.evaluation.agreement import IntervalEstimate
from vrthinker_core.evaluation.figures import (
    agreement_sentence,
    best_baseline,
    interval_text,
    outcome_sentences,
    points_with_interval,
    probability,
    share,
    share_with_interval,
    value_of,
)
from vrthinker_core.evaluation.judge_comparison import JudgeComparison
from vrthinker_core.evaluation.summary import Summary
from vrthinker_core.text import printable

if TYPE_CHECKING:
    from rich.console import Console


def print_summary(summary: Summary, console: "Console") -> None:
    """Print a summary as plain text, narrow enough for a terminal."""
    rows = [
        [
            each.dimension.value,
            f"{each.answered:,} of {each.labelled:,}",
            _bare_interval(each.tau),
            _bare_interval(each.diff),
            f"{_bare(value_of(each.tie_rate))} ({_bare(each.people_tie_rate.value)})",
            _bare(best_baseline(each).tau),
        ]
        for each in summary.agreement
    ]
    title = f"{printable(summary.judge)}, in per cent with 95 % intervals"
    heads = ("", "judged", "tau", "diff", "ties (people's)", "baseline")
    _print_table(console, title, heads, rows)
    main = summary.dimension
    lines = outcome_sentences(summary)
    lines += [agreement_sentence(each) for each in summary.agreement if each.dimension is main]
    lines += [
        f"In both orders {share_with_interval(swap.stable)} of {swap.pairs:,} pairs have the same "
        f"label, {share(swap.flips)} flip."
        for swap in summary.swap
        if swap.dimension is main
    ]
    lines += [
        f"Published for {tau.model}: tau {share(tau.value)}, diff {share(diff.value)}."
        for tau, diff in zip(summary.published_tau, summary.published_diff, strict=True)
    ]
    if summary.published_remark:
        lines.append(summary.published_remark)
    if costs := summary.costs:
        lines.append(
            f"A pair took {costs.turns.mean:.1f} turns, {costs.frames.mean:.0f} frames and "
            f"{costs.seconds.median:.1f} s (median)."
        )
    for line in lines:
        console.print(printable(line), markup=False, highlight=False)


def print_comparison(compared: JudgeComparison, console: "Console") -> None:
    """Print what two judges score on the same pairs."""
    heads = ("", "pairs", "first, %", "second, %", "difference, points", "McNemar p")
    rows = [
        [
            f"{each.dimension.value} {each.metric}",
            f"{each.pairs:,}",
            _bare(each.first),
            _bare(each.second),
            points_with_interval(each.difference),
            probability(each.p),
        ]
        for each in compared.metrics
    ]
    first, second = map(printable, compared.judges)
    _print_table(console, f"first: {first}; second: {second}", heads, rows)
    told = (
        f"{compared.shared:,} pairs were judged by both, {compared.only_first:,} by the first "
        f"alone, {compared.only_second:,} by the second alone."
    )
    console.print(told, markup=False, highlight=False)


def _print_table(
    console: "Console", title: str, heads: Sequence[str], rows: Sequence[Iterable[str]]
) -> None:
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    table = Table(title=Text(title), box=None, pad_edge=False)
    for position, head in enumerate(heads):
        table.add_column(Text(head), justify="right" if position else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _bare(value: float | None) -> str:
    """Format per cent without the sign, as in `72.7`."""
    return share(value).removesuffix(" %")


def _bare_interval(estimate: IntervalEstimate | None) -> str:
    """Format as in `72.7 (61.9–81.8)`."""
    ends = interval_text(estimate, to="–")
    return _bare(value_of(estimate)) + (f" ({ends})" if ends else "")
