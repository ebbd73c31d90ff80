"""A summary in a terminal: the figures that decide, as a table and a few sentences; everything else stands in the report."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vrthinker_core.evaluation.reports.figures import (
    agreement_sentence,
    best_baseline,
    counts_sentence,
    probability,
    provisional_sentence,
    share,
    share_with_interval,
    value_of,
)
from vrthinker_core.evaluation.reports.figures import points_with_interval as points
from vrthinker_core.evaluation.scores.judge_comparison import JudgeComparison
from vrthinker_core.evaluation.scores.summary import Summary
from vrthinker_core.types.wording import DIMENSION_NAMES

if TYPE_CHECKING:
    from rich.console import Console

HEADS = ("", "judged", "tau", "diff", "ties", "people's ties", "best baseline, tau")


def print_summary(summary: Summary, console: "Console") -> None:
    """Print a summary. Whatever a data set holds is printed as plain text."""
    _print_table(console, summary.judge, HEADS, _agreement_rows(summary))
    for sentence in _sentences(summary):
        console.print(sentence, markup=False, highlight=False)


def print_comparison(compared: JudgeComparison, console: "Console") -> None:
    """Print what two judges score on the same pairs."""
    heads = ("", "pairs", *compared.judges, "difference, points", "McNemar p")
    rows = (
        [
            f"{DIMENSION_NAMES[each.dimension]}, {each.metric}",
            f"{each.pairs:,}",
            share(each.first),
            share(each.second),
            points(each.difference),
            probability(each.p),
        ]
        for each in compared.metrics
    )
    _print_table(console, f"{compared.judges[0]} and {compared.judges[1]}", heads, rows)
    alone = f"{compared.only_first:,} by the first alone, {compared.only_second:,} by the second alone"
    console.print(f"{compared.shared:,} pairs were judged by both, {alone}.", markup=False, highlight=False)


def _print_table(console: "Console", title: str, heads: tuple[str, ...], rows: Iterator[list[str]]) -> None:
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
        best = best_baseline(each)
        yield [
            DIMENSION_NAMES[each.dimension],
            f"{each.answered:,} of {each.labelled:,}",
            share_with_interval(each.tau),
            share_with_interval(each.diff),
            share(value_of(each.tie_rate)),
            share(each.people_tie_rate.value),
            f"{share(best.tau)} ({best.name})",
        ]


def _sentences(summary: Summary) -> Iterator[str]:
    yield from filter(None, (counts_sentence(summary.counts), provisional_sentence(summary.counts)))
    yield from (agreement_sentence(each) for each in summary.agreement if each.dimension is summary.dimension)
    for swap in (each for each in summary.swap if each.dimension is summary.dimension):
        stable = share_with_interval(swap.stable)
        yield f"In both orders {stable} of {swap.pairs:,} pairs have the same label, {share(swap.flips)} flip."
    for model in zip(summary.published_tau, summary.published_diff, strict=True):
        yield f"Published for {model[0].model}: tau {share(model[0].value)}, diff {share(model[1].value)}."
    if summary.published_remark:
        yield summary.published_remark
    if (costs := summary.costs) is not None:
        yield f"A pair took {costs.turns.mean:.1f} turns, {costs.frames.mean:.0f} frames and {costs.seconds.median:.1f} s (median)."
