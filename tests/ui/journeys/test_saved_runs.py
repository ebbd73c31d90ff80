"""Saved runs: examples, links, files, swapped sides, and the address that names what is shown."""

import re
from pathlib import Path

from tests.ui.support import steps
from tests.ui.support.browsing import Page, Server, expect, opened
from tests.ui.support.saved_examples import PROMPT

LOADED = "[...document.querySelectorAll('#frames img')].every(({ naturalWidth }) => naturalWidth)"


def expect_video(page: Page, side: str, file: str) -> None:
    expect(page.locator(f"#{side} video")).to_have_attribute("src", re.compile(f"{file}$"))


def test_an_example_shows_its_run_and_can_be_compared(page: Page) -> None:
    card = page.locator(".vrt-card").first
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
    menu, turn = page.locator(".vrt-send"), steps.turns(page).last
    trace = menu.get_by_role("link", name="Trace")
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
    steps.tab(page, "All frames")
    expect(page.locator("#frames .vrt-tile img")).to_have_count(16)
    page.locator("#frames .vrt-tile").last.click()
    page.wait_for_function(LOADED)
    assert steps.link(page).endswith("?trace=a-block")
    page.locator("#go").click()
    steps.wait_for(page, "^Finished after 2 turns")


COPIED = """async () => {
    const [item] = await navigator.clipboard.read();
    const { width, height } = await createImageBitmap(await item.getType("image/png"));
    return [width, height];
}"""


def test_the_menu_copies_a_picture_or_saves_it_and_says_who_sees_a_link(
    page: Page, tmp_path: Path, axe: str
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    steps.show_example(page)
    steps.open_share(page)
    steps.button(page, "Copy picture").click()
    expect(page.locator(".vrt-said")).to_have_text("Picture copied.")
    assert page.evaluate(COPIED) == [1200, 630]
    steps.link(page)
    expect(page.locator(".vrt-said")).to_contain_text("on this computer only. Whoever has it sees")
    assert steps.serious_violations(page, axe) == []
    embedded = page.get_by_label("Report in a page of yours").input_value()
    assert "/reports/a-block.html" in embedded
    page.add_init_script("delete window.ClipboardItem")  # as of a browser without it
    page.reload()
    saved = steps.saved(page, tmp_path / "picture.png", "Save picture")
    assert saved.read_bytes().startswith(b"\x89PNG")


@opened(**steps.WIDE, also=steps.SMALLER)
def test_an_example_brings_its_verdict_into_view_from_anywhere(page: Page, server: Server) -> None:
    places = ("Thinking", "a-block"), ("All frames", "b-block"), ("History", "c-one-side")
    for number, (tab, name) in enumerate(places):
        steps.tab(page, tab)
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        bar = steps.play_example(page, number)
        page.evaluate("window.scrollBy(0, -40)")  # follows no longer
        steps.button(bar, "Skip to the end").click()
        steps.wait_until_in_view(steps.headline(page))
        expect(page).to_have_url(f"{server.url}?trace={name}")
    page.reload()
    expect_video(page, "second", "c-one-side/second.mp4")
    steps.wait_until_in_view(steps.headline(page))
