"""A ranking as one HTML file: strengths with their intervals, the win matrix, cycles, the best of each prompt."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.html import (
    Bar,
    Cell,
    Html,
    TableColumn,
    element,
    interval_bars,
    join,
    number,
    paragraph,
    percent,
    plots,
    remark,
    render_page,
    sortable_table,
    svg_text,
)
from vrthinker_core.evaluation.rankings import DimensionRanking, GeneratorStrength, Ranking
from vrthinker_core.storage import write_atomically
from vrthinker_core.text import encodable
from vrthinker_core.types import Dimension
from vrthinker_core.types.wording import DIMENSION_NAMES

SHOWN_CYCLES = 20
LABEL, SIDE = 190, 46  # Width of the labels of the win matrix, and side of its cells, in CSS pixels

STRENGTH_MEANING = (
    "Strengths are natural logarithms with mean 0, by Bradley and Terry's model with ties; intervals are 95 %, over prompts. "
    "A bar is the share of decided pairs that the generator would win against one of average strength."
)
MATRIX_MEANING = "Win rate of the row against the column in per cent, a tie as half a win; empty where nothing was said."
CYCLE_MEANING = "Shares are those of resampled sets of prompts in which the whole cycle holds. Strengths cannot show a cycle."
BEST_MEANING = "Win rates of a prompt's videos against one another, overall."


def render_ranking(ranking: Ranking) -> str:
    """The file."""
    lead = join(*(paragraph(line) for line in ranking.summary(0)))
    first, *others = sorted(Dimension, key=lambda each: each is not Dimension.OA)
    sections = [
        (DIMENSION_NAMES[each], _dimension(ranking.dimensions[each])) for each in (first, *others)
    ]
    sections.insert(1, ("Best of each prompt", _best(ranking)))
    return render_page(
        "Ranking of video generators", lead, [*sections, ("Not judged", _not_judged(ranking))]
    )


def _dimension(found: DimensionRanking) -> Html:
    """Nothing for a dimension in which nothing was said."""
    if all(row.strength is None for row in found.strengths):
        return Html("")
    parts: list[str] = [
        _strengths(found),
        remark(STRENGTH_MEANING),
        plots(_plot(found)),
        win_matrix(found),
        remark(MATRIX_MEANING),
    ]
    if found.cycles:
        parts += [element("h3", "Cycles"), _cycles(found), remark(CYCLE_MEANING)]
    return join(*parts)


def _strengths(found: DimensionRanking) -> Html:
    numbers = ("place", "strength", "from", "to", "win rate", "wins", "ties", "losses", "no video")
    columns = [TableColumn("generator"), *(TableColumn(name, number=True) for name in numbers)]
    return sortable_table(
        "Generators, the strongest first", columns, map(_strength_row, found.strengths)
    )


def _strength_row(row: GeneratorStrength) -> list[Cell | str]:
    low, high = row.interval or (None, None)
    pairs = row.all_pairs
    counts = [number(value, 1) for value in (pairs.wins, pairs.ties, pairs.losses)]
    strengths = [number(value, 2) for value in (row.strength, low, high)]
    return [
        row.generator,
        number(row.place),
        *strengths,
        percent(pairs.rate),
        *counts,
        number(row.without_video),
    ]


def _plot(found: DimensionRanking) -> Html:
    bars = [
        Bar(
            row.generator,
            _chance(row.strength),
            *(map(_chance, row.interval) if row.interval else ()),
        )
        for row in found.strengths
        if row.strength is not None
    ]
    return interval_bars("Against a generator of average strength", bars, origin=0.5)


def _chance(strength: float) -> float:
    return float(1 / (1 + np.exp(-strength)))


def win_matrix(found: DimensionRanking) -> Html:
    """The win matrix as SVG: row against column, in the order of the strengths; a cell is filled as far as its row wins."""
    names = [row.generator for row in found.strengths]
    width, height = LABEL + SIDE * len(names), SIDE * (len(names) + 1)
    heads = (
        svg_text(str(place + 1), LABEL + SIDE * (place + 0.5), SIDE - 8, "middle", "figures")
        for place in range(len(names))
    )
    rows = (
        svg_text(f"{place + 1} {name}", 0, SIDE * (place + 1.5) + 5)
        for place, name in enumerate(names)
    )
    cells = (
        shape
        for i in range(len(names))
        for j in range(len(names))
        if i != j
        for shape in _cell(found, i, j)
    )
    title = "Win matrix: row against column"
    svg = element(
        "svg",
        *heads,
        *rows,
        *cells,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
    )
    return element(
        "div",
        element("p", title, class_="remark"),
        svg,
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=title,
    )


def _cell(found: DimensionRanking, i: int, j: int) -> Iterator[Html]:
    cell, left, top = found.matrix[i][j], LABEL + SIDE * j, SIDE * (i + 1)
    if cell.rate is None:
        return
    side = SIDE - 4
    tall = side * cell.rate
    counts = f"{found.strengths[i].generator} against {found.strengths[j].generator}: {cell.wins:g} won, {cell.ties:g} tied, "
    ground = element("rect", x=left, y=top, width=side, height=side, class_="ground")
    filled = element(
        "rect",
        x=left,
        y=top + side - tall,
        width=side,
        height=tall,
        class_="bar",
        fill_opacity=0.45,
    )
    share = svg_text(f"{100 * cell.rate:.0f}", left + side / 2, top + side / 2 + 5, "middle")
    yield element("g", element("title", f"{counts}{cell.losses:g} lost"), ground, filled, share)


def _cycles(found: DimensionRanking) -> Html:
    columns = [TableColumn("cycle"), TableColumn("holds in", number=True)]
    shown = found.cycles[:SHOWN_CYCLES]
    rows: list[list[Cell | str]] = [
        [" beats ".join((*cycle.generators, cycle.generators[0])), percent(cycle.share)]
        for cycle in shown
    ]
    more = len(found.cycles) - len(shown)
    return join(
        sortable_table("The surest first", columns, rows),
        remark(f"There are {more} more.") if more else "",
    )


def _best(ranking: Ranking) -> Html:
    if not ranking.best_of:
        return Html("")
    columns = [
        TableColumn("prompt"),
        TableColumn("best"),
        *(TableColumn(name, number=True) for name in ranking.generators),
    ]
    rows: list[list[Cell | str]] = [
        [
            each.prompt,
            ", ".join(each.best),
            *(percent(each.rates.get(name)) for name in ranking.generators),
        ]
        for each in ranking.best_of
    ]
    return join(sortable_table("Prompts", columns, rows), remark(BEST_MEANING))


def _not_judged(ranking: Ranking) -> Html:
    lines = [*ranking.left_out, *ranking.failed]
    return element("ul", *(element("li", line) for line in lines)) if lines else Html("")


FORMAT = "vr-thinker-ranking/1"
JSON, HTML = "ranking.json", "ranking.html"


def write_report(ranking: Ranking, out: Path) -> None:
    """Write both files into the folder; those of an earlier ranking are replaced. Raises BadInput where that cannot be done."""
    try:
        _write(
            out / JSON,
            json.dumps(to_json(ranking), ensure_ascii=False, indent=1, allow_nan=False) + "\n",
        )
        _write(out / HTML, render_ranking(ranking))
    except OSError as error:
        raise BadInput(
            f"Cannot write to {encodable(str(out))}: {error.strerror or error}."
        ) from None


def to_json(ranking: Ranking) -> dict[str, Any]:
    """The ranking as plain JSON values; None where nothing was said."""
    return {"format": FORMAT, **asdict(ranking)}


def _write(path: Path, text: str) -> None:
    write_atomically(path, encodable(text).encode())
