"""A report in a real browser: its policy lets its own script run, its tables sort, and it fits a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.evaluation.support.made_results import simulate
from vrthinker_core.evaluation.html import number, render_page, sortable_table
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.evaluation.write_report import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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
    tables, cut = (
        "document.querySelectorAll('.scroll:not(.tall)')",
        "scrollWidth > part.clientWidth",
    )
    assert page.evaluate(f"[...{tables}].filter((part) => part.{cut}).length") == 0
