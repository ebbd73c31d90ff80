"""The page in a real browser: two clips, a run, its turns and verdict; stopping, closing the page, and other visitors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import PATIENCE_S, until, until_equal
from tests.ui.conftest import PHONE, Server, within
from tests.ui.sessions.test_sessions import files
from vrthinker_core.ui.view import words

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]

THINK = (
    "The block glides in both; video 2 shows it slower, and `${alert(1)}` <b>stays text</b>. " * 3
)
ASK = (
    f"<Snapshot>A block on a coloured field.</Snapshot><Think>{THINK}</Think>"
    '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30, 60, 90, 140]}}</tool_call>'
)
ANSWER = f"<Snapshot>It stays whole.</Snapshot><Think>{THINK}</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
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
ENDLESS = "<Think>" + "on and on and on " * 20_000


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve([ASK, ANSWER], protocol="paired", pause=0.01)


@pytest.fixture(scope="module")
def endless(serve: Callable[..., Server]) -> Server:
    return serve([ENDLESS], protocol="paired", pause=0.05)


def fill(page: Page, clips: Clips, prompt: str = "A white block glides to the right.") -> None:
    for name, clip in zip(("first", "second"), clips, strict=True):
        page.locator(f"#{name} input[type=file]").set_input_files(str(clip))
    for name in ("first", "second"):
        page.wait_for_function(
            "name => document.querySelector(`#${name} video`)?.readyState >= 1", arg=name
        )
    page.locator("#prompt textarea").fill(prompt)


def status(page: Page) -> str:
    return page.locator("#status textarea").input_value()


def wait_for(page: Page, pattern: str) -> None:
    """Until the page's status line says that."""
    end = time.monotonic() + PATIENCE_S
    while not re.search(pattern, said := status(page)):
        assert time.monotonic() < end, (
            f"not within {PATIENCE_S} s: {pattern!r}; the page says {said!r}"
        )
        page.wait_for_timeout(30)


def wait_until_said(page: Page, pattern: str) -> None:
    """Until the status line has said that, be it gone again since."""
    page.wait_for_function(
        "pattern => window.statusSaid.some(text => RegExp(pattern).test(text))", arg=pattern
    )


def start(page: Page, clips: Clips) -> None:
    fill(page, clips)
    page.locator("#go").click()


def text_of(page: Page) -> str:
    return page.locator(".vrt-text").first.inner_text()


@pytest.mark.parametrize(
    "screen", [{}, PHONE, {"color_scheme": "dark"}], ids=["desktop", "phone", "dark"]
)
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


def test_a_tile_moves_both_players_to_its_moment(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    page.locator(".vrt-tile").nth(6).click()
    page.wait_for_timeout(300)
    read = "['first', 'second'].map(name => document.querySelector(`#${name} video`).currentTime)"
    slot_60 = [(22 + 0.5) / 24, (14 + 0.5) / 24]  # of 48 and of 30 frames
    until_equal(lambda: page.evaluate(read), pytest.approx(slot_60, abs=0.001))
    assert "index 60 of 127" in page.locator(".vrt-time").inner_text()


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
    page.locator("#stop").click()
    wait_for(page, "Stopped")


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


def test_a_second_visitor_sees_the_place_in_the_queue(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    first, second = open_page(endless.url), open_page(endless.url)
    start(first, clips)
    first.wait_for_selector(".vrt-text p")
    start(second, clips)
    wait_for(second, "You are second; one comparison is before yours.")
    assert second.locator(".vrt-turn").count() == 0
    first.locator("#stop").click()
    second.wait_for_selector(".vrt-text p")
    second.locator("#stop").click()
    wait_for(second, "Stopped")


def test_a_waiting_visitor_can_leave_the_queue(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    first, second = open_page(endless.url), open_page(endless.url)
    start(first, clips)
    first.wait_for_selector(".vrt-text p")
    start(second, clips)
    wait_for(second, "You are second")
    second.locator("#stop").click()
    second.locator("#go").wait_for(state="visible")
    wait_for(second, words.READY_TO_COMPARE)
    first.locator("#stop").click()
    wait_for(first, "Stopped")
    second.wait_for_timeout(500)
    assert second.locator(".vrt-turn").count() == 0


def test_many_pages_of_one_browser_leave_room_for_their_requests(
    server: Server, open_page: Open
) -> None:
    context = open_page(server.url).context
    for _ in range(7):  # a browser keeps six connections open to a server
        page = context.new_page()
        page.goto(server.url)
        page.wait_for_selector("#rail .vrt-track", state="attached")
    assert page.evaluate("fetch('/gradio_api/info').then((answer) => answer.ok)")


def test_a_missing_video_or_prompt_is_named(server: Server, open_page: Open, clips: Clips) -> None:
    page = open_page(server.url)
    page.locator("#go").click()
    wait_for(page, "needs two videos")
    fill(page, clips, prompt="")
    page.locator("#go").click()
    wait_for(page, "prompt is empty")
    page.locator("#go").wait_for(state="visible")


def test_the_page_names_the_judge_and_its_notes(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    page.wait_for_selector(".vrt-notes li")
    assert page.locator(".vrt-judge").inner_text() == "Judge: script"
    assert "A script replies, not a model." in page.locator(".vrt-notes").first.inner_text()


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
