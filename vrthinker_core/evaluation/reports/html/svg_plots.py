"""Plots as SVG, narrow enough for a phone: bars with intervals, a reliability diagram, a histogram."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vrthinker_core.evaluation.reports.html.markup import Html, element, join

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
