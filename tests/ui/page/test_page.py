"""The page in a real browser: two clips, a run, its turns and verdict; stopping, closing the page, and other visitors."""

from __future__ import annotations

import re

import pytest

from tests.support.waiting import until, until_equal
from tests.ui.conftest import PHONE, Serve, Server, within
from tests.ui.sessions.test_sessions import files
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.saved_examples import SCRIPT, THINK
from tests.ui.support.steps import start, status, tab, wait_for, wait_until_said

pytestmark = pytest.mark.browser


MILLISECONDS_TO_STOP = """() => new Promise((resolve) => {
    const began = performance.now();
    const look = () => {
        const ending = document.querySelector(".vrt-ending");
        if (ending && ending.checkVisibility()) resolve(performance.now() - began); else setTimeout(look, 5);
    };
    document.querySelector("#stop").click();
    look();
})"""
"""Milliseconds from the click on Stop until the page shows the ending, by the browser's own clock."""


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve(SCRIPT, protocol="paired", pause=0.01)


def text_of(page: Page) -> str:
    return page.locator(".vrt-text").first.inner_text()


@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desktop", "phone"])
def test_a_run_shows_turns_and_verdict(
    server: Server, open_page: Open, clips: Clips, screen: dict[str, object]
) -> None:
    page = open_page(server.url, **screen)
    start(page, clips)
    wait_until_said(page, "^Turn 1 of 6")
    page.wait_for_selector(".vrt-tile")
    wait_for(page, "Finished after 2 turns")
    assert page.locator(".vrt-headline").inner_text() == "Video 1 is better overall"
    said = page.locator(".vrt-chip b").all_inner_texts()
    assert said == ["Video 1", "Video 1", "Video 2", "No difference found"]
    assert page.locator(".vrt-turn").count() == 2
    assert page.locator(".vrt-tile").count() == page.locator(".vrt-mark").count() == 8
    page.evaluate(
        "document.querySelectorAll('.vrt-tile img').forEach((image) => { image.loading = 'eager'; })"
    )
    page.wait_for_function(
        "[...document.querySelectorAll('.vrt-tile img')].every(i => i.complete && i.naturalWidth > 0)"
    )
    assert THINK.strip() in page.locator(".vrt-text").first.inner_text()
    assert "140" in page.locator(".vrt-remarks").first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#go").wait_for(state="visible")


def test_stop_ends_the_run_at_once_and_keeps_everything(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url)
    start(page, clips)
    page.wait_for_selector(".vrt-text p")
    assert page.evaluate(MILLISECONDS_TO_STOP) < 5_000, "the judge would go on for minutes"
    assert status(page).startswith("Stopped after 1 turn")
    text = text_of(page)
    page.wait_for_timeout(500)
    assert "on and on" in text
    assert text_of(page) == text
    assert page.locator(".vrt-headline").inner_text().startswith("No verdict")
    page.locator("#go").click()
    wait_for(page, "writing")
    tab(page, "Frames")
    expect(page.locator("#frames .vrt-tile img")).to_have_count(8)
    page.locator("#stop").click()
    wait_for(page, "Stopped")
    expect(page.locator("#frames .vrt-tile img")).to_have_count(8)


@pytest.mark.parametrize("leave", ["reload", "close"])
def test_reloading_or_closing_the_page_stops_the_judge(
    endless: Server, open_page: Open, clips: Clips, leave: str
) -> None:
    page = open_page(endless.url)
    start(page, clips)
    page.wait_for_selector(".vrt-text p")
    traces = [path for path in files(endless.folder) if path.name == "trace.json"]
    assert traces
    if leave == "reload":
        page.reload()
        page.wait_for_selector("#rail .vrt-track", state="attached")
        assert page.locator("#go").is_visible()
    else:
        page.close()
    with within(10):
        until(lambda: not any(path.exists() for path in traces))
    another = open_page(endless.url)
    start(another, clips)
    another.wait_for_selector(".vrt-text p")
    another.locator("#stop").click()
    wait_for(another, "Stopped")


def test_many_pages_of_one_browser_leave_room_for_their_requests(
    server: Server, open_page: Open
) -> None:
    context = open_page(server.url).context
    for _ in range(7):  # a browser keeps six connections open to a server
        page = context.new_page()
        page.goto(server.url)
        page.wait_for_selector("#rail .vrt-track", state="attached")
    assert page.evaluate("fetch('/gradio_api/info').then((answer) => answer.ok)")


def test_keys_move_the_players(server: Server, open_page: Open, clips: Clips) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    keys = page.evaluate(
        "[...document.querySelectorAll('#rail [aria-keyshortcuts]')].map((e) => [e.ariaKeyShortcuts, e.title])"
    )
    assert [key for key, _ in keys] == [", . Home End", "Space", "ArrowLeft", "ArrowRight"]
    assert all(
        re.search(sign, title)
        for (_, title), sign in zip(keys, ("Comma", "Space", "←", "→"), strict=True)
    )
    page.locator("h1").click()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.locator(".vrt-time").inner_text().startswith("index 10 of 127 ·")
    page.keyboard.press(".")
    page.wait_for_timeout(200)
    read = "document.querySelector('#first video').currentTime"
    until_equal(lambda: page.evaluate(read), pytest.approx((3 + 1.5) / 24, abs=0.001))
    page.keyboard.press("Space")
    page.wait_for_function(
        "!document.querySelector('#first video').paused && !document.querySelector('#second video').paused"
    )
    page.keyboard.press("Space")
    page.wait_for_function(
        "document.querySelector('#first video').paused && document.querySelector('#second video').paused"
    )
