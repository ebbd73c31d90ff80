"""An evaluation on the page, in a real browser: filters, rows with and without their videos, the way back, a folder that grows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import PHONE, Server
from tests.ui.page.test_accessibility import serious_violations
from tests.ui.page.test_saved_runs import tab, video_files
from tests.ui.runs.drawn_results import append_result, kinds, result, write_results
from tests.ui.support.saved_examples import SCRIPT, write_example
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result import result_of
from vrthinker_core.results.result_file import TRACES
from vrthinker_core.traces import load
from vrthinker_core.types import Preference, Verdict

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]
HOSTILE = "<img src=x onerror=alert(1)> ${alert(2)} {{value}}"
ROWS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty rows: the first with its videos at hand, the seventh never judged, the eighth with a hostile prompt."""
    folder = tmp_path_factory.mktemp("evaluation")
    rows = [*kinds(), result(8, prompt=HOSTILE), *(result(row) for row in range(9, ROWS + 1))]
    write_results(folder, rows[1:])
    example = write_example(folder / "clips")
    file, trace = f"{TRACES}/judged.json", load(example / "trace.json")
    pair = EvaluationPair(
        "first", 1, trace.started.prompt, str(example / "first.mp4"), str(example / "second.mp4")
    )
    pair = replace(
        pair, labels=Verdict(OA=Preference.SECOND), first_generator="Left", second_generator="Right"
    )
    (example / "trace.json").rename(folder / file)
    append_result(folder, result_of(pair, trace, file))
    return folder


@pytest.fixture(scope="module")
def server(
    serve: Callable[..., Server], folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Server:
    examples = tmp_path_factory.mktemp("examples")
    return serve(SCRIPT, "--examples", str(examples), "--runs", str(folder), protocol="paired")


def open_list(open_page: Open, server: Server, **options: object) -> Page:
    page = open_page(server.url, **options)
    tab(page, "Evaluation")
    expect(page.locator(".vrt-open-row").first).to_be_visible()
    return page


def expect_rows(page: Page, summary: str, numbers: list[str]) -> None:
    """The list comes to say this of itself, and to show the rows of these numbers."""
    expect(page.locator(".vrt-row-number")).to_have_text(numbers)
    expect(page.locator(".vrt-row-line [role=status]")).to_have_text(summary)


def shown_row(page: Page, place: str) -> None:
    expect(page.locator(".vrt-row-place")).to_contain_text(place)
    expect(page.locator(".vrt-headline")).to_be_visible()


def test_filters_search_and_pages(server: Server, open_page: Open) -> None:
    page = open_list(open_page, server, color_scheme="dark", bypass_csp=True)
    axe = (
        resources.files(pytest.importorskip("axe_playwright_python"))
        .joinpath("axe.min.js")
        .read_text("utf-8")
    )
    expect_rows(page, "50 rows", [str(row) for row in range(1, 41)])
    assert serious_violations(page, axe) == []
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.locator(".vrt-row-pages")).to_contain_text("Page 2 of 2")
    expect_rows(page, "50 rows", [str(row) for row in range(41, 51)])
    expect(
        page.get_by_role("button", name="Next", exact=True)
    ).to_be_focused()  # though there is no further page
    page.get_by_role("button", name="Disagrees overall").click()
    expect_rows(page, "2 of 50 rows", ["1", "2"])
    expect(page.get_by_role("button", name="Flips when swapped")).to_be_disabled()
    assert serious_violations(page, axe) == []
    page.get_by_role("button", name="Disagrees overall").click()
    page.get_by_role("button", name="Failed").click()
    expect_rows(page, "1 of 50 rows", ["7"])
    expect(page.locator(".vrt-row-error")).to_have_text("There is no file a.mp4.")
    expect(page.locator(".vrt-open-row")).to_have_count(0)
    page.get_by_role("button", name="Failed").click()
    page.get_by_role("searchbox").fill("onerror")
    expect_rows(page, "1 of 50 rows", ["8"])
    assert page.locator(".vrt-open-row [dir=auto]").count() == 1
    expect(page.locator(".vrt-open-row")).to_contain_text(HOSTILE)
    page.locator(".vrt-open-row").click()
    shown_row(page, "Row 8 · 1 of 1")


def test_a_label_that_flips_shows_no_winner(server: Server, open_page: Open) -> None:
    page = open_list(open_page, server)
    row = page.locator(".vrt-rows > li").nth(5)
    expect(row.locator(".vrt-row-labels tr").nth(1).locator("td")).to_have_text(
        ["flips", "1", "2", "tie"]
    )
    expect(row.locator(".vrt-v1, .vrt-v2")).to_have_text(["1", "2"])
    expect(row.locator(".vrt-row-facts")).to_contain_text("flips when swapped: OA")
    expect(row.locator(".vrt-row-facts")).not_to_contain_text("probability")
    expect(page.locator(".vrt-row-read")).not_to_contain_text("swap")


def test_a_filter_that_matches_nothing_any_more_keeps_the_focus(
    server: Server, open_page: Open
) -> None:
    page = open_list(open_page, server)
    chip = page.get_by_role("button", name="Failed")
    chip.click()
    expect_rows(page, "1 of 50 rows", ["7"])
    page.get_by_role("searchbox").fill("onerror")
    expect(chip).to_contain_text("0")
    chip.press("Enter")
    expect_rows(page, "1 of 50 rows", ["8"])
    expect(chip).to_be_focused()
    chip.press("Enter")
    expect(chip).to_have_attribute("aria-pressed", "false")


def test_six_tabs_fit_the_narrowest_screen(server: Server, open_page: Open) -> None:
    page = open_list(open_page, server, viewport={"width": 320, "height": 640}, is_mobile=True)
    right = "node => node.getBoundingClientRect().right"
    assert page.locator("#run").evaluate(right) <= page.locator("#stage").evaluate(right)
    for name in ("Trace", "Evaluation"):
        expect(page.get_by_role("tab", name=name).first).to_be_in_viewport(
            ratio=0.98
        )  # but for a part of a pixel


def test_a_row_opens_with_its_videos_and_leads_on(server: Server, open_page: Open) -> None:
    page = open_list(open_page, server)
    page.locator(".vrt-open-row").first.click()
    shown_row(page, "Row 1 · 1 of 50 · Left · Right")
    expect(page).to_have_url(f"{server.url}?trace=row-first")
    expect(page.locator("#second video")).to_be_visible()
    assert [Path(file).name for file in video_files(page)] == ["first.mp4", "second.mp4"]
    differing = page.locator(".vrt-run-bar .vrt-label-differs")
    expect(differing).to_have_text(["1", "2"])
    expect(differing.first).to_have_css(
        "outline-style", "solid"
    )  # where colours are forced, no shadow and no ground is drawn
    page.get_by_role("button", name="Next row").click()
    shown_row(page, "Row 2 · 2 of 50")
    expect(page.locator("#first .vrt-still img")).to_be_visible()
    assert video_files(page) == ["", ""]
    page.go_back()
    shown_row(page, "Row 1 · 1 of 50")
    expect(page.locator("#first video")).to_be_visible()
    page.go_back()
    expect(page.locator(".vrt-run-bar")).to_be_hidden()
    page.go_forward()
    shown_row(page, "Row 1 · 1 of 50")
    visitor = open_page(page.url)
    shown_row(visitor, "Row 1 · 1 of 50")
    expect(visitor.locator("#second video")).to_be_visible()


def test_new_rows_come_with_a_refresh_and_fit_a_phone(
    server: Server, open_page: Open, folder: Path
) -> None:
    page = open_list(open_page, server, **PHONE)
    before = int(re.sub(r"\D", "", page.locator(".vrt-row-line [role=status]").inner_text()))
    write_results(folder, [result(before + 1, prompt="W" * 300)])
    page.get_by_role("button", name="Refresh").click()
    expect_rows(page, f"{before + 1} rows", [str(row) for row in range(1, 41)])
    page.locator("#evaluation select").select_option("unsure")
    expect(page.locator(".vrt-row-number").first).to_have_text("4")
    page.get_by_role("searchbox").fill("WWWW")
    expect_rows(page, f"1 of {before + 1} rows", [str(before + 1)])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".vrt-open-row").click()
    shown_row(page, f"Row {before + 1} · 1 of 1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
