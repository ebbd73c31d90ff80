"""The page around a report: one file without any request, light and dark, from phones to wide screens."""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from vrthinker_core.__about__ import asset
from vrthinker_core.text import encodable, policy_hash

_NOT_SHOWN = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)  # Control characters, which no HTML file may hold
VOID = frozenset({"br", "meta", "line", "rect", "circle", "path"})  # Elements without content
Attribute = str | float | bool | None


class Html(str):
    """Markup that stands in a page as it is; any other string is text."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Text as it stands in a page, in content and in attributes."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(_NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", encodable(text))))


def join(*parts: str) -> Html:
    """Several parts, one after another; what is no `Html` is escaped."""
    return Html("".join(map(escape, parts)))


def element(name: str, *content: str, **attributes: Attribute) -> Html:
    """One element. In names of attributes `_` stands for `-`, and one at the end is dropped (`class_`).

    An attribute that is None or False is left out, True stands without a value, and numbers have at most two decimals.
    """
    opening = "".join(
        _attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()
    )
    return Html(
        f"<{name}{opening}/>" if name in VOID else f"<{name}{opening}>{join(*content)}</{name}>"
    )


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = value if isinstance(value, str) else f"{round(value, 2):g}"
    return f' {name}="{escape(text)}"'


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


WIDTH = 340  # Of every plot, in CSS pixels: a phone shows it unscaled
ROW = 40  # Height of a bar with its label
MAX_LABEL = 28  # Characters of a label
SQUARE = 300  # Side of a diagram with two axes


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar. `plain` marks what only serves for comparison, as a baseline does."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    plain: bool = False


@dataclass(frozen=True, slots=True)
class ReliabilityPoint:
    """One bin of a reliability diagram: how sure the judge was there on average, and how often it was right."""

    expected: float
    right: float
    count: int


def figure(title: str, height: float, *shapes: str) -> Html:
    """A plot of the width `WIDTH` with its title."""
    svg = element(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} {height:g}",
        width=WIDTH,
        height=height,
        role="img",
        aria_label=title,
    )
    return element("figure", element("figcaption", title), svg)


def svg_text(text: str, x: float, y: float, anchor: str = "start", kind: str | None = None) -> Html:
    """Text of a plot; a long one is cut, and whole where the pointer rests on it."""
    short = text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"
    whole = element("title", text) if short != text else ""
    return element("text", short, whole, x=x, y=y, text_anchor=anchor, class_=kind)


def interval_bars(
    title: str,
    bars: Sequence[Bar],
    span: tuple[float, float] = (0.0, 1.0),
    origin: float = 0.0,
    unit: str = "%",
) -> Html:
    """Shares as bars from `origin`, in per cent, each with its interval; `span` are the ends of the axis."""
    if not bars:
        return Html("")

    def place(value: float) -> float:
        inside = min(max(value, span[0]), span[1])
        return 1 + (inside - span[0]) / (span[1] - span[0]) * (WIDTH - 2)

    height = len(bars) * ROW
    return figure(
        title, height, *(_bar(bar, ROW * row, place, origin, unit) for row, bar in enumerate(bars))
    )


def _bar(bar: Bar, top: float, place: Callable[[float], float], origin: float, unit: str) -> Html:
    left, right = sorted((place(origin), place(bar.value)))
    middle = top + 27
    shapes = [
        svg_text(bar.label, 0, top + 14),
        svg_text(_figures(bar, unit), WIDTH, top + 14, "end", "figures"),
        element("rect", x=1, y=top + 20, width=WIDTH - 2, height=14, class_="ground"),
        element(
            "rect",
            x=left,
            y=top + 20,
            width=right - left,
            height=14,
            class_="plain" if bar.plain else "bar",
        ),
    ]
    if place(origin) > 1:
        shapes.append(
            element(
                "line",
                x1=place(origin),
                x2=place(origin),
                y1=top + 17,
                y2=top + 37,
                class_="origin",
            )
        )
    if bar.low is not None and bar.high is not None:
        low, high = place(bar.low), place(bar.high)
        ends = f"M{low:.2f} {middle}H{high:.2f}M{low:.2f} {middle - 4}v8M{high:.2f} {middle - 4}v8"
        shapes.append(element("path", d=ends, class_="interval"))
    return join(*shapes)


def _figures(bar: Bar, unit: str) -> str:
    value = f"{100 * bar.value:.1f} {unit}"
    return (
        value
        if bar.low is None or bar.high is None
        else f"{value} ({100 * bar.low:.1f} to {100 * bar.high:.1f})"
    )


def histogram(title: str, counts: Sequence[tuple[str, int]]) -> Html:
    """Columns, each with its label below and its count above."""
    if not counts:
        return Html("")
    most = max(max(count for _, count in counts), 1)
    width, height, shapes = WIDTH / len(counts), 150.0, []
    for position, (label, count) in enumerate(counts):
        tall, middle = 104 * count / most, (position + 0.5) * width
        shapes += [
            element(
                "rect",
                x=position * width + 2,
                y=126 - tall,
                width=width - 4,
                height=tall,
                class_="bar",
            ),
            svg_text(f"{count:,}" if count else "", middle, 120 - tall, "middle", "figures"),
            svg_text(label, middle, 144, "middle"),
        ]
    return figure(
        title, height, *shapes, element("line", x1=0, x2=WIDTH, y1=126, y2=126, class_="axis")
    )


def reliability_plot(title: str, points: Sequence[ReliabilityPoint]) -> Html:
    """How often the judge was right against how sure it was; the area of a dot is its share of the pairs."""
    if not points:
        return Html("")
    left, bottom, most = 40.0, SQUARE - 32.0, max(point.count for point in points)
    side = bottom - 8

    def at(point: ReliabilityPoint) -> tuple[float, float]:
        return left + side * point.expected, bottom - side * point.right

    dots = (
        element("circle", cx=at(p)[0], cy=at(p)[1], r=3 + 7 * (p.count / most) ** 0.5, class_="dot")
        for p in points
    )
    path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in map(at, points))
    return figure(
        title, SQUARE, _axes(left, bottom, side), element("path", d=path, class_="curve"), *dots
    )


def _axes(left: float, bottom: float, side: float) -> Html:
    """Two axes from 0 to 100 %, with the diagonal on which a calibrated judge lies."""
    shapes = [
        element("line", x1=left, y1=bottom, x2=left + side, y2=bottom - side, class_="diagonal")
    ]
    for tick in (0.0, 0.5, 1.0):
        across, up = left + side * tick, bottom - side * tick
        shapes += [
            element("line", x1=left, x2=left + side, y1=up, y2=up, class_="axis"),
            svg_text(f"{100 * tick:.0f}", left - 6, up + 4, "end", "figures"),
            svg_text(f"{100 * tick:.0f}", across, bottom + 15, "middle", "figures"),
        ]
    shapes.append(svg_text("probability of the label, %", left + side / 2, bottom + 29, "middle"))
    shapes.append(
        element(
            "text",
            "right, %",
            x=10,
            y=bottom - side / 2,
            text_anchor="middle",
            transform=f"rotate(-90 10 {bottom - side / 2:g})",
        )
    )
    return join(*shapes)


_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1>{lead}{contents}</header>
<main>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""


def render_page(title: str, lead: str, sections: Sequence[tuple[str, str]]) -> str:
    """The whole file: `lead` stands under the title, then each section with its own title; one without content is left out.

    The policy allows our script and our style by their hashes, and nothing else.
    """
    shown = [(name, content) for name, content in sections if content]
    style = asset("report.css").read_text(encoding="utf-8")
    script = asset("report.js").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src {policy_hash(style)}; script-src {policy_hash(script)}; base-uri 'none'; form-action 'none'"
    links = join(*(element("a", name, href=f"#{_anchor(name)}") for name, _ in shown))
    body = join(
        *(
            element("section", element("h2", name), content, id=_anchor(name))
            for name, content in shown
        )
    )
    return _FRAME.format(
        title=escape(title),
        lead=escape(lead),
        contents=element("nav", links, aria_label="Sections"),
        sections=body,
        policy=policy,
        style=style,
        script=script,
    )


def paragraph(*content: str) -> Html:
    """A sentence or two under a title."""
    return element("p", *content)


def remark(*content: str) -> Html:
    """What a reader must know about a table or a plot: small, below it."""
    return element("p", *content, class_="remark")


def plots(*figures: str) -> Html:
    """Plots beside each other, as many as fit."""
    return element("div", *figures, class_="plots") if any(figures) else Html("")


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")
