"""Saved runs: examples, links, files, swapped sides, and the address that names what is shown."""

import re
from pathlib import Path

from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Open, Page, Server, expect, opened
from tests.ui.support.saved_examples import PROMPT

LOADED = "[...document.querySelectorAll('#frames img')].every(({ naturalWidth }) => naturalWidth)"


def expect_video(page: Page, side: str, file: str) -> None:
    expect(page.locator(f"#{side} video")).to_have_attribute("src", re.compile(f"{file}$"))


def test_an_example_shows_its_run_and_can_be_compared_with_its_sides_swapped(page: Page) -> None:
    card, changed = page.locator(".vrt-card").first, page.locator(".vrt-changed")
    expect(card).to_have_attribute("title", PROMPT)
    expect(card).to_contain_text("2 turns")
    expect(page.locator(".vrt-send")).to_be_hidden()
    bar, text = steps.play_example(page), page.locator("#trace .vrt-text p")
    # With reduced motion a turn comes with all its words
    expect(text.first).to_have_text("A block on a coloured field.")
    expect(text.nth(1)).to_contain_text("stays text")
    expect(steps.turns(page)).to_have_count(1)
    steps.button(bar, "Skip to the end").click()
    steps.wait_for(page, steps.RECORDED)
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    expect(steps.turns(page)).to_have_count(2)
    expect(page.locator(".vrt-mark")).to_have_count(8)
    expect_video(page, "second", "a-block/second.mp4")
    unfold_what_was_sent_and_may_be_taken_along(page)
    steps.tab(page, "All frames")
    expect(page.locator("#frames .vrt-tile img")).to_have_count(16)
    page.locator("#frames .vrt-tile").last.click()
    page.wait_for_function(LOADED)
    assert steps.link(page).endswith("?trace=a-block")
    steps.button(page, "Swap sides").click()
    steps.wait_for(page, "^Sides swapped")
    expect_video(page, "first", "second.mp4")
    expect_video(page, "second", "first.mp4")
    expect(changed).to_contain_text("judged these videos with the sides swapped")
    expect(steps.turns(page)).to_have_count(2)
    steps.button(page, "Swap sides").click()
    steps.wait_for(page, steps.RECORDED)
    expect(changed).to_be_hidden()
    page.locator("#go").click()
    steps.wait_for(page, "^Finished after 2 turns")


def unfold_what_was_sent_and_may_be_taken_along(page: Page) -> None:
    menu, turn = page.locator(".vrt-send"), steps.turns(page).last
    trace = menu.get_by_role("link", name="Trace (.json)")
    for put_away in (lambda: page.keyboard.press("Escape"), page.locator("h1").click):
        menu.locator("summary").click()
        expect(trace).to_be_visible()
        put_away()
        expect(trace).to_be_hidden()
    page.route("**/messages?*", lambda route: route.abort(), times=1)
    exact = turn.locator(".vrt-exact")
    exact.locator("summary").click()
    expect(exact).to_contain_text("did not answer")
    exact.locator("summary").click()
    sent = steps.exact_messages(turn)  # asked for again
    expect(sent).to_have_count(2)
    expect(sent.last).to_contain_text("<Answer>")
    turn.locator("summary", has_text="Details").click()
    expect(turn.locator(".vrt-foot")).to_be_visible()


def test_links_and_files(page: Page, open_page: Open, clips: Clips, tmp_path: Path) -> None:
    stranger = open_page(page.url)
    steps.compare(page, clips)
    expect(page).to_have_url(re.compile(r"\?run=[0-9a-f]{24}$"))
    live, address = steps.trace_text(page), steps.link(page)
    assert re.search(r"\?trace=[0-9a-f]{24}$", address)
    expect(page).to_have_url(address)
    path = steps.saved(page, tmp_path / "trace.json")
    steps.replay(page, path)
    assert [Path(file).name for file in steps.video_files(page)] == ["one.mp4", "two.mp4"]
    steps.open_trace(stranger, path)
    steps.wait_for(stranger, steps.RECORDED)
    expect(steps.headline(stranger)).to_be_in_viewport()
    assert steps.video_files(stranger) == ["", ""]
    report = steps.saved(stranger, tmp_path / "report.html", "Report (.html)")
    assert "Video 1 is better overall" in report.read_text("utf-8")
    stranger.goto(address)
    expect(steps.headline(stranger)).to_be_visible()
    recorded = r"Recorded run · 2 turns · \d+ frames\s+▶ Watch it think\s+"
    text = re.sub(recorded, "", steps.trace_text(stranger))
    assert text.replace("5 notes", "4 notes") == live  # and who judged
    assert all(file.endswith(".mp4") for file in steps.video_files(stranger))


@opened(**steps.WIDE, also=steps.SMALLER)
def test_an_example_brings_its_verdict_into_view_from_anywhere(page: Page, server: Server) -> None:
    """And the browser's steps lead from run to run."""
    empty = page.locator(".vrt-intro")
    expect(empty).to_be_visible()
    places = ("Thinking", "a-block"), ("All frames", "b-block"), ("History", "c-one-side")
    for number, (tab, name) in enumerate(places):
        steps.tab(page, tab)
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        bar = steps.play_example(page, number)
        page.evaluate("window.scrollBy(0, -40)")  # follows no longer
        steps.button(bar, "Skip to the end").click()
        steps.wait_until_in_view(steps.headline(page))
        expect(page).to_have_url(f"{server.url}?trace={name}")
    steps.write_prompt(page, "Another prompt.")
    back, forth = page.go_back, page.go_forward
    for step, name in ((back, "b"), (back, "a"), (forth, "b"), (back, "a")):
        step()
        expect_video(page, "second", f"{name}-block/second.mp4")
        expect(page).to_have_url(f"{server.url}?trace={name}-block")
        expect(steps.turns(page)).to_have_count(2)
    page.go_back()
    expect(steps.turns(page)).to_have_count(0)
    expect(page.locator("#second video")).to_have_count(0)
    expect(empty).to_be_visible()
    page.go_forward()
    steps.wait_until_in_view(steps.headline(page))
    page.reload()
    expect_video(page, "second", "a-block/second.mp4")
    steps.wait_until_in_view(steps.headline(page))
