"""The report of one evaluation as a page: agreement, behaviour, what failed."""

from collections.abc import Iterator, Sequence

from vrthinker_core.evaluation.agreement import DimensionAgreement, IntervalEstimate, Metric
from vrthinker_core.evaluation.behaviour import (
    Calibration,
    Costs,
    LengthGroup,
    PositionBias,
    SecondsBin,
)
from vrthinker_core.evaluation.disagreements import disagreements
from vrthinker_core.evaluation.figures import (
    NONE,
    agreement_sentence,
    best_baseline,
    outcome_sentences,
    points,
    points_with_interval,
    share,
    share_cell,
    value_of,
)
from vrthinker_core.evaluation.html import (
    Bar,
    Cell,
    Html,
    ReliabilityPoint,
    element,
    figure_table,
    histogram,
    interval_bars,
    join,
    number,
    paragraph,
    percent,
    plots,
    reliability_plot,
    remark,
    render_page,
)
from vrthinker_core.evaluation.pair_tables import disagreement_section, not_judged_section
from vrthinker_core.evaluation.summary import PublishedScore, Summary
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension
from vrthinker_core.types.progress import count
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


CALIBRATED = (
    "A calibrated judge lies on the dashed line: of its labels with a probability of 80 %, 80 % are people's. The calibration "
    "error is the mean distance from that line (ECE, ten bins); the Brier score is 0 at best and 2 at worst."
)
CF = "CF is what a judge of the protocol concat says of itself: 1 low, 2 medium, 3 high, 4 very high, 5 confirmed."
PREFERS_FIRST = (
    "How often the judge prefers video 1, of the pairs in which it prefers one; the line is a half."
)
BOTH_ORDERS = "Over both orders a judge without a bias prefers what it is shown first half of the time, whichever videos are better."
ONE_ORDER = "People's own share stands below, for the data set may have better videos on one side; judging with --swap tells them apart."
CONTRADICTION = "A contradiction: OA prefers a video that none of the three prefers, or is a tie though all three prefer the same one."
COUNTED = "Of pairs whose run came to its own end, the first order alone. Prompt tokens are those of all turns, each as it was sent."


def calibration_section(summary: Summary) -> Html:
    """Reliability diagrams, and how often answers with each CF are right."""
    found = [(DIMENSION_NAMES[each.dimension], each) for each in summary.calibration]
    rows = (
        (name, [number(each.pairs), percent(each.error), number(each.brier, 3)])
        for name, each in found
        if each.bins
    )
    table = figure_table(
        "Probabilities of labels", ("dimension", "pairs", "calibration error", "Brier score"), rows
    )
    levels = plots(
        *(interval_bars(f"Right by CF, {name.lower()}", _level_bars(each)) for name, each in found)
    )
    return join(
        paragraph(CALIBRATED) if table else "",
        plots(*(reliability_plot(name, _points(each)) for name, each in found)),
        table,
        levels,
        remark(CF) if levels else "",
    )


def _points(found: Calibration) -> list[ReliabilityPoint]:
    return [ReliabilityPoint(each.expected, each.right, each.pairs) for each in found.bins]


def _level_bars(found: Calibration) -> list[Bar]:
    return [
        _bar(f"CF {each.confidence}, {count(each.pairs, 'pair')}", each.right)
        for each in found.confidence
    ]


def _bar(label: str, estimate: IntervalEstimate) -> Bar:
    return Bar(label, estimate.value, estimate.low, estimate.high)


def order_section(summary: Summary) -> Html:
    """Position bias and swap consistency."""
    if not summary.position:
        return Html("")
    both = [
        _bar(DIMENSION_NAMES[each.dimension], each.shown_first)
        for each in summary.position
        if each.shown_first
    ]
    return join(
        paragraph(f"{PREFERS_FIRST} {BOTH_ORDERS if both else ONE_ORDER}"),
        plots(
            interval_bars(
                "Prefers video 1",
                [bar for each in summary.position for bar in _first_bars(each)],
                origin=0.5,
            ),
            interval_bars("Prefers what is shown first, both orders", both, origin=0.5),
        ),
        _position_table(summary),
        _swap_table(summary),
    )


def _first_bars(each: PositionBias) -> list[Bar]:
    name = DIMENSION_NAMES[each.dimension]
    people = (
        [] if each.people_first is None else [Bar(f"{name}, people", each.people_first, plain=True)]
    )
    return [_bar(name, each.first), *people]


def _position_table(summary: Summary) -> Html:
    heads = (
        "dimension",
        "pairs",
        "prefers video 1",
        "people do",
        "prefers the one shown first",
        "difference, points",
    )
    rows = (
        (
            DIMENSION_NAMES[each.dimension],
            [
                number(each.decided),
                share_cell(each.first),
                percent(each.people_first),
                share_cell(each.shown_first),
                Cell(NONE)
                if each.difference is None
                else Cell(points(each.difference), each.difference),
            ],
        )
        for each in summary.position
    )
    return figure_table("Position bias", heads, rows)


def _swap_table(summary: Summary) -> Html:
    heads = (
        "dimension",
        "pairs in both orders",
        "same label",
        "turns to the other video",
        "turns to a tie or from one",
    )
    rows = (
        (
            DIMENSION_NAMES[each.dimension],
            [
                number(each.pairs),
                share_cell(each.stable),
                percent(each.flips),
                percent(each.tie_changes),
            ],
        )
        for each in summary.swap
    )
    return figure_table("Both orders compared", heads, rows)


def overall_section(summary: Summary) -> Html:
    """OA against TA, VQ and MQ."""
    heads = (
        "labels of",
        "pairs",
        "OA is the side with more of the three",
        "pairs with a majority",
        "OA is that",
        "contradictions",
    )
    rows = (
        (
            each.whose,
            [
                number(each.pairs),
                percent(each.with_sum),
                number(each.majorities),
                percent(each.with_majority),
                percent(each.contradictions),
            ],
        )
        for each in summary.overall
    )
    table = figure_table(
        "Overall label against text alignment, visual and motion quality", heads, rows
    )
    return join(table, remark(CONTRADICTION)) if table else Html("")


def cost_section(summary: Summary) -> Html:
    """Turns and seconds as histograms, everything as a table."""
    found = summary.costs
    if found is None:
        return Html("")
    turns = histogram("Turns a pair", [(str(turns), pairs) for turns, pairs in found.turn_counts])
    seconds = histogram(
        "Seconds a pair", [(_seconds(each), each.pairs) for each in found.second_bins]
    )
    return join(plots(turns, seconds), _cost_table(found), remark(COUNTED))


def _seconds(each: SecondsBin) -> str:
    return f"{each.low:g}+" if each.high is None else f"{each.low:g}–{each.high:g}"


def _cost_table(found: Costs) -> Html:
    spreads = {
        "frames": found.frames,
        "turns": found.turns,
        "prompt tokens": found.prompt_tokens,
        "new tokens": found.new_tokens,
        "seconds": found.seconds,
    }
    rows = (
        (
            name,
            [number(each.mean, 1), number(each.median, 1), number(each.p90, 1), number(each.total)],
        )
        for name, each in spreads.items()
    )
    heads = ("a pair", "mean", "median", "9 of 10 below", "all together")
    return figure_table(f"Over {count(found.pairs, 'pair')}", heads, rows)


def group_section(summary: Summary) -> Html:
    """By generator and by length of the clips."""
    name = DIMENSION_NAMES[summary.dimension]
    lengths = interval_bars(
        f"tau by seconds of the longer clip, {name.lower()}",
        [_length_bar(each) for each in summary.lengths],
    )
    wins = _generator_tables(summary, name)
    return join(wins, remark("A tie is half a win.") if wins else "", plots(lengths))


def _generator_tables(summary: Summary, name: str) -> Html:
    sides = ("pairs", "judge says", "people say")
    scores = (
        (each.name, [number(each.pairs), percent(each.wins), percent(each.people_wins)])
        for each in summary.generators
    )
    pairs = (
        (
            f"{each.first} – {each.second}",
            [number(each.pairs), *map(percent, (each.wins, each.people_wins, each.tau, each.diff))],
        )
        for each in summary.generator_pairs
    )
    return join(
        figure_table(f"{name}: how often each generator wins", ("generator", *sides), scores),
        figure_table(
            f"{name}: how often the first of two generators wins",
            ("generators", *sides, "tau", "diff"),
            pairs,
        ),
    )


def _length_bar(each: LengthGroup) -> Bar:
    span = f"{each.low:g} s and more" if each.high is None else f"{each.low:g} to {each.high:g} s"
    return _bar(f"{span}, {count(each.pairs, 'pair')}", each.tau)


def evaluation_page(summary: Summary, results: Sequence[PairResult]) -> str:
    """The whole file."""
    on = f" on {summary.data_set}" if summary.data_set else ""
    sections = [
        ("Agreement with people", agreement_section(summary)),
        ("Published numbers", published_section(summary)),
        (
            "Worst disagreements",
            disagreement_section(disagreements(results, summary.dimension), summary.dimension),
        ),
        ("Calibration", calibration_section(summary)),
        ("Order of the videos", order_section(summary)),
        ("Overall against its parts", overall_section(summary)),
        ("Turns and cost", cost_section(summary)),
        ("Generators and lengths", group_section(summary)),
        ("Not judged", not_judged_section(results)),
    ]
    return render_page(f"{summary.judge}{on}", _lead(summary), sections)


def _lead(summary: Summary) -> Html:
    counted = paragraph(" ".join(outcome_sentences(summary)))
    if not summary.agreement:
        return join(
            counted, paragraph("People gave no labels, so nothing is said here about agreement.")
        )
    main = main_agreement(summary)
    unsure = main.margin.low is None or main.margin.low <= 0
    return join(
        counted,
        element("p", agreement_sentence(main), class_="warning" if unsure else None),
        _facts(summary),
    )


def _facts(summary: Summary) -> Html:
    main, costs = main_agreement(summary), summary.costs
    best = best_baseline(main)
    facts = [
        fact("tau", share(main.tau.value), _interval(main.tau)),
        fact("diff", share(value_of(main.diff)), _interval(main.diff)),
        fact("best baseline, tau", share(best.tau), best.name),
        fact("judged", f"{main.answered:,}", f"of {main.labelled:,} labelled pairs"),
        fact(
            "ties", share(value_of(main.tie_rate)), f"people: {share(main.people_tie_rate.value)}"
        ),
    ]
    facts += [fact("seconds a pair", f"{costs.seconds.median:.1f}", "median")] if costs else []
    return element("dl", *facts, class_="facts")


def fact(name: str, value: str, more: str) -> Html:
    """One of the figures at the top of a report."""
    return element("div", element("dt", name), element("dd", value, element("small", more)))


def _interval(estimate: IntervalEstimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "no interval"
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"
