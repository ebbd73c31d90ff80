"""Status and Stop stay in sight while a run goes on, also where the turns have pushed the run's own out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import PHONE, Server
from tests.ui.page.test_page import ENDLESS, start, status, wait_for

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]
LAST_WORD_IS_FREE = """() => {
    const range = document.createRange();
    range.selectNodeContents([...document.querySelectorAll(".vrt-text p")].at(-1));
    const last = [...range.getClientRects()].at(-1);
    const at = document.elementFromPoint(last.right - 2, (last.top + last.bottom) / 2);
    return Boolean(at && at.closest(".vrt-text"));
}"""


@pytest.fixture(scope="module")
def endless(serve: Callable[..., Server]) -> Server:
    return serve([ENDLESS], protocol="paired", pause=0.05)


@pytest.mark.parametrize(
    "screen", [PHONE, {"viewport": {"width": 844, "height": 390}}], ids=["phone", "landscape"]
)
def test_stop_and_status_stay_in_sight_and_cover_no_words(
    endless: Server, open_page: Open, clips: Clips, screen: dict[str, Any]
) -> None:
    page = open_page(endless.url, **screen)
    bar = page.get_by_role("group", name="The run that goes on")
    expect(bar).to_have_count(0)
    start(page, clips)
    stop = bar.get_by_role("button", name="Stop")
    expect(stop).to_be_in_viewport(ratio=1)
    expect(page.locator("#stop")).not_to_be_in_viewport()
    until(lambda: bar.locator("span").inner_text() == status(page) != "")
    until(lambda: page.evaluate(LAST_WORD_IS_FREE))
    box = stop.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= 44
    assert bar.locator("[role=status], [aria-live]").count() == 0, "the status is announced once"
    stop.focus()
    page.keyboard.press("Enter")
    wait_for(page, "^Stopped")
    expect(bar).to_have_count(0)
    expect(page.locator("#go")).to_be_focused()


def test_where_the_runs_own_stop_is_in_sight_there_is_no_other(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url, **PHONE)
    start(page, clips)
    bar = page.get_by_role("group", name="The run that goes on")
    expect(bar).to_be_visible()
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator("#stop")).to_be_in_viewport()
    expect(bar).to_have_count(0)
    page.locator("#stop").click()
    wide = open_page(endless.url)
    start(wide, clips)
    wide.wait_for_function("window.scrollY > 0")
    expect(wide.locator("#stop")).to_be_in_viewport()
    expect(wide.locator(".vrt-stop-bar")).to_be_hidden()
    wide.locator("#stop").click()
