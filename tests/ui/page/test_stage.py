"""The stage: what is in the first screen while a run goes on and after it, what moves the page, and where Stop stays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import PHONE, Serve, Server
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.held_stream import hold_when, open_held, release, wait_until_held
from tests.ui.support.saved_examples import THINK
from tests.ui.support.steps import fill, start, status, wait_for
from vrthinker_core.protocols.sanitize import MAX_PROMPT

pytestmark = pytest.mark.browser


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
SCROLL_UNDER_RAIL = """() => {
    const [line, label] = ["#rail .vrt-line", "#prompt [data-testid=block-info]"].map((part) => document.querySelector(part));
    const top = () => label.getBoundingClientRect().top;
    window.scrollBy({ top: top() - parseFloat(getComputedStyle(line).top) - 4, behavior: "instant" });
    const { left, bottom } = label.getBoundingClientRect();
    return Boolean(document.elementFromPoint(left + 4, (top() + bottom) / 2).closest("#rail"));
}"""
"""Scrolls until the prompt's name is where the rail stays, and says whether the rail lies over it."""
PLAYERS_IN_VIEW = """() => ["first", "second"].every((name) => {
    const box = document.querySelector(`#${name}`).getBoundingClientRect();
    return box.top >= -1 && box.bottom <= innerHeight;
})"""


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve(
        [WORDS + CALL, WORDS + CALL.replace("10, 30", "20, 40"), ANSWER],
        protocol="paired",
        pause=0.01,
    )


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
        until(lambda reason=reason: reason.evaluate(IN_VIEW))
    until(lambda: page.evaluate(PLAYERS_IN_VIEW))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert screen is SCREENS["1440"] or page.evaluate(SCROLL_UNDER_RAIL)


def scrolled(page: Page) -> float:
    """How far the page is scrolled, once it stands still."""
    before, after = -1.0, float(page.evaluate("window.scrollY"))
    while before != after:
        page.wait_for_timeout(400)
        before, after = after, float(page.evaluate("window.scrollY"))
    return after


def stays_while_the_judge_writes(page: Page) -> float:
    """Where the page stands, which 200 more letters do not change."""
    before = scrolled(page)
    length = len(page.locator(".vrt-text").inner_text())
    page.wait_for_function(
        "length => document.querySelector('.vrt-text').innerText.length > length + 200", arg=length
    )
    assert page.evaluate("window.scrollY") == before
    return before


def test_who_scrolls_up_is_left_alone_and_what_is_pressed_stays_under_the_pointer(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url, viewport={"width": 1280, "height": 500})
    start(page, clips)
    page.wait_for_function("window.scrollY > 300")
    page.mouse.move(900, 250)
    page.mouse.wheel(0, -250)
    stays_while_the_judge_writes(page)
    page.locator(".vrt-follow:not([hidden])").dispatch_event("click")
    page.wait_for_timeout(400)
    until(lambda: page.evaluate(LAST_WORD_IN_VIEW))
    page.mouse.down()
    before = stays_while_the_judge_writes(page)
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


def test_an_edited_prompt_says_how_the_one_began_that_was_judged(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    long = "A red ball. " * (MAX_PROMPT // 12)
    fill(page, clips, prompt=long)
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
    page.locator("#prompt textarea").fill(long)
    assert not notice.is_visible()


RING_OF_A_TILE_THAT_HAS_LEFT = """() => {
    const root = document.createElement("div");
    const half = (gone) => ({ src: "data:,", ratio: 1, at: 1, place: 0.5, ...(gone ? { gone: true } : {}) });
    const tile = (gone) => ({ label: "#64", halves: [half(gone), half(gone)] });
    const turn = (gone) => ({ state: "", foot: "", live: false, tiles: [tile(gone)], parts: [], remarks: [] });
    const view = new VRThinker.Trace(root, { onTile: () => {} });
    for (const gone of [false, true]) view.update({ run: "one", turns: [turn(gone)] });
    document.dispatchEvent(new CustomEvent("vrt:chosen", { detail: tile(true) }));
    return root.querySelector(".vrt-tile").getAttribute("aria-current");
}"""


def test_no_line_begins_with_punctuation_and_the_ring_finds_a_tile_that_has_left_the_view(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url)
    assert page.evaluate(LINES_THAT_BEGIN_WITH_PUNCTUATION) == []
    assert page.evaluate(RING_OF_A_TILE_THAT_HAS_LEFT) == "true"


LAST_WORD_IS_FREE = """() => {
    const range = document.createRange();
    range.selectNodeContents([...document.querySelectorAll(".vrt-text p")].at(-1));
    const last = [...range.getClientRects()].at(-1);
    const at = document.elementFromPoint(last.right - 2, (last.top + last.bottom) / 2);
    return Boolean(at && at.closest(".vrt-text"));
}"""


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
