"""A first visit: what a page without a run shows, its examples, and what it says of the next step."""

import re
from pathlib import Path

from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Page, Server, expect, opened
from vrthinker_core.__about__ import ASSETS

CUT_SHORT = "node => node.scrollWidth > node.clientWidth || node.scrollHeight > node.clientHeight"


@opened("answering", desktop={"bypass_csp": True}, phone=steps.SCREENS["390"])
def test_the_first_screen_leads_from_a_sentence_over_examples_to_the_boxes(
    page: Page, axe: str
) -> None:
    intro, cards = page.get_by_role("region", name="How it works"), page.locator(".vrt-card")
    drop = [steps.button(page, f"Video {number}: Drop Video Here") for number in (1, 2)]
    parts = [page.locator(".vrt-lead"), cards.first, *drop]
    tops = [part.bounding_box()["y"] for part in parts]
    assert tops == sorted(tops)
    for part in parts:
        expect(part).to_be_in_viewport(ratio=1)
    if steps.is_narrow(page):
        assert page.locator("#first").bounding_box()["height"] == 120
        assert steps.fits(page)
        return
    expect(intro.get_by_role("listitem")).to_have_count(3)
    expect(intro).to_contain_text(
        re.compile("It costs nothing, .* Your videos stay on your machine")
    )
    expect(intro).to_contain_text(re.compile(r"took [0-9.]+ to [0-9.]+ s\."))
    hosts = intro.get_by_role("link").evaluate_all("links => links.map(({ host }) => host)")
    assert hosts == ["arxiv.org", "huggingface.co", "huggingface.co", "github.com"]
    shown = [card for card in cards.all() if card.is_visible()]
    assert len({card.bounding_box()["y"] for card in shown}) == 1, "one line"
    assert not any(card.evaluate(CUT_SHORT) for card in shown)
    expect(page.locator(".vrt-card", has_text="Real footage: Big Buck Bunny")).to_be_visible()
    for part in ("#rail .vrt-track", "[data-action=play]", "[data-action=swap]"):
        expect(page.locator(part)).to_be_hidden()
    assert steps.serious_violations(page, axe) == []
    assert page.locator("footer").inner_text().strip().endswith("MCP")


MOVING = {"reduced_motion": "no-preference"}

KEEP_LENGTHS = """() => {
    window.lengths = [];
    const text = () => document.querySelector("#trace .vrt-text p")?.textContent ?? "";
    const changes = { subtree: true, childList: true, characterData: true };
    new MutationObserver(() => lengths.push(text().length)).observe(document.body, changes);
}"""


@opened(moving=MOVING)
def test_one_click_on_an_example_plays_its_run_in_the_browser(page: Page, server: Server) -> None:
    page.evaluate(KEEP_LENGTHS)
    bar, turns = steps.play_example(page), steps.turns(page)
    text = page.locator("#trace .vrt-text p")
    expect(page.locator("#trace .vrt-tile")).to_have_count(4)
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    expect(text.first).to_contain_text("A block")
    expect(turns).to_have_count(1)
    assert any(0 < length < 27 for length in page.evaluate("lengths")), "its words grow"
    steps.button(bar, "Pause").click()
    assert steps.stays(page, lambda: steps.trace_text(page), 400)
    expect(steps.headline(page)).to_have_count(0)
    expect(page.locator(".vrt-mark")).to_have_count(4)
    steps.look(page)
    page.keyboard.press("Escape")
    steps.button(bar, "Go on").click()
    expect(turns).to_have_count(2, timeout=20_000)
    expect(page.locator(".vrt-mark")).to_have_count(8)
    expect(bar).to_contain_text("Turn 2 of 2")
    expect(steps.headline(page)).to_be_visible(timeout=20_000)
    expect(bar).to_be_hidden()
    assert not [url for url in asked if "queue" in url], "no event: the server gave it whole"
    steps.button(page, "Watch it think").press("Enter")
    expect(turns).to_have_count(1)
    steps.button(bar, "Skip to the end").press("Enter")
    expect(turns).to_have_count(2)
    expect(steps.button(page, "Watch it think")).to_be_focused()
    page.goto(f"{server.url}?trace=b-block")
    steps.wait_for(page, "^Recorded run · 2 turns · 16 frames$")
    expect(steps.headline(page)).to_be_visible()
    expect(bar).to_be_hidden()


@opened()
def test_with_reduced_motion_a_turn_comes_with_all_its_words(page: Page) -> None:
    steps.play_example(page)
    text = page.locator("#trace .vrt-text p")
    expect(text.first).to_have_text("A block on a coloured field.")
    expect(text.nth(1)).to_contain_text("stays text")
    expect(steps.turns(page)).to_have_count(1)


@opened("answering")
def test_a_script_wins_nothing(page: Page) -> None:
    card = page.locator(".vrt-card", has_text="Real footage")
    card.click()
    steps.button(page, "Skip to the end").click()
    expect(steps.headline(page)).to_have_text("Scripted example")
    expect(page.locator(".vrt-unchecked")).to_contain_text("A person wrote these replies")
    expect(page.locator(".vrt-health")).to_contain_text("CC BY 3.0")
    assert "Scripted example · " in page.request.get(page.url).text()


@opened("answering", moving=MOVING)
def test_the_recording_goes_silently_until_a_run_takes_its_place(page: Page) -> None:
    """The run is one of the built-in judge, whose notes on each frame are a table."""
    loop = page.locator(".vrt-loop video")
    page.wait_for_function("document.querySelector('.vrt-loop video')?.currentTime > 0.2")
    assert loop.evaluate("video => video.muted && video.loop && !video.controls")
    steps.button(page, "Pause the recording").click()
    assert loop.evaluate("video => video.paused")
    steps.button(page, "Play the recording").click()
    steps.button(page, "What four frames do not show").click()
    steps.button(page, "Skip to the end").click()
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
    raw.locator("summary", has_text="In its own words").click()
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
