"""Agreement with people as a report shows it: plots with intervals, beside the baselines, and beside published numbers."""

from collections.abc import Iterator

from vrthinker_core.evaluation.reports.figures import (
    points_with_interval,
    share,
    share_cell,
    value_of,
)
from vrthinker_core.evaluation.reports.html.markup import Html, element, join
from vrthinker_core.evaluation.reports.html.page_frame import paragraph, plots, remark
from vrthinker_core.evaluation.reports.html.svg_plots import Bar, interval_bars
from vrthinker_core.evaluation.reports.html.tables import Cell, figure_table, number, percent
from vrthinker_core.evaluation.scores.agreement import DimensionAgreement, Metric
from vrthinker_core.evaluation.scores.bootstrap import IntervalEstimate
from vrthinker_core.evaluation.scores.published import PublishedScore
from vrthinker_core.evaluation.scores.summary import Summary
from vrthinker_core.types import Dimension
from vrthinker_core.types.wording import DIMENSION_NAMES

METRICS: tuple[Metric, ...] = ("tau", "diff")
METRICS_TEXT = (
    "tau is the share of pairs with exactly people's label, of 1, 2 and tie; diff is the same share of the pairs in which people "
    "prefer a video, where a tie is wrong. A pair without an answer is wrong in both. Intervals are 95 %, over prompts."
)


def agreement_section(summary: Summary) -> Html:
    """Plots and tables of tau and diff; nothing where people gave no labels."""
    if not summary.agreement:
        return Html("")
    figures = (
        interval_bars(f"{metric} by dimension", _dimension_bars(summary, metric))
        for metric in METRICS
    )
    main = main_agreement(summary)
    beside = (
        interval_bars(f"{metric}, {_name(main)}", _baseline_bars(main, metric))
        for metric in METRICS
    )
    return join(
        paragraph(METRICS_TEXT),
        plots(*beside),
        plots(*figures) if len(summary.agreement) > 1 else "",
        _dimension_table(summary),
        _baseline_table(summary),
        *map(_confusion, summary.agreement),
    )


def main_agreement(summary: Summary) -> DimensionAgreement:
    """Of the dimension that the report is about."""
    return next(each for each in summary.agreement if each.dimension is summary.dimension)


def published_section(summary: Summary) -> Html:
    """Published numbers beside ours, for the same set and metric; or why there are none."""
    overall = [each for each in summary.agreement if each.dimension is Dimension.OA]
    if not overall or not summary.published_tau:
        return (
            paragraph(summary.published_remark)
            if summary.published_remark and overall
            else Html("")
        )
    published = {"tau": summary.published_tau, "diff": summary.published_diff}
    bars = (
        (metric, _published_bars(summary.judge, found, published[metric]))
        for metric, found in _both(overall[0])
    )
    rows = [(summary.judge, [share_cell(overall[0].tau), share_cell(overall[0].diff)])]
    rows += [
        (tau.model, [percent(tau.value), percent(diff.value)])
        for tau, diff in zip(*published.values(), strict=True)
    ]
    return join(
        paragraph(
            "Overall labels of the same data set, as the paper reports them; it gives no intervals."
        ),
        plots(*(interval_bars(metric, each) for metric, each in bars)),
        figure_table("This judge and published models", ("model", "tau", "diff"), rows),
        remark(summary.published_remark),
    )


def _both(found: DimensionAgreement) -> Iterator[tuple[str, IntervalEstimate | None]]:
    yield "tau", found.tau
    yield "diff", found.diff


def _name(found: DimensionAgreement) -> str:
    return DIMENSION_NAMES[found.dimension].lower()


def _dimension_bars(summary: Summary, metric: Metric) -> list[Bar]:
    known = [
        (DIMENSION_NAMES[each.dimension], each.tau if metric == "tau" else each.diff)
        for each in summary.agreement
    ]
    return [Bar(name, found.value, found.low, found.high) for name, found in known if found]


def _baseline_bars(found: DimensionAgreement, metric: Metric) -> list[Bar]:
    estimate = found.tau if metric == "tau" else found.diff
    if estimate is None:
        return []
    known = [(each.name, each.tau if metric == "tau" else each.diff) for each in found.baselines]
    plain = [Bar(name, value, plain=True) for name, value in known if value is not None]
    return [Bar("the judge", estimate.value, estimate.low, estimate.high), *plain]


def _published_bars(
    judge: str, estimate: IntervalEstimate | None, scores: tuple[PublishedScore, ...]
) -> list[Bar]:
    mine = [Bar(judge, estimate.value, estimate.low, estimate.high)] if estimate else []
    return [*mine, *(Bar(each.model, each.value, plain=True) for each in scores)]


def _dimension_table(summary: Summary) -> Html:
    heads = (
        "dimension",
        "judged",
        "tau",
        "diff",
        "judge's ties",
        "people's ties",
        "points over best baseline",
    )
    rows = (
        (
            DIMENSION_NAMES[each.dimension],
            [
                Cell(f"{each.answered:,} of {each.labelled:,}", each.answered / each.labelled),
                share_cell(each.tau),
                share_cell(each.diff),
                share_cell(each.tie_rate),
                percent(each.people_tie_rate.value),
                Cell(points_with_interval(each.margin), each.margin.value),
            ],
        )
        for each in summary.agreement
    )
    return figure_table("Agreement by dimension", heads, rows)


def _baseline_table(summary: Summary) -> Html:
    heads = (
        "answer",
        *(f"{each.dimension.value} {metric}" for each in summary.agreement for metric in METRICS),
    )
    judge = [
        percent(value_of(found)) for each in summary.agreement for found in (each.tau, each.diff)
    ]
    rows = [("the judge", judge)]
    for at, baseline in enumerate(summary.agreement[0].baselines):
        found = [each.baselines[at] for each in summary.agreement]
        rows.append(
            (baseline.name, [percent(value) for each in found for value in (each.tau, each.diff)])
        )
    table = figure_table("The judge, and answers that need no look", heads, rows)
    return join(table, remark("A coin flip is what it scores on average."))


def _confusion(found: DimensionAgreement) -> Html:
    """People's labels against the judge's, folded away."""
    heads = ("people said", "judge: tie", "judge: 1", "judge: 2", "no label")
    rows = (
        (name, [number(count) for count in row])
        for name, row in zip(("tie", "1", "2"), found.confusion, strict=True)
    )
    name = DIMENSION_NAMES[found.dimension]
    title = f"{name}: people's labels against the judge's, {share(found.tau.value)} equal"
    return element(
        "details", element("summary", title), figure_table(f"{name}: how many pairs", heads, rows)
    )
