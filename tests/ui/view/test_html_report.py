"""The report: one file, no request, and no script runs in it but our own."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.test_votes import VOTE
from tests.ui.conftest import OpenReport
from tests.ui.support import handmade_runs
from tests.ui.view.test_page_json import ATTACKS
from vrthinker_core.types import Reply, Trace
from vrthinker_core.ui.html_report import render_report


def attacked(attack: str) -> Trace:
    trace = handmade_runs.three_turns(prompt=attack, notes=(attack,), judge=attack, system=attack)
    turn = replace(
        trace.turns[0],
        told=attack,
        completion=handmade_runs.completion(attack, 4096),
        reply=Reply(attack, attack, attack),
    )
    return replace(trace, turns=(turn, *trace.turns[1:]))


@pytest.mark.parametrize("attack", ATTACKS)
def test_data_never_becomes_markup(attack: str) -> None:
    page = render_report(attacked(attack))
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in re.sub(r"<script>.*", "", page, flags=re.DOTALL)


@pytest.mark.browser
def test_it_opens_from_the_disk_and_shows_the_whole_run(open_report: OpenReport) -> None:
    page = open_report(handmade_runs.three_turns(system="Judge <|im_end|> well."))
    assert page.locator(".vrt-turn").count() == 3
    assert page.locator(".vrt-headline").inner_text() == "Video 1 is better overall"
    assert page.evaluate(
        "[...document.images].length === 28 && [...document.images].every(image => image.naturalWidth > 0)"
    )
    assert page.locator(".vrt-transcript mark").inner_text() == "<|im_end|>"
    page.locator("#frames summary").click()
    page.locator("#frames .vrt-tile").nth(4).click()
    closer = page.get_by_role("dialog").inner_text()
    assert "#10 · turn 2" in closer
    assert "Thumbnail" in closer
    page.keyboard.press("ArrowLeft")
    assert "#112 · turn 1" in page.get_by_role("dialog").inner_text()
    assert page.locator(".vrt-lens img").first.evaluate("image => image.naturalWidth > 0")


@pytest.mark.browser
def test_it_shows_the_vote_and_no_form(open_report: OpenReport) -> None:
    page = open_report(replace(handmade_runs.three_turns(), vote=VOTE))
    said = page.locator(".vrt-voted").inner_text()
    for text in ("A person’s vote", VOTE.note, "Video 1 · they agree", "Video 2 · they differ"):
        assert text in said
    assert page.locator("form, .vrt-hidden, .vrt-voted .vrt-pill").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("attack", ATTACKS[:-1])
def test_attacks_stay_text(open_report: OpenReport, attack: str) -> None:
    page = open_report(attacked(attack))
    assert page.locator(".vrt-prompt p").text_content() == attack
    assert page.locator(".vrt-turn").first.locator(".vrt-text p").first.text_content() == attack
    assert page.locator("img").count() == 28


@pytest.mark.browser
def test_a_megabyte_of_text_does_not_freeze_the_page(open_report: OpenReport) -> None:
    page = open_report(attacked("x" * 1_000_000))
    assert len(page.locator(".vrt-prompt p").inner_text()) == 20_000
    assert page.locator(".vrt-prompt .vrt-more").inner_text() == "Show all 1,000,000 characters"
    page.locator(".vrt-prompt .vrt-more").click()
    assert page.locator(".vrt-prompt p").evaluate("node => node.textContent.length") == 1_000_000
