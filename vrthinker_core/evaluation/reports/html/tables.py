"""Tables whose columns sort: a button in each head, and `aria-sort` says which way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vrthinker_core.evaluation.reports.html.markup import Html, element, join


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column."""

    title: str
    number: bool = (
        False  # Stands to the right, and sorts by the value of its cells, the highest first
    )


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, and what it sorts by; None sorts last, either way."""

    content: str
    value: float | None = None


def sortable_table(
    caption: str,
    columns: Sequence[TableColumn],
    rows: Iterable[Sequence[Cell | str]],
    *,
    tall: bool = False,
) -> Html:
    """A table in the order of `rows` until a head is pressed; the first cell of a row names it. No rows give no table.

    A `tall` one scrolls within the window, and its heads stay in view.
    """
    body = [_row(columns, row) for row in rows]
    if not body:
        return Html("")
    heads = (
        element(
            "th", element("button", column.title, type="button"), scope="col", class_=_kind(column)
        )
        for column in columns
    )
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_="sortable",
    )
    return element(
        "div",
        table,
        class_="scroll tall" if tall else "scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )


def figure_table(
    caption: str, heads: Sequence[str], rows: Iterable[tuple[str, Sequence[Cell]]]
) -> Html:
    """A table of figures: each row is a name, and a number for every head but the first."""
    return sortable_table(caption, labelled(*heads), ([Cell(name), *cells] for name, cells in rows))


def percent(value: float | None) -> Cell:
    """A share as a cell, in per cent."""
    return Cell("–") if value is None else Cell(f"{100 * value:.1f} %", value)


def number(value: float | None, decimals: int = 0, unit: str = "") -> Cell:
    """A number as a cell, never minus nought."""
    return (
        Cell("–") if value is None else Cell(f"{value:z,.{decimals}f}{unit and ' ' + unit}", value)
    )


def labelled(*names: str) -> list[TableColumn]:
    """A column of names, then columns of numbers."""
    return [TableColumn(name, number=position > 0) for position, name in enumerate(names)]


def _row(columns: Sequence[TableColumn], row: Sequence[Cell | str]) -> Html:
    cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
    return element(
        "tr",
        join(
            *(
                _cell(column, cell, not place)
                for place, (column, cell) in enumerate(zip(columns, cells, strict=True))
            )
        ),
    )


def _cell(column: TableColumn, cell: Cell, first: bool) -> Html:
    name, scope = ("th", "row") if first else ("td", None)
    value = (
        None if cell.value is None else repr(float(cell.value))
    )  # All digits, or close values would not sort
    return element(name, cell.content, scope=scope, class_=_kind(column), data_value=value)


def _kind(column: TableColumn) -> str | None:
    return "number" if column.number else None
