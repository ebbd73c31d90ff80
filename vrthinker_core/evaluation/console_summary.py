"""A summary in a terminal: the figures that decide, as a table and a few sentences; everything else stands in the report."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vrthinker_core.evaluation.agreement import IntervalEstimate
from vrthinker_core.evaluation.figures import (
    agreement_sentence,
    best_baseline,
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

HEADS = ("", "judged", "tau", "diff", "ties (people's)", "baseline")


def print_summary(summary: Summary, console: "Console") -> None:
    """Print a summary, its table narrow enough for a terminal. Whatever a data set holds is printed as plain text."""
    _print_table(
        console,
        f"{printable(summary.judge)}, in per cent with 95 % intervals",
        HEADS,
        _agreement_rows(summary),
    )
    for sentence in _sentences(summary):
        console.print(printable(sentence), markup=False, highlight=False)


def print_comparison(compared: JudgeComparison, console: "Console") -> None:
    """Print what two judges score on the same pairs."""
    heads = ("", "pairs", "first, %", "second, %", "difference, points", "McNemar p")
    rows = (
        [
            f"{each.dimension.value} {each.metric}",
            f"{each.pairs:,}",
            _bare(each.first),
            _bare(each.second),
            points_with_interval(each.difference),
            probability(each.p),
        ]
        for each in compared.metrics
    )
    first, second = map(printable, compared.judges)
    _print_table(console, f"first: {first}; second: {second}", heads, rows)
    alone = (
        f"{compared.only_first:,} by the first alone, {compared.only_second:,} by the second alone"
    )
    console.print(
        f"{compared.shared:,} pairs were judged by both, {alone}.", markup=False, highlight=False
    )


def _print_table(
    console: "Console", title: str, heads: tuple[str, ...], rows: Iterator[list[str]]
) -> None:
    from rich.table import Table
    from rich.text import Text

    found = list(rows)
    if not found:
        return
    table = Table(title=Text(title), box=None, pad_edge=False)
    for position, head in enumerate(heads):
        table.add_column(Text(head), justify="right" if position else "left")
    for row in found:
        table.add_row(*map(Text, row))
    console.print(table)


def _agreement_rows(summary: Summary) -> Iterator[list[str]]:
    for each in summary.agreement:
        yield [
            each.dimension.value,
            f"{each.answered:,} of {each.labelled:,}",
            _bare_interval(each.tau),
            _bare_interval(each.diff),
            f"{_bare(value_of(each.tie_rate))} ({_bare(each.people_tie_rate.value)})",
            _bare(best_baseline(each).tau),
        ]


def _bare(value: float | None) -> str:
    """Per cent without the sign, as in `72.7`."""
    return share(value).removesuffix(" %")


def _bare_interval(estimate: IntervalEstimate | None) -> str:
    """As in `72.7 (61.9–81.8)`."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return _bare(value_of(estimate))
    return f"{_bare(estimate.value)} ({_bare(estimate.low)}–{_bare(estimate.high)})"


def _sentences(summary: Summary) -> Iterator[str]:
    yield from outcome_sentences(summary)
    yield from (
        agreement_sentence(each)
        for each in summary.agreement
        if each.dimension is summary.dimension
    )
    for swap in (each for each in summary.swap if each.dimension is summary.dimension):
        stable = share_with_interval(swap.stable)
        yield f"In both orders {stable} of {swap.pairs:,} pairs have the same label, {share(swap.flips)} flip."
    for model in zip(summary.published_tau, summary.published_diff, strict=True):
        yield f"Published for {model[0].model}: tau {share(model[0].value)}, diff {share(model[1].value)}."
    if summary.published_remark:
        yield summary.published_remark
    if (costs := summary.costs) is not None:
        yield f"A pair took {costs.turns.mean:.1f} turns, {costs.frames.mean:.0f} frames and {costs.seconds.median:.1f} s (median)."
