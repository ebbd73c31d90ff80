"""A first visit: a page without a run, its examples, and what each field says until it is mended."""

import re
from pathlib import Path

from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Page, Server, expect, opened
from tests.ui.support.saved_examples import THINK

CUT_SHORT = "node => node.scrollWidth > node.clientWidth || node.scrollHeight > node.clientHeight"
MOVING = {"reduced_motion": "no-preference"}


@opened("answering", desktop={"bypass_csp": True, **MOVING}, also={"phone": steps.SCREENS["390"]})
def test_the_first_screen_leads_from_a_sentence_over_examples_to_the_boxes(
    page: Page, axe: str
) -> None:
    cards = page.locator(".vrt-card")
    drop = [steps.button(page, f"Video {number}: Drop Video Here") for number in (1, 2)]
    parts = [page.locator(".vrt-lead"), page.locator(".vrt-hero"), *drop]
    tops = [part.bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)
    for part in parts:
        expect(part).to_be_in_viewport(ratio=1)
    if steps.is_narrow(page):
        assert page.locator("#first").bounding_box()["height"] == 120
        assert steps.fits(page)
        return
    intro = page.get_by_role("region", name="How it works")
    expect(intro.get_by_role("listitem")).to_have_count(3)
    expect(intro).to_contain_text("Your videos stay on your machine")
    shown = [card for card in cards.all() if card.is_visible()]
    assert len({card.bounding_box()["y"] for card in shown}) == 2, "two lines"
    clips = page.locator(".vrt-hero-clips video")
    page.wait_for_function(
        "[...document.querySelectorAll('.vrt-hero-clips video')].every((v) => v.currentTime > 0.3)"
    )
    first, last = clips.evaluate_all("all => all.map((video) => video.currentTime)")
    assert abs(first - last) < 0.3
    steps.button(page, "Pause both clips").click()
    assert clips.evaluate_all("clips => clips.every((each) => each.paused && each.muted)")
    assert not any(card.evaluate(CUT_SHORT) for card in shown)
    assert steps.serious_violations(page, axe) == []
    # A run of the built-in judge takes its place, whose notes on each frame are a table
    steps.button(page, "What four frames do not show").click()
    steps.button(page, "Skip to the end").click()
    expect(steps.headline(page)).to_be_visible()
    expect(intro).to_be_hidden()
    facts = page.locator(".vrt-facts").last.locator("tbody tr").nth(1).locator("th, td")
    expect(facts).to_have_text(["#64", "clear, moves on", "clear, jumps"])
    raw = page.locator(".vrt-raw").first
    raw.locator("summary", has_text="In its own words").click()
    expect(raw.locator("p")).to_contain_text("a white cube moving right: #16 at")


@opened(moving=MOVING)
def test_one_click_on_an_example_plays_its_run_in_the_browser(page: Page, server: Server) -> None:
    bar, turns = steps.play_example(page), steps.turns(page)
    expect(page.locator("#trace .vrt-tile")).to_have_count(4)
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    expect(page.locator("#trace .vrt-text p").first).to_contain_text("A block")
    steps.button(bar, "Pause").click()
    expect(page.locator("#trace .vrt-text").last).not_to_contain_text(THINK.strip())  # it grows
    expect(turns).to_have_count(1)
    assert steps.stays(page, lambda: steps.trace_text(page), 400)
    expect(steps.headline(page)).to_have_count(0)
    steps.look(page)
    page.keyboard.press("Escape")
    page.evaluate("VRThinker.PACE.LETTERS *= 5")
    steps.button(bar, "Go on").click()
    expect(turns).to_have_count(2)
    expect(page.locator(".vrt-mark")).to_have_count(8)
    expect(bar).to_contain_text("Turn 2 of 2")
    expect(steps.headline(page)).to_be_visible()
    expect(bar).to_be_hidden()
    events = [url for url in asked if "queue/join" in url]
    assert len(events) <= 1, "the server gave it whole; the pair is measured"
    steps.button(page, "Watch it think").press("Enter")
    expect(turns).to_have_count(1)
    steps.button(bar, "Skip to the end").press("Enter")
    expect(turns).to_have_count(2)
    expect(steps.button(page, "Watch it think")).to_be_focused()
    page.goto(f"{server.url}?trace=b-block")
    steps.wait_for(page, "^Recorded run · 2 turns · 8 pairs$")
    expect(steps.headline(page)).to_be_visible()
    expect(bar).to_be_hidden()


@opened(**steps.LIGHT, also=steps.DARK)
def test_each_field_says_what_is_wrong_until_it_is_mended(
    page: Page, clips: Clips, axe: str, tmp_path: Path
) -> None:
    """A file that was refused counts for none, and why stays to be read until it is gone."""
    wrong, go = page.locator("#bench [aria-invalid=true]"), page.locator("#go")
    address = page.locator("#address-2 input")
    address.press("Enter")
    expect(address).to_be_focused()
    expect(page.locator(".vrt-box > .vrt-fault")).to_contain_text("Give the address")
    address.fill("h")
    expect(wrong).to_have_count(0)
    go.click()
    expect(wrong).to_have_count(3)
    expect(wrong.first).to_be_focused()
    expect(wrong.first).to_have_accessible_description("Add video 1.")
    assert steps.serious_violations(page, axe) == []
    text, refused = tmp_path / "text.mp4", r"^text\.mp4 is a text file, not a video\. "
    text.write_text("This is no video. " * 100)
    fault = page.locator("#players .vrt-fault")
    steps.put(page, "first", text)
    expect(fault).to_have_text(re.compile(f"{refused}Choose another"))
    expect(wrong.first).to_be_focused()
    steps.upload(page, "second", clips[1])
    steps.wait_for(page, "^One video")
    go.click()
    steps.wait_for(page, "^Not started. ")
    expect(fault).to_have_text(re.compile(refused))
    steps.clear(page, "first")
    steps.wait_for(page, "^One video is here")
    steps.upload(page, "first", clips[0])
    expect(wrong).to_have_count(1)
    expect(page.get_by_role("slider", name=re.compile("^Moment"))).to_be_visible()
    for prompt, step in {"A block.": "Ready to", " ": "Both videos"}.items():
        steps.write_prompt(page, prompt)
        steps.wait_for(page, f"^{step}")
    go.click()
    expect(page.locator("#prompt .vrt-fault")).to_contain_text("prompt is empty")
    expect(page.locator("#prompt textarea[aria-invalid=true]")).to_be_focused()
    steps.write_prompt(page, "A block.")
    expect(wrong).to_have_count(0)
    assert not steps.said(page, "^Waiting"), "whoever forgot something is told so at once"


MOVED = """() => new Promise((done) => {
    let moved = 0;
    const add = (list) => list.getEntries().forEach(({ value }) => (moved += value));
    new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => done(moved), 500);
})"""


@opened()
def test_nothing_moves_while_a_page_or_a_run_appears(page: Page, server: Server) -> None:
    for query in ("", "?trace=b-block"):
        assert page.goto(server.url + query).headers["content-encoding"] == "gzip"
        page.wait_for_selector(".vrt-cover", state="detached")
        expect(steps.headline(page)).to_have_count(len(query[:1]))
        assert page.evaluate(MOVED) < 0.1
