"""Tables of pairs: disagreements with people or judges, and failures."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from vrthinker_core.evaluation.agreement import Shared
from vrthinker_core.evaluation.figures import fault_name
from vrthinker_core.evaluation.html import (
    Cell,
    Html,
    HtmlRow,
    element,
    join,
    number,
    paragraph,
    percent,
    remark,
    sortable_table,
)
from vrthinker_core.results.result import ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Preference, Verdict
from vrthinker_core.types.wording import DIMENSION_NAMES, NO_RELIABLE_WINNER, TELLING
from vrthinker_core.words import DASH, count, shortened

LABELS = {Preference.TIE: "tie", Preference.FIRST: "1", Preference.SECOND: "2", None: DASH}
FLIPS = "flips"  # in place of a label that differs between both orders: no reliable winner
MAX_SHOWN = 100  # pairs in a report; all are in the results
MAX_PROMPT = 240  # characters of a prompt that a table shows; all of it under the pointer


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
        if people is None or judge is None or people is judge:
            continue
        if not (verdict and result.judged):
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
    text = element("b", words.get(dimension.value, DASH), class_=f"v{main}" if main else None)
    return join(text, element("small", f" {others}") if others else "")


def trace_link(trace: str, name: str = "trace") -> Html:
    """Link to a file beside the report, whatever its name; or dash."""
    file = trace.lstrip("/")  # Two slashes would name another machine
    return element("a", name, href=quote(file, errors="replace")) if file else Html(DASH)
