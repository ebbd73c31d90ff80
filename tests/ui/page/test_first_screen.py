"""The first ten seconds: what a page without a run shows, with the examples that come with it."""

from __future__ import annotations

import re

import pytest

from tests.support.waiting import until_equal
from tests.ui.conftest import PHONE, Serve, Server
from tests.ui.support.browsing import Clips, Open, expect
from tests.ui.support.steps import serious_violations, wait_for
from vrthinker_core.ui import words
from vrthinker_core.ui.assets import ASSETS

pytestmark = pytest.mark.browser

MAX_LOOP_BYTES = 1_000_000
CUT_SHORT = "node => node.scrollWidth > node.clientWidth || node.scrollHeight > node.clientHeight"


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"], protocol="paired")


def test_the_first_screen_says_what_to_do_and_offers_examples(
    server: Server, open_page: Open, axe: str, clips: Clips
) -> None:
    page = open_page(server.url, viewport={"width": 1280, "height": 900}, bypass_csp=True)
    intro = page.locator(".vrt-intro")
    expect(intro.locator(".vrt-lead")).to_be_in_viewport()
    expect(intro.locator(".vrt-steps li")).to_have_count(3)
    links = intro.locator("a").evaluate_all("links => links.map((link) => link.href)")
    assert links == [address for _, address in words.INTRODUCTION["links"]]
    cards = page.locator(".vrt-card")
    expect(cards.first).to_be_visible()
    assert page.locator(".vrt-examples h2").all_inner_texts() == list(words.EXAMPLE_ROWS.values())
    for card in cards.all():
        expect(card).to_be_in_viewport(ratio=1)
    for part in ("#rail .vrt-track", "[data-action=play]", "[data-action=swap]"):
        expect(page.locator(part)).to_be_hidden()
    assert serious_violations(page, axe) == []
    judges = page.locator(".vrt-card-judge").all()
    assert [judge.inner_text() for judge in judges if judge.evaluate(CUT_SHORT)] == []
    prompt = page.locator(".vrt-card-prompt").first
    assert not prompt.evaluate(CUT_SHORT), "it takes two lines"
    assert prompt.get_attribute("dir") == "auto"
    for number in (1, 2):
        button = page.get_by_role("button", name=re.compile(f"^Video {number}: Drop Video Here"))
        expect(button).to_have_count(1)
    assert page.locator("footer").inner_text().strip().endswith("MCP")
    page.locator("#first input[type=file]").set_input_files(str(clips[0]))
    expect(page.locator("#rail .vrt-track")).to_be_visible()
    page.set_viewport_size({"width": 1920, "height": 900})
    box = page.locator("#stage").bounding_box()
    assert box["x"] == 1920 - box["x"] - box["width"] > 200


def test_the_recording_plays_without_sound_until_it_is_held(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url, reduced_motion="no-preference")
    loop = page.locator(".vrt-loop video")
    page.wait_for_function("document.querySelector('.vrt-loop video')?.currentTime > 0.2")
    assert loop.evaluate("video => [video.muted, video.loop, video.controls]") == [
        True,
        True,
        False,
    ]
    page.get_by_role("button", name="Pause the recording").click()
    assert loop.evaluate("video => video.paused")
    page.get_by_role("button", name="Play the recording").click()
    page.locator(".vrt-card").first.click()
    wait_for(page, "Replaying")
    page.wait_for_function("document.querySelector('.vrt-loop video')?.paused")
    expect(page.locator(".vrt-intro")).to_be_hidden()


LOW_BUTTONS = """() => [...document.querySelectorAll("button, summary")]
    .filter((node) => node.checkVisibility({ visibilityProperty: true }) && !node.matches(".vrt-ref, #players button"))
    .filter((node) => node.getBoundingClientRect().height < 44)
    .map((node) => node.outerHTML.slice(0, 120))"""
"""Links in a sentence are as high as its lines, and Gradio's player has its own controls."""

SMALL_LETTERS = """() => [...document.querySelectorAll("input:enabled, select:enabled, textarea:enabled")]
    .filter((node) => node.checkVisibility() && parseFloat(getComputedStyle(node).fontSize) < 16)
    .map((node) => node.outerHTML.slice(0, 120))"""
"""Fields for which a phone would enlarge the page."""

FINGER_ON_CLEAR = """(button) => {
    const { right, top } = button.getBoundingClientRect();
    return [[2, 2], [38, 2], [2, 38], [38, 38]].every(([x, y]) => document.elementFromPoint(right - x, top + y) === button);
}"""


def test_on_a_phone_a_finger_hits_every_button_and_all_fits_and_the_recording_stands_still(
    server: Server, open_page: Open
) -> None:
    """For who asks for less motion."""
    page = open_page(server.url, reduced_motion="reduce", color_scheme="dark", **PHONE)
    page.locator(".vrt-loop").scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('.vrt-loop video')?.readyState >= 2")
    page.wait_for_timeout(500)
    read = "video => [video.paused, video.src.split('/').pop(), video.currentTime > 5]"
    until_equal(lambda: page.locator(".vrt-loop video").evaluate(read), [True, "dark.mp4", True])
    expect(page.locator(".vrt-hold")).to_be_visible()
    assert page.evaluate(LOW_BUTTONS) == []
    page.locator("#settings button").first.click()
    page.locator("#addresses button").first.click()
    expect(page.locator("#window input")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".vrt-card").first.click()
    wait_for(page, "Replaying")
    expect(page.locator(".vrt-more, .vrt-raw summary").first).to_be_attached()
    assert page.evaluate(LOW_BUTTONS) == []
    assert page.locator("#first button[aria-label='Clear']").evaluate(FINGER_ON_CLEAR)
    page.locator(".vrt-ballot summary").click()
    assert page.evaluate(SMALL_LETTERS) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".vrt-tile").first.click()
    expect(page.locator(".vrt-closer")).to_be_visible()
    assert page.evaluate(LOW_BUTTONS) == []


TWELVE_TURNS = """() => {
    const [first] = VRThinker.shown.turns;
    VRThinker.rail.mark({ ...VRThinker.shown, turns: Array.from({ length: 12 }, () => first) });
    const colour = (mark) => getComputedStyle(mark, "::after").backgroundColor;
    const marks = [...document.querySelectorAll(".vrt-mark")];
    const each = marks.filter((_, place) => place % first.tiles.length === 0).map(colour);
    return [each, marks.map(colour), getComputedStyle(document.querySelector(".vrt-turn")).borderLeftColor];
}"""
"""The rail with twelve turns. The colour of each turn's first mark, those of all marks, and that of the line at the first turn."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_rail_shows_by_colour_which_turn_saw_a_frame(
    scheme: str, server: Server, open_page: Open
) -> None:
    page = open_page(
        f"{server.url}?trace=think-1-what-four-frames-do-not-show", color_scheme=scheme
    )
    expect(page.locator(".vrt-turn").first).to_be_attached()
    each, every, line = page.evaluate(TWELVE_TURNS)
    assert len(each) == len(set(each)) == len(set(every)) == 12
    assert line == each[0]


def test_the_recordings_are_small() -> None:
    recordings = list((ASSETS / words.INTRODUCTION["loop"]["folder"]).glob("*.mp4"))
    assert len(recordings) == 2
    assert sum(path.stat().st_size for path in recordings) < MAX_LOOP_BYTES


def test_the_built_in_judges_frame_facts_are_a_table(server: Server, open_page: Open) -> None:
    page = open_page(f"{server.url}?trace=think-1-what-four-frames-do-not-show")
    facts = page.locator(".vrt-facts")
    expect(facts).to_have_count(2)
    heads = facts.nth(0).locator("thead th").all_inner_texts()
    assert heads == [
        "Frame",
        "Video 1: a white cube moving right",
        "Video 2: a red cube moving right",
    ]
    rows = [
        row.locator("th, td").all_inner_texts() for row in facts.nth(1).locator("tbody tr").all()
    ]
    assert rows == [
        ["#32", "clear, moves on", "clear, moves on"],
        ["#64", "clear, moves on", "clear, jumps"],
        ["#96", "clear, moves on", "blocky, moves on"],
    ]
    raw = page.locator(".vrt-raw").nth(0)
    expect(raw.locator("p")).to_be_hidden()
    raw.locator("summary", has_text="Raw transcript").click()
    expect(raw.locator("p")).to_contain_text("Video 1 shows a white cube moving right: #16 at")
