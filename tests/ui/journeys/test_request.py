"""The judge asks for frames: what a visitor sees while it writes that, and when they come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Open, Page, Serve, Server, expect, opened
from tests.ui.support.held_stream import hold_when, open_held, release, wait_until_held
from tests.ui.support.saved_examples import ANSWER, ask
from vrthinker_core.__about__ import ASSETS
from vrthinker_core.traces import load

PLACES = [f"#trace .vrt-turn:nth-child({number})" for number in (1, 2)]
ASKED = (10, 11, 12, 24, 36, 48, 60, 72, 84, 96, 108, 120)
SAMPLE = """() => {
    const last_word = %s, in_view = %s;
    window.samples = [];
    const sample = () => {
        const all = (look) => [...document.querySelectorAll(look)];
        samples.push({
            time: performance.now(),
            turns: all("#trace .vrt-turn:not(.coming)").length,
            asked: all("#trace .vrt-empty-tile").length > 0,
            empty: all("#trace .vrt-empty-tile").some(in_view),
            written: all("#trace .vrt-text p").length > 0,
            words: last_word(),
            verdict: all(".vrt-headline").some((node) => node.textContent && in_view(node)),
            over: all(".vrt-chip").length > 0,
            told: all(".vrt-unseen")[0].textContent,
        });
        setTimeout(sample, 50);
    };
    sample();
}"""
"""Looks twenty times a second at what is in the window."""


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve([ask(*ASKED), ask(16, 20), ANSWER], protocol="paired", pause=0.05)


@pytest.mark.parametrize("screen", steps.SCREENS.values(), ids=steps.SCREENS)
def test_a_request_is_seen_before_its_frames_come(
    server: Server, open_page: Open, clips: Clips, screen: dict[str, Any]
) -> None:
    page = open_page(server.url, **screen, reduced_motion="no-preference")
    page.evaluate(SAMPLE % (steps.LAST_WORD, steps.IN_VIEW))
    steps.compare(page, clips)
    page.wait_for_function("samples.filter(({ over }) => over).length > 20")
    samples = page.evaluate("samples")
    asked = [each for each in samples if each["turns"] == 1 and each["empty"]]
    came = next(each["time"] for each in samples if each["turns"] == 2)
    assert came - asked[0]["time"] >= 800
    assert all(each["empty"] for each in samples if asked[0]["time"] <= each["time"] < came)
    for name, share in (
        ("words", [each["words"] for each in samples if each["written"] and not each["over"]]),
        ("verdict", [each["verdict"] for each in samples if each["over"]]),
    ):
        assert sum(share) >= 0.8 * len(share), name


@pytest.fixture
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("demo"), "nano", forked=True)
    yield server
    server.stop()


def test_a_request_that_is_written_at_once_stands_too(demo: Server, open_page: Open) -> None:
    drawn = ASSETS / "examples" / "think-4-picture-against-motion"
    clips, prompt = (
        (drawn / "first.mp4", drawn / "second.mp4"),
        load(drawn / "trace.json").started.prompt,
    )
    page = open_page(demo.url, reduced_motion="no-preference")
    page.evaluate(SAMPLE % (steps.LAST_WORD, steps.IN_VIEW))
    steps.compare(page, clips, prompt)
    samples = page.evaluate("samples")
    assert samples[-1]["turns"] > 2
    for turn in range(2, samples[-1]["turns"] + 1):
        came = next(each["time"] for each in samples if each["turns"] == turn)
        asked = [each for each in samples if each["turns"] == turn - 1 and each["asked"]]
        assert came - asked[0]["time"] >= 600  # 0.8 s, less what a busy machine looks too late
        assert all(each["asked"] for each in samples if asked[0]["time"] <= each["time"] < came)
        assert any(each["empty"] for each in asked)
        assert not any(f"Turn {turn} " in each["told"] for each in samples if each["time"] < came)
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true }); samples.length = 0")
    page.evaluate("document.addEventListener('vrt:trace', () => samples.push(VRThinker.trace))")
    steps.compare_again(page)
    assert not page.evaluate("samples.some(({ held }) => held)")


def test_empty_places_fill_in_and_equal_pictures_are_one(
    server: Server, new_page: Open, clips: Clips
) -> None:
    page = open_held(new_page, server.url)
    (first, second), empty = PLACES, page.locator("#trace .vrt-empty-tile")
    hold_when(page, "document.querySelectorAll('.vrt-empty-tile').length > 2")
    steps.start(page, clips)
    wait_until_held(page)
    many = empty.count()
    asked = page.locator(first).locator(".vrt-wants")
    expect(asked).to_contain_text(f"It wants {many} more pairs: #10 #11 #12")
    expect(page.locator(".vrt-mark.asked")).to_have_count(many)
    expect(page.locator(first).locator(".vrt-state")).to_have_text("4 pairs every run starts with")
    again = page.locator(second).locator(".vrt-wants")
    hold_when(page, f"document.querySelector('{second} .vrt-wants')?.textContent.includes('#20')")
    wait_until_held(page)
    expect(page.locator(second).locator(".vrt-state")).to_contain_text("11 pairs it asked for")
    expect(page.locator(second).locator(".vrt-tile.stack b")).to_have_text("#11 = #12")
    steps.button(asked, "#12", exact=True).click()
    assert "index 12 of 127" in steps.moment(page)
    assert steps.chosen(page) == "11 · 12"
    expect(again).to_contain_text("It wants 1 more pair: #20")
    expect(again).to_contain_text("Already shown: 16.")
    assert empty.count() == page.locator(".vrt-mark.asked").count() == 1
    release(page)
    steps.wait_until_over(page)
    assert empty.count() == page.locator(".vrt-mark.asked").count() == 0


@opened(phone=steps.SCREENS["390"])
def test_nothing_is_followed_while_nothing_can_be_read(page: Page, clips: Clips) -> None:
    steps.fill(page, clips)
    page.evaluate("document.cookie = 'vote_first=on'")
    page.locator("#go").click()
    before = page.evaluate("scrollY")
    expect(steps.turns(page)).to_have_count(2)
    assert page.evaluate("scrollY") == before
    expect(page.locator(".vrt-follow")).to_be_hidden()
    expect(page.locator(".vrt-wants:visible")).to_have_count(0)
