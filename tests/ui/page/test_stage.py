"""The stage: what is in the first screen while a run goes on and after it, and what moves the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Server
from tests.ui.page.test_page import ENDLESS, fill, start, wait_for
from tests.ui.support.held_stream import hold_when, open_held, release, wait_until_held
from tests.ui.support.saved_examples import THINK
from vrthinker_core.dialects.sanitize import MAX_PROMPT

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]

SCREENS: dict[str, dict[str, Any]] = {
    "1440": {"viewport": {"width": 1440, "height": 900}},
    "1024": {"viewport": {"width": 1024, "height": 768}},
    "390": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
WORDS = f"<Think>{THINK * 2} Frames 16 and 80 show video 1 as a whole.</Think>"
CALL = '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30, 60, 90]}}</tool_call>'
REASONS = (
    "TA: both show a block. VQ: video 2 is sharper at frame 30. MQ: the motion of both is smooth. "
    "Overall video 1 is better at frame 60."
)
ANSWER = f"<Think>{REASONS}</Think><Answer>TA=0, VQ=2, MQ=0, OA=1</Answer>"
SOME_WORDS = "[...document.querySelectorAll('.vrt-turn:nth-child({}) .vrt-text')].map((e) => e.textContent).join('').length > 200"
"""In all passages of a turn: the first alone may be shorter once it is over, and a busy server sends few states between."""
IN_VIEW = """(node) => {
    const box = node.getBoundingClientRect();
    const line = document.querySelector("#rail .vrt-line");
    const sticky = getComputedStyle(line).position === "sticky";
    const top = sticky ? Math.max(0, line.getBoundingClientRect().bottom) : 0;
    return box.height > 0 && box.top >= top - 1 && box.bottom <= innerHeight + 1;
}"""
LAST_WORD_IN_VIEW = """() => {
    const passages = document.querySelectorAll(".vrt-turn:last-child .vrt-text p");
    const range = document.createRange();
    range.selectNodeContents(passages[passages.length - 1]);
    const boxes = [...range.getClientRects()];
    const last = boxes[boxes.length - 1];
    return last.top >= 0 && last.bottom <= innerHeight;
}"""
PLAYERS_IN_VIEW = """() => ["first", "second"].every((name) => {
    const box = document.querySelector(`#${name}`).getBoundingClientRect();
    return box.top >= -1 && box.bottom <= innerHeight;
})"""


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve(
        [WORDS + CALL, WORDS + CALL.replace("10, 30", "20, 40"), ANSWER],
        protocol="paired",
        pause=0.01,
    )


@pytest.fixture(scope="module")
def endless(serve: Callable[..., Server]) -> Server:
    return serve([ENDLESS], protocol="paired", pause=0.05)


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_the_first_screen_holds_the_newest_words_then_the_verdict(
    server: Server, new_page: Open, clips: Clips, screen: dict[str, Any]
) -> None:
    page = open_held(new_page, server.url, **screen)
    hold_when(page, SOME_WORDS.format(1))
    start(page, clips)
    wait_until_held(page)
    page.wait_for_timeout(600)
    until(lambda: page.locator(".vrt-turn:nth-child(1) .vrt-tile").first.evaluate(IN_VIEW))
    until(lambda: page.evaluate(LAST_WORD_IN_VIEW))
    hold_when(page, SOME_WORDS.format(2))
    wait_until_held(page)
    page.wait_for_timeout(600)
    until(lambda: page.locator(".vrt-turn:nth-child(2) .vrt-tile").last.evaluate(IN_VIEW))
    until(lambda: page.evaluate(LAST_WORD_IN_VIEW))
    until(lambda: page.evaluate(PLAYERS_IN_VIEW))
    release(page)
    wait_for(page, "Finished")
    page.wait_for_timeout(600)
    until(lambda: page.locator(".vrt-headline").evaluate(IN_VIEW))
    for reason in page.locator(".vrt-reason").all():
        until(lambda reason=reason: reason.evaluate(IN_VIEW))  # type: ignore[misc]
    until(lambda: page.evaluate(PLAYERS_IN_VIEW))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def scrolled(page: Page) -> float:
    """How far the page is scrolled, once it stands still."""
    before, after = -1.0, float(page.evaluate("window.scrollY"))
    while before != after:
        page.wait_for_timeout(400)
        before, after = after, float(page.evaluate("window.scrollY"))
    return after


def test_a_reader_who_scrolls_up_is_left_alone(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url, viewport={"width": 1280, "height": 500})
    start(page, clips)
    page.wait_for_function("window.scrollY > 300")
    page.mouse.move(900, 250)
    page.mouse.wheel(0, -250)
    before = scrolled(page)
    length = len(page.locator(".vrt-text").inner_text())
    page.wait_for_function(
        "length => document.querySelector('.vrt-text').innerText.length > length + 200", arg=length
    )
    assert page.evaluate("window.scrollY") == before
    page.locator(".vrt-follow:not([hidden])").dispatch_event("click")
    page.wait_for_timeout(400)
    until(lambda: page.evaluate(LAST_WORD_IN_VIEW))
    page.locator("#stop").click()


def test_what_is_pressed_stays_under_the_pointer_until_it_is_released(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url, viewport={"width": 1280, "height": 500})
    start(page, clips)
    page.wait_for_function("window.scrollY > 300")
    page.mouse.move(900, 250)
    page.mouse.down()
    before = scrolled(page)
    length = len(page.locator(".vrt-text").inner_text())
    page.wait_for_function(
        "length => document.querySelector('.vrt-text').innerText.length > length + 200", arg=length
    )
    assert page.evaluate("window.scrollY") == before
    page.mouse.up()
    page.wait_for_function("before => window.scrollY > before", arg=before)
    until(lambda: page.evaluate(LAST_WORD_IN_VIEW))
    page.locator("#stop").click()


def test_the_verdict_gives_its_reasons_and_their_frames(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    reasons = page.locator(".vrt-chip")
    assert "Overall video 1 is better at frame 60." in reasons.nth(0).inner_text()
    assert reasons.nth(0).locator(".vrt-deciding .vrt-ref").all_inner_texts() == ["#60"]
    assert reasons.nth(1).locator(".vrt-deciding").count() == 0, "it names no frame"
    reasons.nth(2).locator(".vrt-deciding .vrt-ref").click()
    assert "index 30 of 127" in page.locator(".vrt-time").inner_text()
    assert page.locator(".vrt-tile[aria-current]").get_attribute("data-frames") == "30"
    page.locator(".vrt-turn:nth-child(1) .vrt-text .vrt-ref", has_text="80").first.hover()
    assert page.locator(".vrt-tile.lit").get_attribute("data-frames") == "80"
    assert page.locator(".vrt-mark.lit").get_attribute("data-frames") == "80"


def test_a_number_and_its_sign_are_one_link_so_that_no_line_ends_between_them(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url)
    pieces = page.evaluate("VRThinker.pieces('blocky at #16, #48 and frame 3).')")
    assert [text for kind, text, *_ in pieces if kind == "frame"] == ["#16", "#48", "3"]
    assert [kept for _, _, *kept in pieces if kept] == [[","], [")."]]
    assert page.evaluate("VRThinker.drawPiece(['frame', '#16']).dataset.frame") == "16"


LINES_THAT_BEGIN_WITH_PUNCTUATION = """() => {
    const host = document.createElement("div"), place = document.createElement("p");
    host.className = "vrt";
    host.append(place);
    document.body.append(host);
    const found = [];
    for (let width = 60; width < 300; width += 3) {
        place.style.width = `${width}px`;
        place.replaceChildren();
        VRThinker.link(place, "The ball at #16, then at #48. It is (frame 80), and again at #112; so it goes on.");
        const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
        for (let before = null, node = walker.nextNode(); node; before = node, node = walker.nextNode()) {
            if (!before || !/^[,.;)]/.test(node.data)) continue;
            const [last, first] = [[before, before.length - 1], [node, 0]].map(([text, at]) => {
                const range = document.createRange();
                range.setStart(text, at);
                range.setEnd(text, at + 1);
                return range.getBoundingClientRect();
            });
            if (first.top > last.bottom - 4) found.push(`${width}: ${before.data} | ${node.data}`);
        }
    }
    host.remove();
    return found;
}"""


def test_no_line_begins_with_the_punctuation_behind_a_frame(
    server: Server, open_page: Open
) -> None:
    assert open_page(server.url).evaluate(LINES_THAT_BEGIN_WITH_PUNCTUATION) == []


def test_an_edited_prompt_says_that_the_run_judged_another(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    assert not page.locator(".vrt-changed").is_visible()
    page.locator("#prompt textarea").fill("Something else.")
    assert (
        page.locator(".vrt-changed")
        .inner_text()
        .endswith("judged the prompt “A white block glides to the right.”")
    )
    page.locator("#prompt textarea").fill("A white block glides to the right.")
    assert not page.locator(".vrt-changed").is_visible()


def test_of_a_long_prompt_that_was_edited_the_beginning_is_quoted(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    fill(page, clips, prompt="A red ball. " * (MAX_PROMPT // 12))
    page.locator("#go").click()
    wait_for(page, "Finished")
    page.wait_for_timeout(500)  # the page looks once more when Gradio may have written a prompt
    notice = page.locator(".vrt-changed")
    assert not notice.is_visible()
    page.locator("#prompt textarea").fill("Something else.")
    said = notice.inner_text()
    assert said.startswith(
        "These inputs have changed. This run judged the prompt “A red ball. A red ball."
    )
    assert said.endswith("…”.")
    assert len(said) < 200


SCROLL_UNDER_RAIL = """() => {
    const [line, label] = ["#rail .vrt-line", "#prompt [data-testid=block-info]"].map((part) => document.querySelector(part));
    const top = () => label.getBoundingClientRect().top;
    window.scrollBy({ top: top() - parseFloat(getComputedStyle(line).top) - 4, behavior: "instant" });
    const { left, bottom } = label.getBoundingClientRect();
    return Boolean(document.elementFromPoint(left + 4, (top() + bottom) / 2).closest("#rail"));
}"""
"""Scrolls until the prompt's name is where the rail stays, and says whether the rail lies over it."""


def test_what_is_scrolled_goes_under_the_rail_that_stays(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url, **SCREENS["390"])
    start(page, clips)
    wait_for(page, "Finished")
    assert page.evaluate(SCROLL_UNDER_RAIL)


def test_keys_compare_and_keep_the_focus(endless: Server, open_page: Open, clips: Clips) -> None:
    page = open_page(endless.url)
    fill(page, clips)
    page.locator("#prompt textarea").press("Control+Enter")
    wait_for(page, "writing")
    page.locator("#stop").focus()
    page.keyboard.press("Enter")
    wait_for(page, "Stopped")
    page.wait_for_function("document.activeElement.id === 'go'")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'stop'")
    wait_for(page, "writing")
    page.locator("#stop").click()


def test_space_plays_after_a_click_on_a_mark_and_the_ring_follows_the_rail(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    page.locator(".vrt-mark").nth(1).click()
    assert page.locator(".vrt-tile[aria-current]").get_attribute("data-frames") == "48"
    page.keyboard.press("ArrowRight")
    label = page.locator(".vrt-time").inner_text().split()[1]
    assert page.locator(".vrt-tile[aria-current]").get_attribute("data-frames") == label
    page.keyboard.press(" ")
    page.wait_for_function("!document.querySelector('#first video').paused")


def test_videos_of_a_waiting_comparison_cannot_be_swapped(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    running, waiting = open_page(endless.url), open_page(endless.url)
    start(running, clips)
    wait_for(running, "writing")
    start(waiting, clips)
    waiting.wait_for_selector("#stop:visible")
    waiting.wait_for_timeout(500)
    before = waiting.locator("#first video").get_attribute("src")
    waiting.locator("[data-action=swap]").click()
    waiting.wait_for_timeout(800)
    assert waiting.locator("#first video").get_attribute("src") == before
    waiting.locator("#stop").click()
    running.locator("#stop").click()


def test_the_ring_finds_a_tile_whose_frames_have_left_the_judges_view(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url)
    current = page.evaluate("""() => {
        const root = document.createElement("div");
        const half = (gone) => ({ src: "data:,", ratio: 1, at: 1, place: 0.5, ...(gone ? { gone: true } : {}) });
        const tile = (gone) => ({ label: "#64", halves: [half(gone), half(gone)] });
        const turn = (gone) => ({ state: "", foot: "", live: false, tiles: [tile(gone)], parts: [], remarks: [] });
        const view = new VRThinker.Trace(root, { onTile: () => {} });
        view.update({ run: "one", turns: [turn(false)] });
        view.update({ run: "one", turns: [turn(true)] });
        document.dispatchEvent(new CustomEvent("vrt:chosen", { detail: tile(true) }));
        return root.querySelector(".vrt-tile").getAttribute("aria-current");
    }""")
    assert current == "true"
