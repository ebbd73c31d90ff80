"""What reports are made of: nothing that was written by others becomes markup, and each file is whole in itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.evaluation.support.made_results import simulate
from tests.test_cli import call
from vrthinker_core.evaluation.behaviour import ProbabilityBin
from vrthinker_core.evaluation.html import (
    WIDTH,
    Bar,
    Cell,
    element,
    histogram,
    interval_bars,
    number,
    percent,
    reliability_plot,
    render_page,
    sortable_table,
)
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.evaluation.write_report import write_report
from vrthinker_core.results.result import RESULTS, EvaluationRun, PairResult, to_line, write_run
from vrthinker_core.types import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "</script></td><script>alert(1)</script>\" onload='x' \x00\x1b[31m \ud800 &lt; ‮"


def element_names(page: str) -> list[str]:
    """The elements of a page by name, as a browser would read them."""
    names: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: names.append(tag)  # type: ignore[method-assign]
    parser.feed(page)
    return names


def test_text_never_becomes_markup() -> None:
    made = element("td", HOSTILE, title=HOSTILE)
    assert element_names(made) == ["td"]
    assert "\x00" not in made
    assert made.encode("utf-8")
    assert ElementTree.fromstring(made).text.startswith("</script></td><script>")  # type: ignore[union-attr]


def test_a_page_asks_for_nothing_and_allows_nothing() -> None:
    page = render_page(
        HOSTILE, element("p", HOSTILE), [("First part", element("p", HOSTILE)), ("Nothing", "")]
    )
    assert element_names(page).count("script") == 1
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert 'href="#first-part"' in page
    assert 'id="first-part"' in page
    assert "Nothing" not in page
    assert "style=" not in page, "the policy would refuse it"
    page.encode("utf-8")


def test_a_table_has_buttons_and_values_to_sort_by() -> None:
    table = sortable_table(
        "Judges", ("judge", "tau"), [["b", percent(2 / 3)], [HOSTILE, percent(None)]]
    )
    assert element_names(table).count("button") == 2
    assert f'data-value="{2 / 3!r}"' in table
    assert ">66.7 %<" in table
    assert table.count('scope="row"') == 2
    assert table.count("data-value") == 1, "what is not known has no value, and sorts last"
    assert sortable_table("Nothing", ("judge",), []) == ""
    assert number(1234.5, 1) == Cell("1,234.5", 1234.5)
    assert number(-0.0012, 2) == Cell("0.00", -0.0012)


BINS = ProbabilityBin(0.5, 0.6, 10, 0.5, 0.4), ProbabilityBin(0.9, 1.0, 1, 0.9, 1.0)


def plots_of(label: str) -> list[str]:
    return [
        interval_bars(label, [Bar(label, 0.5, 0.25, 0.75), Bar("always tie", 1.0, plain=True)]),
        interval_bars(label, [Bar(label, -0.1, -0.2, 0.0)], span=(-0.5, 0.5), unit="points"),
        histogram(label, [(label, 3), ("2", 0)]),
        reliability_plot(label, BINS),
    ]


@pytest.mark.parametrize("position", range(4))
def test_plots_are_well_formed_whatever_stands_in_them(position: int) -> None:
    ElementTree.fromstring(plots_of("plain")[position])
    assert "script" not in element_names(plots_of(HOSTILE)[position])


def test_bars_lie_within_their_plot_and_in_proportion() -> None:
    svg = ElementTree.fromstring(
        interval_bars("tau", [Bar("a", 0.25), Bar("b", 0.5), Bar("c", 7.0)])
    )
    widths = [
        float(bar.attrib["width"]) for bar in svg.iter("rect") if bar.attrib["class"] == "bar"
    ]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.02)
    assert (
        max(float(bar.attrib["x"]) + float(bar.attrib["width"]) for bar in svg.iter("rect"))
        <= WIDTH
    )


pytestmark = pytest.mark.browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page of a phone, which fails the test where a script or a style is refused, or anything is fetched."""
    opened = chromium.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "request",
        lambda request: (
            complaints.append(request.url) if not request.url.endswith(".html") else None
        ),
    )
    yield opened
    opened.close()
    assert complaints == []


def test_tables_sort_both_ways_and_say_so(page: Page, tmp_path: Path) -> None:
    rows = [["b10", number(2.0)], ["b9", number(None)], ["a", number(10.0)], ["c", number(-1.5, 1)]]
    (tmp_path / "table.html").write_text(
        render_page("t", "", [("s", sortable_table("c", ("name", "value"), rows))]), "utf-8"
    )
    page.goto((tmp_path / "table.html").as_uri())
    names, value = page.get_by_role("button").all()
    seen = [([row.inner_text() for row in page.locator("tbody th").all()], None)]
    for button in (value, value, names, names):
        button.click()
        order = [row.inner_text() for row in page.locator("tbody th").all()]
        seen.append((order, page.locator("thead th[aria-sort]").get_attribute("aria-sort")))
    assert seen == [
        (["b10", "b9", "a", "c"], None),
        (["a", "b10", "c", "b9"], "descending"),
        (["c", "b10", "a", "b9"], "ascending"),
        (["a", "b9", "b10", "c"], "ascending"),
        (["c", "b10", "b9", "a"], "descending"),
    ]


def test_a_report_fits_a_phone_and_a_desk_and_asks_for_nothing(page: Page, tmp_path: Path) -> None:
    rows = simulate(120, 40)
    page.goto(write_report(tmp_path, summarize(rows), rows).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 15, 15)"
    assert page.locator("svg").count() >= 10
    page.set_viewport_size({"width": 1280, "height": 900})
    cut = "[...document.querySelectorAll('.scroll:not(.tall)')].filter((part) => part.scrollWidth > part.clientWidth)"
    assert page.evaluate(f"{cut}.length") == 0


def keep(folder: Path, results: list[PairResult], dataset: str | None = None) -> Path:
    folder.mkdir()
    (folder / RESULTS).write_bytes(b"".join(map(to_line, results)))
    if dataset:
        write_run(
            folder, EvaluationRun(dataset, "data", len(results), "digest", "nano", Settings())
        )
    return folder


def test_one_folder_gives_a_report(tmp_path: Path) -> None:
    rows = simulate(60, 20)
    folder = keep(tmp_path / "run", rows, "genai-bench")
    code, out, error = call("report", folder)
    assert (code, error) == (0, "")
    assert "compared with “always tie”" in " ".join(out.split())
    assert str(folder / "report.html") in out.replace("\n", "")
    told = json.loads((folder / "report.json").read_text("utf-8"))["summary"]
    assert told == json.loads(json.dumps(asdict(summarize(rows, data_set="genai-bench")))), (
        "what was kept says what was judged"
    )


def test_a_pair_that_was_judged_again_counts_once(tmp_path: Path) -> None:
    rows = simulate(40, 20)
    folder = keep(tmp_path / "run", [*simulate(40, 20, seed=1), *rows])
    again = keep(tmp_path / "again", rows)
    call("report", folder)
    call("report", again)
    assert (folder / "report.json").read_bytes() == (again / "report.json").read_bytes()


def test_two_folders_give_a_comparison(tmp_path: Path) -> None:
    folders = [keep(tmp_path / name, simulate(60, 20, name=name)) for name in ("one", "two")]
    code, out, error = call("report", *folders)
    assert (code, error) == (0, "")
    assert "McNemar" in out
    assert (folders[0] / "comparison.html").is_file()
    assert not (folders[1] / "comparison.html").exists()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "holds no results.jsonl"), (b"", "no result"), (b"{}\n", "Line 1")],
)
def test_what_is_no_evaluation_is_one_sentence(
    content: bytes | None, sentence: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / RESULTS).write_bytes(content)
    code, out, error = call("report", tmp_path)
    assert (code, out) == (2, "")
    assert sentence in error
    assert len(error.splitlines()) == 1
