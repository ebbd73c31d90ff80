"""Tables with a row for each pair: disagreements with people, pairs on which two judges differ, and what could not be judged."""

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from vrthinker_core.evaluation.disagreements import MAX_SHOWN, Disagreement
from vrthinker_core.evaluation.figures import FLIPS, LABELS, NONE, fault_name
from vrthinker_core.evaluation.html import (
    Cell,
    Html,
    TableColumn,
    element,
    join,
    number,
    paragraph,
    percent,
    remark,
    sortable_table,
)
from vrthinker_core.evaluation.judge_comparison import SharedResults
from vrthinker_core.results.result import ROW_FAULT, PairResult
from vrthinker_core.types import Dimension, Preference, Verdict
from vrthinker_core.types.progress import count
from vrthinker_core.types.wording import DIMENSION_NAMES, NO_RELIABLE_WINNER, TELLING

MAX_PROMPT = 240  # Characters of a prompt that a table shows; all of it where the pointer rests


def disagreement_section(found: Sequence[Disagreement], dimension: Dimension) -> Html:
    """The worst of them, each with a link to its trace."""
    if not found:
        return Html("")
    some = (
        [each for each in found if each.probability is not None],
        [each for each in found if each.confidence is not None],
    )
    columns = [
        TableColumn("row", number=True),
        TableColumn("prompt"),
        TableColumn("people"),
        TableColumn("judge"),
    ]
    columns += [TableColumn("probability", number=True)] if some[0] else []
    columns += [TableColumn("CF, concat", number=True)] if some[1] else []
    rows = (
        [
            *_common(each, dimension),
            *_certainty(each, *map(bool, some)),
            Cell(trace_link(each.trace)),
        ]
        for each in found[:MAX_SHOWN]
    )
    shown = (
        count(len(found), "pair")
        if len(found) <= MAX_SHOWN
        else f"The first {MAX_SHOWN} of {len(found):,} pairs"
    )
    first = "The surest wrong label comes first. " if any(some) else ""
    return join(
        paragraph(
            f"{shown} in which the judge's label is not people's. {first}{DIMENSION_NAMES[dimension]} stands in bold."
        ),
        sortable_table(
            "Disagreements with people", [*columns, TableColumn("trace")], rows, tall=True
        ),
        _flip_remark(any(each.flips for each in found[:MAX_SHOWN])),
        remark(
            "A trace is the whole run: ",
            element("code", "python -m vrthinker_core replay FILE"),
            " shows it.",
        ),
    )


def _common(each: Disagreement, dimension: Dimension) -> list[Cell]:
    labels = said(each.people, dimension), said(each.judge, dimension, each.flips)
    return [number(each.row), Cell(prompt_text(each.prompt)), *map(Cell, labels)]


def _certainty(each: Disagreement, probabilities: bool, confidence: bool) -> list[Cell]:
    sure = each.probability is not None and each.probability >= TELLING
    cells = (
        [Cell("high", each.probability) if sure else percent(each.probability)]
        if probabilities
        else []
    )
    return cells + ([number(each.confidence)] if confidence else [])


def one_right_section(
    shared: SharedResults, judges: tuple[str, str], folders: tuple[str, str], dimension: Dimension
) -> Html:
    """The pairs in which exactly one of two judges has people's label; `folders` say where the traces of each lie."""
    rows = [
        row
        for first, second in zip(shared.first, shared.second, strict=True)
        if (row := _one_right(first, second, dimension))
    ]
    if not rows:
        return Html("")
    columns = [
        TableColumn("row", number=True),
        *map(TableColumn, ("prompt", "people", *judges, "right", "traces")),
    ]
    cells = (
        _one_right_cells(first, second, (judges[0] if right else judges[1], *folders), dimension)
        for first, second, right in rows[:MAX_SHOWN]
    )
    shown = (
        count(len(rows), "pair")
        if len(rows) <= MAX_SHOWN
        else f"The first {MAX_SHOWN} of {len(rows):,} pairs"
    )
    text = f"{shown} in which one judge has people's label and the other has not. {DIMENSION_NAMES[dimension]} stands in bold."
    flips = any(each.flips for first, second, _ in rows[:MAX_SHOWN] for each in (first, second))
    return join(
        paragraph(text),
        sortable_table("One judge right", columns, cells, tall=True),
        _flip_remark(flips),
    )


def _one_right(
    first: PairResult, second: PairResult, dimension: Dimension
) -> tuple[PairResult, PairResult, bool] | None:
    people = getattr(first.pair.labels, dimension.value)
    right = [getattr(result.verdict, dimension.value, None) is people for result in (first, second)]
    return (first, second, right[0]) if people is not None and right[0] != right[1] else None


def _one_right_cells(
    first: PairResult, second: PairResult, told: tuple[str, str, str], dimension: Dimension
) -> list[Cell]:
    """`told` are the judge who is right, and where the traces of both lie."""
    judges = [
        said((each.verdict or Verdict()).labels, dimension, each.flips) for each in (first, second)
    ]
    files = [
        f"{folder}{each.trace}" if each.trace else ""
        for each, folder in zip((first, second), told[1:], strict=True)
    ]
    return [
        number(first.pair.row),
        Cell(prompt_text(first.pair.prompt)),
        *map(Cell, (said(first.pair.labels.labels, dimension), *judges)),
        Cell(told[0]),
        Cell(join(trace_link(files[0], "first"), " ", trace_link(files[1], "second"))),
    ]


def not_judged_section(results: Iterable[PairResult]) -> Html:
    """What failed, was stopped, or is a broken row, each with its sentence; in the order of the rows."""
    missed = sorted(
        (each for each in results if not each.judged),
        key=lambda each: (each.pair.row, each.pair.id),
    )
    if not missed:
        return Html("")
    rows = (
        [
            number(each.pair.row),
            Cell(fault_name(each.fault) or each.stop.value),
            Cell(each.error or NONE),
            Cell(prompt_text(each.pair.prompt)),
            Cell(trace_link(each.trace)),
        ]
        for each in missed[:MAX_SHOWN]
    )
    columns = [
        TableColumn("row", number=True),
        *map(TableColumn, ("what", "why", "prompt", "trace")),
    ]
    more = (
        f" The first {MAX_SHOWN} of {len(missed):,} are shown." if len(missed) > MAX_SHOWN else ""
    )
    text = f"A pair that failed or was stopped counts as wrong above; {ROW_FAULT} and rows that were left out count nowhere.{more}"
    return join(paragraph(text), sortable_table("Not judged", columns, rows, tall=True))


def _flip_remark(some: bool) -> Html:
    return remark(element("b", FLIPS), f" – {NO_RELIABLE_WINNER}") if some else Html("")


def prompt_text(prompt: str) -> Html:
    """A prompt as a cell: cut where it is long, its own direction of writing kept to itself."""
    short = prompt if len(prompt) <= MAX_PROMPT else f"{prompt[: MAX_PROMPT - 1]}…"
    return element("bdi", short, class_="wide", title=prompt if short != prompt else None)


def said(labels: dict[str, int], dimension: Dimension, flips: Sequence[Dimension] = ()) -> Html:
    """Labels as a cell: the one the report is about in bold, the others after it. None of those that flip is shown."""
    words = {
        name: FLIPS if name in flips else LABELS[Preference(label)]
        for name, label in labels.items()
    }
    main = None if dimension in flips else labels.get(dimension.value)
    others = ", ".join(f"{name} {word}" for name, word in words.items() if name != dimension.value)
    text = element("b", words.get(dimension.value, NONE), class_=f"v{main}" if main else None)
    return join(text, element("small", f" {others}") if others else "")


def trace_link(trace: str, name: str = "trace") -> Html:
    """A link to a file below the report's folder or beside it, whatever its name; a dash where there is none."""
    file = trace.lstrip("/")  # Two slashes would name another machine
    return element("a", name, href=quote(file, errors="replace")) if file else Html(NONE)
