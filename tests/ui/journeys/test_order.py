"""Checking the order: the second run streams, both verdicts stand beside each other, and both runs can be read."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import until_equal
from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Open, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import PROMPT, ask
from vrthinker_core.types import StopReason

THINK = "VQ: video 2 is sharper. MQ: both are smooth. Overall video 1 is better at frame 60. "
ANSWER = f"<Think>{THINK * 3}</Think><Answer>TA=1, VQ=2, MQ=0, OA=1</Answer>"
BOTH = "Video 1|Video 2|flips", "Video 1|Video 2|flips", "Video 2|Video 1|flips"
TIE = "No difference found|No difference found|stable"
"""What a judge that always gives the same labels says in both orders."""
CHECK = "Swap test"


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve([ask(10, 30, 60, 90), ANSWER], protocol="paired", pause=0.03)


def begin_check(page: Page) -> None:
    page.evaluate("window.statusSaid.length = 0")
    steps.button(page, CHECK).click()
    steps.wait_until_said(page, "^Sides swapped: Turn 1 of .* writing")


def expect_both(page: Page) -> None:
    rows = page.locator(".vrt-both tr:has(td)")
    read = "all => all.map((row) => [...row.querySelectorAll('td')].map((td) => td.innerText).join('|'))"
    until_equal(lambda: rows.evaluate_all(read), [*BOTH, TIE])


def expect_refused(page: Page, why: str) -> None:
    steps.button(page, CHECK).click()
    expect(page.locator(".vrt-check")).to_contain_text(why)
    steps.expect_idle(page)


def run_and_verdict(page: Page) -> list[str]:
    return [page.locator(part).inner_text() for part in (".vrt-turns", ".vrt-verdict")]


@opened(wide={"viewport": {"width": 1440, "height": 900}})
def test_both_verdicts_stand_beside_each_other(page: Page, clips: Clips, tmp_path: Path) -> None:
    swapped = page.locator(".vrt-swapped-notice")
    expect(steps.button(page, CHECK)).to_have_count(0)
    steps.compare(page, clips)
    first, verdict = run_and_verdict(page)
    steps.wait_until_in_view(steps.button(page, CHECK))
    begin_check(page)
    steps.expect_running(page)
    expect(steps.button(page, CHECK)).to_be_hidden()
    expect(swapped).to_be_visible()
    assert run_and_verdict(page)[1] == verdict, "it stays while the second run goes on"
    steps.wait_until_over(page)
    expect_both(page)
    expect(page.locator(".vrt-order-line")).to_contain_text("Flips")
    expect(steps.headline(page)).to_contain_text("No reliable winner")
    steps.wait_until_in_view(steps.headline(page), page.locator(".vrt-both"))
    expect(swapped).to_be_hidden()  # the turns as given are shown again
    assert run_and_verdict(page)[0] == first
    steps.button(page, "Sides swapped", exact=True).click()
    colour = "node => getComputedStyle(node).color"
    here, own = (
        [page.locator(f"{part} .vrt-v{side}").first.evaluate(colour) for side in (1, 2)]
        for part in (".vrt-turns", ".vrt-reason")
    )
    assert here == own[::-1], "what this run calls video 1 has the colour of the person's video 2"
    steps.button(page, "As given").click()
    expect(swapped).to_be_hidden()
    steps.button(page, "Sides swapped", exact=True).click()
    expect(swapped).to_be_visible()
    assert steps.fits_a_phone(page)
    page.locator(".vrt-chip .vrt-deciding .vrt-ref").first.click()
    expect(swapped).to_be_hidden()  # the verdict's frames are those of the first run
    assert steps.chosen(page) == "60"
    trace = steps.saved_trace(page, tmp_path)
    assert trace.swapped.finished.verdict == trace.finished.verdict


def test_what_cannot_be_checked(page: Page, open_page: Open, clips: Clips, tmp_path: Path) -> None:
    other = open_page(page.url)
    steps.compare(page, clips)
    before = run_and_verdict(page)
    steps.write_prompt(page, "Something else.")
    expect_refused(page, "inputs have changed")
    assert run_and_verdict(page) == before
    steps.write_prompt(page, PROMPT)
    trace = steps.saved_trace(page, tmp_path)
    steps.replay(other, tmp_path / "trace.json")
    expect_refused(other, "videos of this run are not here")
    steps.upload(other, "first", clips[0])
    expect_refused(other, "Video 2 of this run is not here")
    steps.upload(other, "second", clips[1])
    expect(steps.changed(other)).to_be_hidden()
    begin_check(other)
    other.locator("#stop").click()
    expect(other.locator(".vrt-order-line")).to_contain_text("not checked")
    steps.button(other, "As given").click()
    assert run_and_verdict(other) == before
    stopped = steps.saved_trace(other, tmp_path)
    assert stopped.finished.stop is StopReason.ANSWERED
    assert stopped.swapped.finished.stop is StopReason.CANCELLED
    steps.tab(other, "Thinking")
    begin_check(other)  # what was stopped can be checked again
    steps.wait_until_over(other)
    expect_both(other)
    steps.replay(page, steps.saved(other, tmp_path / "both.json"))
    expect_both(page)
    expect(page.locator(".vrt-swapped-notice")).to_be_hidden()
    by_another = replace(trace, started=replace(trace.started, judge="someone else"))
    steps.replay(page, tmp_path / "trace.json", by_another)
    expect(page.locator(".vrt-both")).to_be_hidden()
    expect_refused(page, "someone else gave this verdict and cannot be asked")
