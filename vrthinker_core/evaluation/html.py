"""Reports as one HTML file without any request: elements, tables, plots."""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrthinker_core.__about__ import asset
from vrthinker_core.errors import os_errors
from vrthinker_core.storage import write_atomically
from vrthinker_core.words import encodable, or_dash, policy_hash, share, shortened

if TYPE_CHECKING:
    from vrthinker_core.evaluation.behaviour import ProbabilityBin

# Control characters, which no HTML file may hold
_NOT_SHOWN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
VOID = frozenset({"br", "meta", "line", "rect", "circle", "path"})  # elements without content


class Html(str):
    """Markup that is not escaped; any other string is text."""

    __slots__ = ()


def escape(text: str) -> Html:
    """Escape text for content and attributes; keep `Html` as it is."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(_NOT_SHOWN.sub("\N{REPLACEMENT CHARACTER}", encodable(text))))


def join(*parts: str) -> Html:
    """Join several parts; anything but `Html` is escaped."""
    return Html("".join(map(escape, parts)))


def element(name: str, *content: str, **attributes: str | float | bool | None) -> Html:
    """Render one element.

    In attribute names `_` stands for `-`; a last one is dropped (`class_`). An attribute that is
    None or False is left out, True stands without a value, and numbers have at most two decimals.
    """
    opening = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        opening += " " + key.rstrip("_").replace("_", "-")
        if value is not True:
            text = value if isinstance(value, str) else f"{round(value, 2):g}"
            opening += f'="{escape(text)}"'
    return Html(f"<{opening}/>" if name in VOID else f"<{opening}>{join(*content)}</{name}>")


@dataclass(frozen=True, slots=True)
class Cell:
    """A number in a table, and what it sorts by; None sorts last."""

    content: str
    value: float | None = None


HtmlRow = Sequence[Cell | str]  # of a table; a string is text or markup


def sortable_table(
    caption: str, heads: Sequence[str], rows: Iterable[HtmlRow], *, tall: bool = False
) -> Html:
    """Render a table that sorts by its heads; no rows give no table.

    The first cell of a row names it. Numbers stand to the right, and sort with the highest first.
    A `tall` table scrolls within the window, and its heads stay in view.
    """
    body: list[Html] = []
    kinds: list[str | None] = []
    for row in rows:
        kinds = ["number" if isinstance(cell, Cell) else None for cell in row]
        cells = []
        for place, (kind, given) in enumerate(zip(kinds, row, strict=True)):
            cell = given if isinstance(given, Cell) else Cell(given)
            name, scope = ("td", None) if place else ("th", "row")
            # All digits, or close values would not sort.
            value = None if cell.value is None else repr(float(cell.value))
            cells.append(element(name, cell.content, scope=scope, class_=kind, data_value=value))
        body.append(element("tr", *cells))
    if not body:
        return Html("")
    buttons = (
        element("th", element("button", head, type="button"), scope="col", class_=kind)
        for head, kind in zip(heads, kinds, strict=True)
    )
    top = element("caption", caption), element("thead", element("tr", *buttons))
    table = element("table", *top, element("tbody", *body), class_="sortable")
    return scrolling(caption, table, kind="scroll tall" if tall else "scroll")


def scrolling(label: str, *content: str, kind: str = "scroll") -> Html:
    """Render a region that scrolls by itself, by keyboard, too."""
    return element("div", *content, class_=kind, tabindex="0", role="region", aria_label=label)


def percent(value: float | None) -> Cell:
    """Show a share as a cell, in per cent."""
    return Cell(share(value), value)


def number(value: float | None, decimals: int = 0) -> Cell:
    """Show a number as a cell, never minus nought."""
    return Cell(or_dash(value, f"z,.{decimals}f"), value)


WIDTH = 340  # of every plot, in CSS pixels: a phone shows it unscaled
MAX_LABEL = 28  # characters


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `plain` marks a comparison such as a baseline."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    plain: bool = False


def image(title: str, width: float, height: float, *shapes: str) -> Html:
    """Render shapes as an SVG image with a name for screen readers."""
    box = f"0 0 {width:g} {height:g}"
    return element(
        "svg", *shapes, viewBox=box, width=width, height=height, role="img", aria_label=title
    )


def figure(title: str, height: float, *shapes: str) -> Html:
    """Render a plot of the width `WIDTH` with its title."""
    return element("figure", element("figcaption", title), image(title, WIDTH, height, *shapes))


def svg_text(text: str, x: float, y: float, anchor: str = "start", kind: str | None = None) -> Html:
    """Render text of a plot; if cut, all is under the pointer."""
    short = shortened(text, MAX_LABEL)
    whole = element("title", text) if short != text else ""
    return element("text", short, whole, x=x, y=y, text_anchor=anchor, class_=kind)


def rectangle(x: float, y: float, width: float, height: float, kind: str, **more: float) -> Html:
    """Render a rectangle of a plot."""
    return element("rect", x=x, y=y, width=width, height=height, class_=kind, **more)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    """Render a line of a plot."""
    return element("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=kind)


def interval_bars(title: str, bars: Sequence[Bar], origin: float = 0.0) -> Html:
    """Plot shares as bars from `origin` with intervals, in per cent."""
    if not bars:
        return Html("")

    def place(value: float) -> float:
        return 1 + min(max(value, 0.0), 1.0) * (WIDTH - 2)

    height, start, shapes = 40, place(origin), list[Html]()
    for row, bar in enumerate(bars):
        top, told = height * row, f"{100 * bar.value:.1f} %"
        middle, interval = top + 27, Html("")
        if bar.low is not None and bar.high is not None:
            told += f" ({100 * bar.low:.1f} to {100 * bar.high:.1f})"
            low, high = place(bar.low), place(bar.high)
            across = f"M{low:.2f} {middle}H{high:.2f}"
            ends = f"M{low:.2f} {middle - 4}v8M{high:.2f} {middle - 4}v8"
            interval = element("path", d=across + ends, class_="interval")
        left, right = sorted((start, place(bar.value)))
        shapes += [
            svg_text(bar.label, 0, top + 14),
            svg_text(told, WIDTH, top + 14, "end", "figures"),
            rectangle(1, top + 20, WIDTH - 2, 14, "ground"),
            rectangle(left, top + 20, right - left, 14, "plain" if bar.plain else "bar"),
            line(start, top + 17, start, top + 37, "origin") if start > 1 else Html(""),
            interval,
        ]
    return figure(title, len(bars) * height, *shapes)


def reliability_plot(title: str, bins: "Sequence[ProbabilityBin]") -> Html:
    """Plot accuracy against probability; a dot's area is its pairs."""
    if not bins:
        return Html("")
    square, left, most = 300, 40.0, max(each.pairs for each in bins)
    bottom = square - 32.0
    side = bottom - 8
    shapes = [line(left, bottom, left + side, bottom - side, "diagonal")]  # a calibrated judge
    for tick in (0.0, 0.5, 1.0):
        across, up = left + side * tick, bottom - side * tick
        shapes += [
            line(left, up, left + side, up, "axis"),
            svg_text(f"{100 * tick:.0f}", left - 6, up + 4, "end", "figures"),
            svg_text(f"{100 * tick:.0f}", across, bottom + 15, "middle", "figures"),
        ]
    center = bottom - side / 2
    turned = f"rotate(-90 10 {center:g})"
    places = [(left + side * each.expected, bottom - side * each.right) for each in bins]
    path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in places)
    dots = (
        element("circle", cx=x, cy=y, r=3 + 7 * (each.pairs / most) ** 0.5, class_="dot")
        for (x, y), each in zip(places, bins, strict=True)
    )
    return figure(
        title,
        square,
        *shapes,
        svg_text("probability of the label, %", left + side / 2, bottom + 29, "middle"),
        element("text", "right, %", x=10, y=center, text_anchor="middle", transform=turned),
        element("path", d=path, class_="curve"),
        *dots,
    )


_FRAME = """<!doctype html>
<html lang="en" class="vrt-saved">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body class="vrt vrt-report">
<header><h1>{title}</h1>{lead}{contents}</header>
<main>
{sections}
</main>
<script>{script}</script>
</body>
</html>
"""


def render_page(title: str, lead: str, sections: Sequence[tuple[str, str]]) -> str:
    """Render the file: title, `lead`, then each section that has content.

    The policy allows our script and our style by their hashes, and nothing else.
    """
    style = asset("run.css").read_text(encoding="utf-8")
    script = asset("report.js").read_text(encoding="utf-8")
    links, shown = [], []
    for name, content in sections:
        if content:
            anchor = re.sub(r"\W+", "-", name.lower()).strip("-")
            links.append(element("a", name, href=f"#{anchor}"))
            shown.append(element("section", element("h2", name), content, id=anchor))
    return _FRAME.format(
        title=escape(title),
        lead=escape(lead),
        contents=element("nav", *links, aria_label="Sections"),
        sections=join(*shown),
        policy=f"default-src 'none'; style-src {policy_hash(style)}; "
        f"script-src {policy_hash(script)}; base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
    )


def write_page(page: Path, content: str, values: Mapping[str, Any], failed: str) -> Path:
    """Write a page, and its values as JSON beside it; `failed` begins a BadInput."""
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    with os_errors(failed):
        write_atomically(page.with_suffix(".json"), text.encode(errors="replace"))
        write_atomically(page, content.encode(errors="replace"))
    return page


def paragraph(*content: str) -> Html:
    """Render a sentence or two under a title."""
    return element("p", *content)


def remark(*content: str) -> Html:
    """Render a small note below a table or a plot."""
    return element("p", *content, class_="remark")


def plots(*figures: str) -> Html:
    """Render plots beside each other, as many as fit."""
    return element("div", *figures, class_="plots") if any(figures) else Html("")
