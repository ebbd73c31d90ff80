"""A first visit: what a page without a run shows, its examples, and what it says of the next step."""

import re
from pathlib import Path

from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Page, expect, opened
from vrthinker_core.__about__ import ASSETS

CUT_SHORT = "node => node.scrollWidth > node.clientWidth || node.scrollHeight > node.clientHeight"


@opened("answering", desktop={"bypass_csp": True})
def test_the_first_screen_says_what_to_do_and_offers_examples(page: Page, axe: str) -> None:
    intro, cards = page.get_by_role("region", name="How it works"), page.locator(".vrt-card")
    expect(intro.locator(".vrt-lead")).to_be_in_viewport()
    expect(intro.get_by_role("listitem")).to_have_count(3)
    hosts = intro.get_by_role("link").evaluate_all("links => links.map(({ host }) => host)")
    assert hosts == ["arxiv.org", "huggingface.co", "huggingface.co", "github.com"]
    expect(page.locator(".vrt-examples h2")).to_have_count(2)
    expect(cards.first).to_be_visible()
    for card in cards.all():
        expect(card).to_be_in_viewport(ratio=1)
        assert not card.locator(".vrt-card-judge").evaluate(CUT_SHORT)
    prompt = cards.first.locator(".vrt-card-prompt")
    assert not prompt.evaluate(CUT_SHORT), "it takes two lines"
    assert prompt.get_attribute("dir") == "auto"
    for number in (1, 2):
        expect(steps.button(page, f"Video {number}: Drop Video Here")).to_have_count(1)
    for part in ("#rail .vrt-track", "[data-action=play]", "[data-action=swap]"):
        expect(page.locator(part)).to_be_hidden()
    assert steps.serious_violations(page, axe) == []
    assert page.locator("footer").inner_text().strip().endswith("MCP")


@opened("answering", moving={"reduced_motion": "no-preference"})
def test_the_recording_goes_silently_until_a_run_takes_its_place(page: Page) -> None:
    """The run is one of the built-in judge, whose notes on each frame are a table."""
    loop = page.locator(".vrt-loop video")
    page.wait_for_function("document.querySelector('.vrt-loop video')?.currentTime > 0.2")
    assert loop.evaluate("video => video.muted && video.loop && !video.controls")
    steps.button(page, "Pause the recording").click()
    assert loop.evaluate("video => video.paused")
    steps.button(page, "Play the recording").click()
    steps.button(page, "What four frames do not show").click()
    expect(steps.headline(page)).to_be_visible()
    page.wait_for_function("document.querySelector('.vrt-loop video')?.paused")
    expect(page.locator(".vrt-intro")).to_be_hidden()
    first, second = page.locator(".vrt-facts").all()
    heads = ["Frame", "Video 1: a white cube moving right", "Video 2: a red cube moving right"]
    expect(first.locator("thead th")).to_have_text(heads)
    facts = second.locator("tbody tr").nth(1).locator("th, td")
    expect(facts).to_have_text(["#64", "clear, moves on", "clear, jumps"])
    raw = page.locator(".vrt-raw").first
    expect(raw.locator("p")).to_be_hidden()
    raw.locator("summary", has_text="Raw transcript").click()
    expect(raw.locator("p")).to_contain_text("a white cube moving right: #16 at")
    assert sum(path.stat().st_size for path in (ASSETS / "intro").glob("*.mp4")) < 1_000_000


@opened("answering")
def test_the_next_step_follows_what_is_there(page: Page, clips: Clips, tmp_path: Path) -> None:
    """A file that was refused counts for none, and why stays to be read until it is gone."""
    text, refused = tmp_path / "text.mp4", r"^text\.mp4 is a text file, not a video\. "
    text.write_text("This is no video. " * 100)
    steps.put(page, "first", text)
    steps.wait_for(page, f"{refused}Choose another")
    steps.upload(page, "second", clips[1])
    steps.wait_for(page, f"{refused}One video")
    page.locator("#go").click()
    steps.wait_for(page, refused.replace("^", "^Not started. ", 1))
    steps.clear(page, "first")
    steps.wait_for(page, "^One video is here")
    steps.upload(page, "first", clips[0])
    expect(page.get_by_role("slider", name=re.compile("^Moment"))).to_be_visible()
    for prompt, step in {"": "Both videos", "A block.": "Ready to", " ": "Both videos"}.items():
        steps.write_prompt(page, prompt)
        steps.wait_for(page, f"^{step}")
    page.locator("#go").click()
    steps.wait_for(page, "prompt is empty")
    assert not steps.said(page, "^Waiting"), "whoever forgot something is told so at once"
