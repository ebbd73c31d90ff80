"""A ranking as one HTML file and as JSON."""

from dataclasses import asdict
from pathlib import Path

import numpy as np

from vrthinker_core.evaluation.html import (
    Bar,
    Html,
    HtmlRow,
    element,
    image,
    interval_bars,
    join,
    number,
    paragraph,
    percent,
    plots,
    rectangle,
    remark,
    render_page,
    scrolling,
    sortable_table,
    svg_text,
    write_page,
)
from vrthinker_core.evaluation.rankings import DimensionRanking, Ranking
from vrthinker_core.types import Dimension
from vrthinker_core.types.wording import DIMENSION_NAMES
from vrthinker_core.words import encodable


def write_report(ranking: Ranking, out: Path) -> None:
    """Write HTML and JSON into the folder, replacing an earlier ranking's. Raises BadInput."""
    values = {"format": "vr-thinker-ranking/1", **asdict(ranking)}
    failed = f"Cannot write to {encodable(str(out))}"
    write_page(out / "ranking.html", _page(ranking), values, failed)


def _page(ranking: Ranking) -> str:
    best: list[HtmlRow] = [
        [
            each.prompt,
            ", ".join(each.best),
            *(percent(each.rates.get(g)) for g in ranking.generators),
        ]
        for each in ranking.best_of
    ]
    meaning = "Win rates of a prompt's videos against one another, overall."
    table = sortable_table("Prompts", ("prompt", "best", *ranking.generators), best)
    left = [element("li", line) for line in (*ranking.left_out, *ranking.failed)]
    sections = [(DIMENSION_NAMES[each], _dimension(ranking.dimensions[each])) for each in Dimension]
    overall = sections.pop(list(Dimension).index(Dimension.OA))
    return render_page(
        "Ranking of video generators",
        join(*map(paragraph, ranking.summary(0))),
        [
            overall,
            ("Best of each prompt", join(table, remark(meaning)) if best else ""),
            *sections,
            ("Not judged", element("ul", *left) if left else ""),
        ],
    )


def _dimension(found: DimensionRanking) -> Html:
    rows: list[HtmlRow] = []
    bars = []
    for row in found.strengths:
        pairs, ends = row.all_pairs, row.interval or ()
        rows.append(
            [
                row.generator,
                number(row.place) if found.stands_apart(row) else "",
                *(number(value, 2) for value in (row.strength, *(ends or (None, None)))),
                percent(pairs.rate),
                *(number(value, 1) for value in (pairs.wins, pairs.ties, pairs.losses)),
                number(row.without_video),
            ]
        )
        if row.strength is not None:
            low, high = map(_chance, ends) if ends else (None, None)
            bars.append(Bar(row.generator, _chance(row.strength), low, high))
    if not bars:
        return Html("")
    counts = ("win rate", "wins", "ties", "losses", "no video")
    parts = [
        sortable_table(
            "Generators, the strongest first",
            ("generator", "place", "strength", "from", "to", *counts),
            rows,
        ),
        remark(
            "Strengths are natural logarithms with mean 0, by Bradley and Terry's model with ties; "
            "intervals are 95 %, over prompts. A bar is the share of decided pairs that the "
            "generator would win against one of average strength."
        ),
        plots(interval_bars("Against a generator of average strength", bars, origin=0.5)),
        _win_matrix(found),
        remark(
            "Win rate of the row against the column in per cent, a tie as half a win; empty where "
            "nothing was said."
        ),
    ]
    if found.cycles:
        shown = 20
        cycles: list[HtmlRow] = [
            [" beats ".join((*cycle.generators, cycle.generators[0])), percent(cycle.share)]
            for cycle in found.cycles[:shown]
        ]
        more = len(found.cycles) - shown
        parts += [
            element("h3", "Cycles"),
            sortable_table("The surest first", ("cycle", "holds in"), cycles),
            remark(f"There are {more} more.") if more > 0 else Html(""),
            remark(
                "The share says in how many resamplings of the prompts the whole cycle holds. "
                "Strengths cannot show a cycle."
            ),
        ]
    return join(*parts)


def _chance(strength: float) -> float:
    return float(1 / (1 + np.exp(-strength)))


def _win_matrix(found: DimensionRanking) -> Html:
    label, side = 190, 46  # width of the labels and side of a cell, in CSS pixels
    names = [row.generator for row in found.strengths]
    heads, rows, cells = [], [], []
    for i, name in enumerate(names):
        middle = side * (i + 0.5)
        heads.append(svg_text(str(i + 1), label + middle, side - 8, "middle", "figures"))
        rows.append(svg_text(f"{i + 1} {name}", 0, side + middle + 5))
        for j, cell in enumerate(found.matrix[i]):
            if i == j or cell.rate is None:
                continue
            left, top, inner = label + side * j, side * (i + 1), side - 4
            tall = inner * cell.rate
            told = (
                f"{name} against {names[j]}: {cell.wins:g} won, {cell.ties:g} tied, "
                f"{cell.losses:g} lost"
            )
            share = f"{100 * cell.rate:.0f}"
            cells.append(
                element(
                    "g",
                    element("title", told),
                    rectangle(left, top, inner, inner, "ground"),
                    rectangle(left, top + inner - tall, inner, tall, "bar", fill_opacity=0.45),
                    svg_text(share, left + inner / 2, top + inner / 2 + 5, "middle"),
                )
            )
    title = "Win matrix: row against column"
    width, height = label + side * len(names), side * (len(names) + 1)
    svg = image(title, width, height, *heads, *rows, *cells)
    return scrolling(title, element("p", title, class_="remark"), svg)
