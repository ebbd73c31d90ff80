"""Tables with a row for each pair: disagreements with people, pairs on which two judges differ, and what could not be judged."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from vrthinker_core.evaluation.reports.disagreements import MAX_SHOWN, Disagreement
from vrthinker_core.evaluation.reports.figures import LABELS, NONE
from vrthinker_core.evaluation.reports.html.markup import Html, element, join
from vrthinker_core.evaluation.reports.html.page_frame import paragraph, remark
from vrthinker_core.evaluation.reports.html.tables import Cell, TableColumn, number, percent, sortable_table
from vrthinker_core.evaluation.scores.judge_comparison import SharedResults
from vrthinker_core.results.result import ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Preference, Verdict
from vrthinker_core.types.progress import count
from vrthinker_core.types.wording import DIMENSION_NAMES

MAX_PROMPT = 240  # Characters of a prompt that a table shows; all of it where the pointer rests


def disagreement_section(found: Sequence[Disagreement], dimension: Dimension) -> Html:
    """The worst of them, each with a link to its trace."""
    if not found:
        return Html("")
    some = [each for each in found if each.probability is not None], [each for each in found if each.confidence is not None]
    columns = [TableColumn("row", number=True), TableColumn("prompt"), TableColumn("people"), TableColumn("judge")]
    columns += [TableColumn("probability", number=True)] if some[0] else []
    columns += [TableColumn("CF, concat", number=True)] if some[1] else []
    rows = (
        [*_common(each, dimension), *_certainty(each, *map(bool, some)), Cell(trace_link(each.trace))] for each in found[:MAX_SHOWN]
    )
    shown = count(len(found), "pair") if len(found) <= MAX_SHOWN else f"The first {MAX_SHOWN} of {len(found):,} pairs"
    first = "The surest wrong label comes first. " if any(some) else ""
    return join(
        paragraph(f"{shown} in which the judge's label is not people's. {first}{DIMENSION_NAMES[dimension]} stands in bold."),
        sortable_table("Disagreements with people", [*columns, TableColumn("trace")], rows, tall=True),
        remark("A trace is the whole run: ", element("code", "python -m vrthinker_core replay FILE"), " shows it."),
    )


def _common(each: Disagreement, dimension: Dimension) -> list[Cell]:
    return [number(each.row), Cell(prompt_text(each.prompt)), Cell(said(each.people, dimension)), Cell(said(each.judge, dimension))]


def _certainty(each: Disagreement, probabilities: bool, confidence: bool) -> list[Cell]:
    cells = [percent(each.probability)] if probabilities else []
    return cells + ([number(each.confidence)] if confidence else [])


def one_right_section(shared: SharedResults, judges: tuple[str, str], folders: tuple[str, str], dimension: Dimension) -> Html:
    """The pairs in which exactly one of two judges has people's label; `folders` say where the traces of each lie."""
    rows = [row for first, second in zip(shared.first, shared.second, strict=True) if (row := _one_right(first, second, dimension))]
    if not rows:
        return Html("")
    columns = [TableColumn("row", number=True), *map(TableColumn, ("prompt", "people", *judges, "right", "traces"))]
    cells = (
        _one_right_cells(first, second, (judges[0] if right else judges[1], *folders), dimension)
        for first, second, right in rows[:MAX_SHOWN]
    )
    shown = count(len(rows), "pair") if len(rows) <= MAX_SHOWN else f"The first {MAX_SHOWN} of {len(rows):,} pairs"
    text = f"{shown} in which one judge has people's label and the other has not. {DIMENSION_NAMES[dimension]} stands in bold."
    return join(paragraph(text), sortable_table("One judge right", columns, cells, tall=True))


def _one_right(first: PairResult, second: PairResult, dimension: Dimension) -> tuple[PairResult, PairResult, bool] | None:
    people = getattr(first.pair.labels, dimension.value)
    right = [getattr(result.verdict, dimension.value, None) is people for result in (first, second)]
    return (first, second, right[0]) if people is not None and right[0] != right[1] else None


def _one_right_cells(first: PairResult, second: PairResult, told: tuple[str, str, str], dimension: Dimension) -> list[Cell]:
    """`told` are the judge who is right, and where the traces of both lie."""
    labels = [first.pair.labels, first.verdict or Verdict(), second.verdict or Verdict()]
    files = [f"{folder}{each.trace}" if each.trace else "" for each, folder in zip((first, second), told[1:], strict=True)]
    return [
        number(first.pair.row),
        Cell(prompt_text(first.pair.prompt)),
        *(Cell(said(verdict.labels, dimension)) for verdict in labels),
        Cell(told[0]),
        Cell(join(trace_link(files[0], "first"), " ", trace_link(files[1], "second"))),
    ]


def not_judged_section(results: Iterable[PairResult]) -> Html:
    """What failed, was stopped, or is a broken row, each with its sentence; in the order of the rows."""
    missed = sorted((each for each in results if not each.judged), key=lambda each: (each.pair.row, each.pair.id))
    if not missed:
        return Html("")
    rows = (
        [
            number(each.pair.row),
            Cell(each.fault or each.stop.value),
            Cell(each.error or NONE),
            Cell(prompt_text(each.pair.prompt)),
            Cell(trace_link(each.trace)),
        ]
        for each in missed[:MAX_SHOWN]
    )
    columns = [TableColumn("row", number=True), *map(TableColumn, ("what", "why", "prompt", "trace"))]
    more = f" The first {MAX_SHOWN} of {len(missed):,} are shown." if len(missed) > MAX_SHOWN else ""
    text = f"A pair that failed or was stopped counts as wrong above; {ROW_FAULT} and rows that were left out count nowhere.{more}"
    return join(paragraph(text), sortable_table("Not judged", columns, rows, tall=True))


def prompt_text(prompt: str) -> Html:
    """A prompt as a cell: cut where it is long, its own direction of writing kept to itself."""
    short = prompt if len(prompt) <= MAX_PROMPT else f"{prompt[: MAX_PROMPT - 1]}…"
    return element("bdi", short, class_="wide", title=prompt if short != prompt else None)


def said(labels: dict[str, int], dimension: Dimension) -> Html:
    """Labels as a cell: the one the report is about in bold, the others after it."""
    main = labels.get(dimension.value)
    text = LABELS[None if main is None else Preference(main)]
    others = ", ".join(f"{name} {LABELS[Preference(label)]}" for name, label in labels.items() if name != dimension.value)
    return join(element("b", text, class_=f"v{main}" if main else None), element("small", f" {others}") if others else "")


def trace_link(trace: str, name: str = "trace") -> Html:
    """A link to a file below the report's folder or beside it, whatever its name; a dash where there is none."""
    file = trace.lstrip("/")  # Two slashes would name another machine
    return element("a", name, href=quote(file, errors="replace")) if file else Html(NONE)
