"""Checking the order on the page: the second run streams, both verdicts stand beside each other, and both runs can be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until, until_equal
from tests.ui.conftest import PHONE, Serve, Server
from tests.ui.page.test_stage import IN_VIEW
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.saved_examples import ask
from tests.ui.support.steps import open_trace, saved, start, status, tab, wait_for, wait_until_said
from vrthinker_core.traces import from_json
from vrthinker_core.types import StopReason
from vrthinker_core.ui import words

pytestmark = pytest.mark.browser


THINK = "TA: video 1 shows the block at frame 10. VQ: video 2 is sharper. MQ: both are smooth. Overall video 1 is better at frame 60. "
ANSWER = f"<Think>{THINK}</Think><Answer>TA=1, VQ=2, MQ=0, OA=1</Answer>"
BOTH = [
    ["Overall", "Video 1", "Video 2", "flips"],
    ["Text alignment", "Video 1", "Video 2", "flips"],
    ["Visual quality", "Video 2", "Video 1", "flips"],
    ["Motion quality", "No difference found", "No difference found", "stable"],
]
"""What a judge that always gives the same labels says in both orders."""


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve([ask(10, 30, 60, 90), ANSWER], protocol="paired", pause=0.04)


def check_button(page: Page) -> Any:
    return page.get_by_role("button", name=words.CHECK_ORDER)


def compared(page: Page, clips: Clips) -> None:
    start(page, clips)
    wait_for(page, "^Finished")


def table(page: Page) -> list[list[str]]:
    """The cells of each dimension."""
    return [
        row.locator("th, td").all_inner_texts() for row in page.locator(".vrt-both tr").all()[1:]
    ]


def refusal(page: Page, sentence: str) -> None:
    """The button is pressed in vain, and the page says why beside it."""
    check_button(page).click()
    expect(page.locator(".vrt-check span")).to_have_text(sentence)
    assert page.locator("#go").is_visible()
    assert not page.locator("#stop").is_visible()


def words_of(page: Page) -> str:
    return page.locator(".vrt-turns").inner_text()


def outcome(page: Page) -> str:
    return page.locator(".vrt-verdict").inner_text()


@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desktop", "phone"])
def test_the_second_run_streams_and_both_verdicts_stand_beside_each_other(
    server: Server, open_page: Open, clips: Clips, screen: dict[str, Any], tmp_path: Path
) -> None:
    page = open_page(server.url, **screen)
    assert check_button(page).count() == 0
    compared(page, clips)
    first, verdict = words_of(page), outcome(page)
    check_button(page).click()
    wait_for(page, "Sides swapped: Turn 1 of .* writing")
    expect(page.locator("#stop")).to_be_visible()
    expect(check_button(page)).to_be_hidden()
    expect(page.locator(".vrt-swapped-notice")).to_be_visible()
    assert outcome(page) == verdict, "the first verdict stays while the second run goes on"
    wait_for(page, "^Finished")
    expect(page.locator("#go")).to_be_visible()
    until_equal(lambda: table(page), BOTH)
    assert "Flips" in page.locator(".vrt-order-line").inner_text()
    assert outcome(page).startswith("No reliable winner"), "a flip takes the winner back"
    page.locator(".vrt-choice button", has_text="As given").click()
    assert words_of(page) == first
    assert not page.locator(".vrt-swapped-notice").is_visible()
    page.locator(".vrt-choice button", has_text="Sides swapped").click()
    assert page.locator(".vrt-swapped-notice").is_visible()
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    trace = from_json(saved(page, tmp_path / "trace.json").read_bytes())
    assert trace.swapped.finished.verdict == trace.finished.verdict


def test_both_verdicts_are_in_the_first_screen_and_their_frames_lead_to_the_first_run(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url, viewport={"width": 1440, "height": 900})
    compared(page, clips)
    assert check_button(page).evaluate(IN_VIEW)
    check_button(page).click()
    wait_until_said(page, "^Sides swapped")
    wait_for(page, "^Finished")
    page.wait_for_timeout(600)
    until(
        lambda: all(
            page.locator(part).evaluate(IN_VIEW)
            for part in (".vrt-headline", ".vrt-order-line", ".vrt-both")
        )
    )
    assert page.locator(".vrt-swapped-notice").is_visible()
    colour = "node => getComputedStyle(node).color"
    spoken = [page.locator(f".vrt-turns .vrt-v{side}").first.evaluate(colour) for side in (1, 2)]
    verdict = [page.locator(f".vrt-reason .vrt-v{side}").first.evaluate(colour) for side in (1, 2)]
    assert spoken == verdict[::-1], (
        "what this run calls video 1 has the colour of the person's video 2"
    )
    page.locator(".vrt-chip").first.locator(".vrt-deciding .vrt-ref").click()
    assert not page.locator(".vrt-swapped-notice").is_visible()
    assert page.locator(".vrt-tile[aria-current]").get_attribute("data-frames") == "60"
    assert "index 60 of 127" in page.locator(".vrt-time").inner_text()


def test_a_changed_prompt_is_refused_and_stop_keeps_the_first_run(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    compared(page, clips)
    first, verdict, prompt = (
        words_of(page),
        outcome(page),
        page.locator("#prompt textarea").input_value(),
    )
    page.locator("#prompt textarea").fill("Something else.")
    refusal(page, words.CHECK_CHANGED)
    assert status(page).startswith("Finished")
    assert (words_of(page), outcome(page)) == (first, verdict)
    page.locator("#prompt textarea").fill(prompt)
    check_button(page).click()
    wait_for(page, "Sides swapped: Turn 1 of .* writing")
    page.locator("#stop").click()
    line = page.locator(".vrt-order-line")
    expect(line).to_have_text("Order not checked: the second run was stopped.")
    assert outcome(page) == verdict
    page.locator(".vrt-choice button", has_text="As given").click()
    assert words_of(page) == first
    trace = from_json(saved(page, tmp_path / "trace.json").read_bytes())
    assert trace.finished.stop is StopReason.ANSWERED
    assert trace.swapped.finished.stop is StopReason.CANCELLED
    tab(page, words.TAB_TRACE)
    page.evaluate("window.statusSaid.length = 0")
    check_button(page).click()
    wait_until_said(page, "^Sides swapped")
    wait_for(page, "^Finished")
    until_equal(lambda: table(page), BOTH)  # What was stopped can be checked again


def test_a_saved_run_whose_videos_and_judge_are_here_can_be_checked(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    compared(page, clips)
    file = saved(page, tmp_path / "trace.json")
    other = open_page(server.url)
    open_trace(other, file)
    wait_for(other, "Replaying")
    tab(other, words.TAB_TRACE)
    refusal(other, words.CHECK_NO_VIDEOS)
    for missing, name, clip in zip((2, None), ("first", "second"), clips, strict=True):
        other.locator(f"#{name} input[type=file]").set_input_files(str(clip))
        expect(other.locator(f"#{name} video")).to_be_visible()
        if missing:
            refusal(other, words.CHECK_NO_VIDEO.format(missing))
    check_button(other).click()
    wait_until_said(other, "^Sides swapped: Turn 1")
    wait_for(other, "^Finished")
    assert table(other) == BOTH
    open_trace(page, saved(other, tmp_path / "both.json"))
    wait_for(page, "Replaying")
    tab(page, words.TAB_TRACE)
    until_equal(lambda: table(page), BOTH)
    assert not page.locator(".vrt-swapped-notice").is_visible()
    written = json.loads(file.read_text("utf-8"))
    written["started"]["judge"] = "someone else"
    file.write_text(json.dumps(written))
    open_trace(page, file)
    page.wait_for_function("document.querySelector('.vrt-both').hidden")
    tab(page, words.TAB_TRACE)
    refusal(page, words.CHECK_NO_JUDGE.format("someone else"))
