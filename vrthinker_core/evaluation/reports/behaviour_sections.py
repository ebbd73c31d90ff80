"""What a judge does besides agreeing, as a report shows it."""

from vrthinker_core.evaluation.reports.figures import NONE, points, share_cell
from vrthinker_core.evaluation.reports.html.markup import Html, join
from vrthinker_core.evaluation.reports.html.page_frame import paragraph, plots, remark
from vrthinker_core.evaluation.reports.html.svg_plots import (
    Bar,
    ReliabilityPoint,
    histogram,
    interval_bars,
    reliability_plot,
)
from vrthinker_core.evaluation.reports.html.tables import Cell, figure_table, number, percent
from vrthinker_core.evaluation.scores.behaviour.calibration import Calibration
from vrthinker_core.evaluation.scores.behaviour.costs import Costs, SecondsBin
from vrthinker_core.evaluation.scores.behaviour.groups import LengthGroup
from vrthinker_core.evaluation.scores.behaviour.order_effects import PositionBias
from vrthinker_core.evaluation.scores.bootstrap import IntervalEstimate
from vrthinker_core.evaluation.scores.summary import Summary
from vrthinker_core.types.progress import count
from vrthinker_core.types.wording import DIMENSION_NAMES

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
