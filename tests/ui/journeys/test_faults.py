"""What goes wrong says so where it can be mended; nothing is lost by one tap."""

from tests.support.waiting import until_equal
from tests.ui.support import steps
from tests.ui.support.browsing import PHONE, Clips, Page, expect, opened

WRONG = "#bench [aria-invalid=true]"


@opened(**steps.SCHEMES)
def test_each_field_says_what_is_wrong_until_it_is_mended(
    page: Page, clips: Clips, axe: str
) -> None:
    wrong, go = page.locator(WRONG), page.locator("#go")
    line = page.locator("#status textarea")
    usual = line.evaluate("node => getComputedStyle(node).color")
    page.locator("#address-2 input").press("Enter")
    expect(page.locator("#address-2 input")).to_be_focused()
    expect(page.locator("#address-2 .vrt-fault")).to_contain_text("Give the address")
    page.locator("#address-2 input").fill("h")
    expect(wrong).to_have_count(0)
    go.click()
    expect(wrong).to_have_count(3)
    expect(wrong.first).to_be_focused()
    expect(wrong.first).to_have_accessible_description("Add video 1.")
    assert line.evaluate("node => getComputedStyle(node).color") != usual
    assert steps.serious_violations(page, axe) == []
    for left, side, clip in zip((2, 1), steps.SIDES, clips, strict=True):
        steps.upload(page, side, clip)
        expect(wrong).to_have_count(left)
    go.click()
    expect(page.locator("#prompt textarea[aria-invalid=true]")).to_be_focused()
    steps.write_prompt(page, "A block.")
    expect(wrong).to_have_count(0)
    assert line.evaluate("node => getComputedStyle(node).color") == usual


@opened(phone=PHONE)
def test_on_a_phone_a_tap_plays_and_removes_nothing(page: Page) -> None:
    steps.show_example(page)
    steps.wait_until_playable(page, "second")
    expect(page.locator("#first button[aria-label='Clear']")).to_be_hidden()
    for paused in (False, True):
        page.locator("#first video").tap(position={"x": 40, "y": 40})
        until_equal(lambda: steps.both(page, "video => video.paused"), [paused] * 2)
    page.set_viewport_size({"width": 390, "height": 500})  # or enlarged to twice the size
    expect(page.locator("#players")).not_to_have_css("position", "sticky")
