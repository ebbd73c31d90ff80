"""The report of one evaluation as a page: figures first, then tables of pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from vrthinker_core.evaluation.agreement import DimensionAgreement, Metric, Shared
from vrthinker_core.evaluation.figures import (
    agreement_sentence,
    cost_cells,
    estimate_bars,
    fault_name,
    interval_text,
    outcome_sentences,
    points_with_interval,
    share_cell,
    value_of,
)
from vrthinker_core.evaluation.html import (
    Bar,
    Cell,
    Html,
    HtmlRow,
    element,
    interval_bars,
    join,
    number,
    paragraph,
    percent,
    plots,
    reliability_plot,
    remark,
    render_page,
    sortable_table,
)
from vrthinker_core.evaluation.summary import Summary, published_subset
from vrthinker_core.results.result import ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Preference, Verdict
from vrthinker_core.types.wording import DIMENSION_NAMES, NO_RELIABLE_WINNER, TELLING
from vrthinker_core.words import DASH, count, share, shortened

METRICS: tuple[Metric, ...] = ("tau", "diff")
LABELS = {Preference.TIE: "tie", Preference.FIRST: "1", Preference.SECOND: "2", None: DASH}
FLIPS = "flips"  # in place of a label that differs between both orders: no reliable winner
MAX_SHOWN = 100  # pairs in a report; all are in the results
MAX_PROMPT = 240  # characters of a prompt that a table shows; all of it under the pointer


def evaluation_page(summary: Summary, results: Sequence[PairResult]) -> str:
    """Render the whole report as one HTML file."""
    on = f" on {summary.data_set}" if summary.data_set else ""
    sections = [
        ("Agreement with people", _agreement(summary)),
        ("Published numbers", _published(summary)),
        ("Worst disagreements", disagreement_section(results, summary.dimension)),
        ("Hard subsets", _subsets(summary)),
        ("Calibration", _calibration(summary)),
        ("Order of the videos", _order(summary)),
        ("Overall against its parts", _overall(summary)),
        ("Turns and cost", _costs(summary)),
        ("Not judged", not_judged_section(results)),
    ]
    what = " (control: frames drawn at random)" if summary.is_control else ""
    return render_page(f"{summary.judge}{on}{what}", _lead(summary), sections)


def _fact(name: str, value: str, more: str) -> Html:
    """Show one of the figures at the top of a report."""
    return element("div", element("dt", name), element("dd", value, element("small", more)))


def _lead(summary: Summary) -> Html:
    counted = paragraph(" ".join(outcome_sentences(summary)))
    if not summary.agreement:
        none = "People gave no labels, so nothing is said here about agreement."
        return join(counted, paragraph(none))
    main = _main(summary)
    best, unsure = main.best, main.margin.low is None or main.margin.low <= 0
    people = f"people: {share(main.people_tie_rate.value)}"
    facts = [
        _fact("tau", share(main.tau.value), interval_text(main.tau) or "no interval"),
        _fact("diff", share(value_of(main.diff)), interval_text(main.diff) or "no interval"),
        _fact("best baseline, tau", share(best.tau), best.name),
        _fact("judged", f"{main.answered:,}", f"of {main.labelled:,} labelled pairs"),
        _fact("ties", share(value_of(main.tie_rate)), people),
    ]
    return join(
        counted,
        element("p", agreement_sentence(main), class_="warning" if unsure else None),
        element("dl", *facts, class_="facts"),
    )


def _main(summary: Summary) -> DimensionAgreement:
    return next(each for each in summary.agreement if each.dimension is summary.dimension)


def _agreement(summary: Summary) -> Html:
    found = summary.agreement
    if not found:
        return Html("")
    main = _main(summary)
    beside = []
    for metric in METRICS:
        title = f"{metric}, {DIMENSION_NAMES[main.dimension].lower()}"
        known = [(each.name, getattr(each, metric)) for each in main.baselines]
        plain = [Bar(name, value, plain=True) for name, value in known if value is not None]
        judge = estimate_bars([("the judge", getattr(main, metric))])
        beside.append(interval_bars(title, [*judge, *plain]))
    names = ("dimension", "judged", "tau", "diff", "judge's ties", "people's ties")
    rows: list[HtmlRow] = [
        [
            DIMENSION_NAMES[each.dimension],
            Cell(f"{each.answered:,} of {each.labelled:,}", each.answered / each.labelled),
            *map(share_cell, (each.tau, each.diff, each.tie_rate)),
            percent(each.people_tie_rate.value),
            Cell(points_with_interval(each.margin), each.margin.value),
        ]
        for each in found
    ]
    heads = [f"{each.dimension.value} {metric}" for each in found for metric in METRICS]
    values = [percent(value_of(value)) for each in found for value in (each.tau, each.diff)]
    answers: list[HtmlRow] = [["the judge", *values]]
    for same in zip(*(each.baselines for each in found), strict=True):
        values = [percent(value) for each in same for value in (each.tau, each.diff)]
        answers.append([same[0].name, *values])
    return join(
        paragraph(
            "tau is the share of pairs with exactly people's label, of 1, 2 and tie; diff is the "
            "same share of the pairs in which people prefer a video, where a tie is wrong. A pair "
            "without an answer is wrong in both. Intervals are 95 %, over prompts."
        ),
        plots(*beside),
        sortable_table("Agreement by dimension", (*names, "points over best baseline"), rows),
        sortable_table("The judge, and answers that need no look", ("answer", *heads), answers),
        remark("A coin flip is what it scores on average."),
        *map(_confusion, found),
    )


def _confusion(found: DimensionAgreement) -> Html:
    name = DIMENSION_NAMES[found.dimension]
    title = f"{name}: people's labels against the judge's, {share(found.tau.value)} equal"
    heads = ("people said", "judge: tie", "judge: 1", "judge: 2", "no label")
    counts = zip(("tie", "1", "2"), found.confusion, strict=True)
    rows: list[HtmlRow] = [[label, *map(number, row)] for label, row in counts]
    table = sortable_table(f"{name}: how many pairs", heads, rows)
    return element("details", element("summary", title), table)


def _published(summary: Summary) -> Html:
    """Show published numbers beside ours, or why there are none."""
    ours = next((each for each in summary.agreement if each.dimension is Dimension.OA), None)
    if not ours or not (summary.published_tau or summary.published_remark):
        return Html("")
    if not summary.published_tau:
        return paragraph(summary.published_remark)
    rows: list[HtmlRow] = [[summary.judge, share_cell(ours.tau), share_cell(ours.diff)]]
    rows += (
        [tau.model, percent(tau.value), percent(diff.value)]
        for tau, diff in zip(summary.published_tau, summary.published_diff, strict=True)
    )
    return join(
        paragraph(
            "Overall labels of the same data set, as the paper reports them; it gives no intervals."
        ),
        sortable_table("This judge and published models", ("model", "tau", "diff"), rows),
        remark(summary.published_remark),
    )


def _calibration(summary: Summary) -> Html:
    diagrams, levels = [], []
    rows: list[HtmlRow] = []
    for each in summary.calibration:
        name = DIMENSION_NAMES[each.dimension]
        diagrams.append(reliability_plot(name, each.bins))
        if each.bins:
            rows.append([name, number(each.pairs), percent(each.error), number(each.brier, 3)])
        bars = estimate_bars(
            (f"CF {level.confidence}, {count(level.pairs, 'pair')}", level.right)
            for level in each.confidence
        )
        levels.append(interval_bars(f"Right by CF, {name.lower()}", bars))
    heads = ("dimension", "pairs", "calibration error", "Brier score")
    calibrated = (
        "A calibrated judge lies on the dashed line: of its labels with a probability of 80 %, "
        "80 % are people's. The calibration error is the mean distance from that line (ECE, ten "
        "bins); the Brier score is 0 at best and 2 at worst."
    )
    cf = (
        "CF is what a judge of the protocol concat says of itself: 1 low, 2 medium, 3 high, 4 very "
        "high, 5 confirmed. In the paper's wording 1 to 3 mean high to low; they are shown as 3 to 1."
    )
    return join(
        paragraph(calibrated) if rows else "",
        plots(*diagrams),
        sortable_table("Probabilities of labels", heads, rows),
        plots(*levels),
        remark(cf) if any(levels) else "",
    )


def _order(summary: Summary) -> Html:
    if not summary.position:
        return Html("")
    bias = (
        "Over both orders a judge without a bias prefers what it is shown first half of the time, "
        "whichever videos are better."
        if any(each.shown_first for each in summary.position)
        else "People's own share stands below, for the data set may have better videos on one "
        "side; judging with --swap tells them apart."
    )
    heads = ("pairs", "prefers video 1", "people do", "prefers the one shown first")
    rows: list[HtmlRow] = [
        [
            DIMENSION_NAMES[each.dimension],
            number(each.decided),
            share_cell(each.first),
            percent(each.people_first),
            share_cell(each.shown_first),
        ]
        for each in summary.position
    ]
    turns = ("same label", "turns to the other video", "turns to a tie or from one")
    swaps: list[HtmlRow] = [
        [
            DIMENSION_NAMES[each.dimension],
            number(each.pairs),
            share_cell(each.stable),
            percent(each.flips),
            percent(each.tie_changes),
        ]
        for each in summary.swap
    ]
    return join(
        paragraph(
            f"How often the judge prefers video 1, of the pairs in which it prefers one. {bias}"
        ),
        sortable_table("Position bias", ("dimension", *heads), rows),
        sortable_table(
            "Both orders compared", ("dimension", "pairs in both orders", *turns), swaps
        ),
    )


def _overall(summary: Summary) -> Html:
    if not summary.overall:
        return Html("")
    rows: list[HtmlRow] = [
        [each.whose, number(each.pairs), percent(each.with_sum), percent(each.contradictions)]
        for each in summary.overall
    ]
    return join(
        sortable_table(
            "Overall label against text alignment, visual and motion quality",
            ("labels of", "pairs", "OA is the side with more of the three", "contradictions"),
            rows,
        ),
        remark(
            "A contradiction: OA prefers a video that none of the three prefers, or is a tie "
            "though all three prefer the same one."
        ),
    )


def _subsets(summary: Summary) -> Html:
    rows: list[HtmlRow] = []
    for each in summary.subsets:
        theirs = published_subset(summary, each.name)
        scores = map(share_cell, (each.tau, each.diff))
        rows.append([each.name, number(each.pairs), *scores, *map(percent, theirs)])
    heads = ("pairs of the", "pairs", "tau", "diff", "VR-Thinker 7B, tau", "diff")
    return join(
        sortable_table(f"{DIMENSION_NAMES[summary.dimension]} by length", heads, rows),
        remark(
            "Videos by the seconds of both, prompts by their characters, equal lengths included. "
            "VR-Thinker: arXiv 2510.10518v4, Tables 2 and 3, on the whole of the same data set."
        )
        if rows
        else "",
    )


def _costs(summary: Summary) -> Html:
    found = summary.costs
    if found is None:
        return Html("")
    heads = ("cost", "here", "VR-Thinker 7B on an A800")
    paper = {"seconds a pair": 7.55, "tokens written a second, one pair": 63}
    paper["tokens written a second, all pairs"] = 162
    rates: list[HtmlRow] = [
        [name, cell, number(paper.get(name), 2)] for name, cell in cost_cells(found).items()
    ]
    return join(
        sortable_table(f"Over {count(found.pairs, 'pair')}", heads, rates),
        remark(
            "Of pairs whose run came to its own end, the first order alone. Tokens read are "
            "those of all turns, each as it was sent. Pairs an hour are side by side. The A800: "
            "arXiv 2510.10518v4, Table 5."
        ),
    )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A pair whose label in the report's dimension is not people's."""

    id: str
    row: int
    prompt: str
    people: dict[str, int]
    judge: dict[str, int]  # of the first order
    flips: tuple[Dimension, ...]  # labels that swapping the sides changed: no reliable winner
    probability: float | None  # of the judge's wrong label
    confidence: int | None
    generators: tuple[str, str]
    trace: str


def disagreements(results: Iterable[PairResult], dimension: Dimension) -> list[Disagreement]:
    """List disagreements, the surest wrong label first.

    The order is by its probability, then by CF, the other video before a tie, then by id.
    """
    found = []
    for result in results:
        pair, verdict = result.pair, result.verdict
        people = getattr(pair.labels, dimension.value)
        judge = getattr(verdict, dimension.value, None)
        if people is None or judge is None or people is judge or not (verdict and result.judged):
            continue
        known = (result.probabilities or {}).get(dimension)
        wrong = Disagreement(
            pair.id,
            pair.row,
            pair.prompt,
            pair.labels.labels,
            verdict.labels,
            result.flips,
            None if known is None else known[judge],
            result.confidence,
            (pair.first_generator, pair.second_generator),
            result.trace,
        )
        surest = -1.0 if wrong.probability is None else wrong.probability
        tie = Preference.TIE in (people, judge)
        found.append(((-surest, -(result.confidence or 0), tie, pair.id, pair.row), wrong))
    return [wrong for _, wrong in sorted(found, key=lambda each: each[0])]


def disagreement_section(results: Iterable[PairResult], dimension: Dimension) -> Html:
    """Show the worst disagreements, each with a link to its trace."""
    found = disagreements(results, dimension)
    if not found:
        return Html("")
    shown = found[:MAX_SHOWN]
    probabilities = any(each.probability is not None for each in found)
    confidence = any(each.confidence is not None for each in found)
    sure = ["probability"] if probabilities else []
    sure += ["CF, concat"] if confidence else []
    rows: list[HtmlRow] = []
    for each in shown:
        labels = said(each.people, dimension), said(each.judge, dimension, each.flips)
        row: list[Cell | str] = [number(each.row), prompt_text(each.prompt), *labels]
        if probabilities:
            high = each.probability is not None and each.probability >= TELLING
            row.append(Cell("high", each.probability) if high else percent(each.probability))
        if confidence:
            row.append(number(each.confidence))
        rows.append([*row, trace_link(each.trace)])
    heads = ("row", "prompt", "people", "judge", *sure, "trace")
    return join(
        paragraph(
            f"{_told(len(found))} in which the judge's label is not people's. "
            f"{'The surest wrong label comes first. ' if sure else ''}"
            f"{DIMENSION_NAMES[dimension]} stands in bold."
        ),
        sortable_table("Disagreements with people", heads, rows, tall=True),
        _flip_remark(any(each.flips for each in shown)),
        remark(
            "A trace is the whole run: ",
            element("code", "python -m vrthinker_core replay FILE"),
            " shows it.",
        ),
    )


def one_right_section(
    shared: Shared, judges: tuple[str, str], folders: tuple[str, str], dimension: Dimension
) -> Html:
    """Show pairs with one judge right; `folders` hold the traces of each."""
    found = []
    for both in zip(*shared, strict=True):
        people = getattr(both[0].pair.labels, dimension.value)
        right = [getattr(each.verdict, dimension.value, None) is people for each in both]
        if people is not None and right[0] != right[1]:
            found.append((both, judges[right.index(True)]))
    if not found:
        return Html("")
    shown = found[:MAX_SHOWN]
    rows: list[HtmlRow] = []
    for both, judge in shown:
        pair = both[0].pair
        answers = (said((each.verdict or Verdict()).labels, dimension, each.flips) for each in both)
        first, second = (
            trace_link(f"{folder}{each.trace}" if each.trace else "", name)
            for each, folder, name in zip(both, folders, ("first", "second"), strict=True)
        )
        labels = said(pair.labels.labels, dimension), *answers
        traces = join(first, " ", second)
        rows.append([number(pair.row), prompt_text(pair.prompt), *labels, judge, traces])
    heads = ("row", "prompt", "people", *judges, "right", "traces")
    return join(
        paragraph(
            f"{_told(len(found))} in which one judge has people's label and the other has not. "
            f"{DIMENSION_NAMES[dimension]} stands in bold."
        ),
        sortable_table("One judge right", heads, rows, tall=True),
        _flip_remark(any(each.flips for both, _ in shown for each in both)),
    )


def not_judged_section(results: Iterable[PairResult]) -> Html:
    """Show what failed, was stopped or is broken, and why."""
    missed = [each for each in results if not each.judged]
    if not missed:
        return Html("")
    missed.sort(key=lambda each: (each.pair.row, each.pair.id))
    rows: list[HtmlRow] = [
        [
            number(each.pair.row),
            fault_name(each.fault) or each.stop.value,
            each.error or DASH,
            prompt_text(each.pair.prompt),
            trace_link(each.trace),
        ]
        for each in missed[:MAX_SHOWN]
    ]
    first = f" The first {MAX_SHOWN} of {len(missed):,} are shown."
    text = (
        f"A pair that failed or was stopped counts as wrong above; {ROW_FAULT} and rows that were "
        f"left out count nowhere.{first if len(missed) > MAX_SHOWN else ''}"
    )
    heads = ("row", "what", "why", "prompt", "trace")
    return join(paragraph(text), sortable_table("Not judged", heads, rows, tall=True))


def _told(pairs: int) -> str:
    first = f"The first {MAX_SHOWN} of {pairs:,} pairs"
    return count(pairs, "pair") if pairs <= MAX_SHOWN else first


def _flip_remark(some: bool) -> Html:
    return remark(element("b", FLIPS), f" – {NO_RELIABLE_WINNER}") if some else Html("")


def prompt_text(prompt: str) -> Html:
    """Show a prompt, cut if long, with its own direction of writing."""
    short = shortened(prompt, MAX_PROMPT)
    return element("bdi", short, class_="wide", title=prompt if short != prompt else None)


def said(labels: dict[str, int], dimension: Dimension, flips: Sequence[Dimension] = ()) -> Html:
    """Show labels, the report's dimension in bold; hide those that flip."""
    words = {
        name: FLIPS if name in flips else LABELS[Preference(label)]
        for name, label in labels.items()
    }
    main = None if dimension in flips else labels.get(dimension.value)
    others = ", ".join(f"{name} {word}" for name, word in words.items() if name != dimension.value)
    text = element("b", words.get(dimension.value, DASH), class_=f"vrt-v{main}" if main else None)
    return join(text, element("small", f" {others}") if others else "")


def trace_link(trace: str, name: str = "trace") -> Html:
    """Link to a file beside the report, whatever its name; or dash."""
    file = trace.lstrip("/")  # Two slashes would name another machine
    return element("a", name, href=quote(file, errors="replace")) if file else Html(DASH)
