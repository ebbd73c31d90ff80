"""The page for everybody: axe, the focus, forced colours, small screens and large letters."""

import io

from PIL import Image, ImageChops

from tests.support.waiting import until
from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Locator, Page, expect, opened

PARTS = {"Thinking": ".vrt-verdict", "All frames": "#frames img", "History": ".vrt-runs li"}


@opened(**steps.DARK, also=steps.LIGHT)
def test_axe_finds_nothing_serious_before_and_after_a_run(page: Page, axe: str) -> None:
    """And at twice the size nothing is cut off."""
    steps.wait_for_judge(page)
    expect_hints_and_focus_to_be_seen(page)
    steps.open_settings(page, more=True)
    assert steps.serious_violations(page, axe) == []
    steps.show_example(page, 3)
    steps.button(page, "Sides swapped", exact=True).click()
    expect(page.locator(".vrt-swapped-notice")).to_be_visible()
    assert steps.serious_violations(page, axe) == []
    steps.show_example(page)
    for name, part in PARTS.items():
        steps.tab(page, name)
        expect(page.locator(part).first).to_be_visible()
        assert steps.serious_violations(page, axe) == []
    expect_forced_colours_to_leave_verdict_and_tab_to_be_seen(page)
    page.set_viewport_size({"width": 640, "height": 450})
    assert steps.fits(page)
    steps.show_example(page, 3)
    for name in PARTS:
        steps.tab(page, name)
        assert steps.fits(page)
        expect(page.get_by_role("tab", name=name).first).to_be_in_viewport(ratio=0.98)


@opened("endless", **steps.LIGHT, also=steps.DARK)
def test_axe_finds_nothing_serious_in_a_live_run(page: Page, axe: str, clips: Clips) -> None:
    steps.begin(page, clips)
    assert steps.serious_violations(page, axe) == []
    steps.stop(page)
    assert steps.serious_violations(page, axe) == []
    steps.expect_runs(page, "Stopped")
    steps.button(page, "Delete all runs").click()
    expect(steps.button(page, "Keep them")).to_be_focused()
    assert steps.serious_violations(page, axe) == []


def seen(page: Page, part: str, beyond: int) -> Image.Image:
    """A part as it is drawn, and so many pixels around it."""
    box = page.locator(part).bounding_box()
    area = {side: box[side] - beyond for side in "xy"}
    area |= {side: box[side] + 2 * beyond for side in ("width", "height")}
    return Image.open(io.BytesIO(page.screenshot(clip=area))).convert("L")


def expect_hints_and_focus_to_be_seen(page: Page) -> None:
    for part in ("#prompt textarea", "#address-1 input", "#address-2 input"):
        darkest, brightest = seen(page, part, -8).getextrema()
        lights = [((value / 255 + 0.055) / 1.055) ** 2.4 for value in (darkest, brightest)]
        assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 4.5, part
    parts = ("#prompt textarea", "#blind button")
    pictures = [seen(page, part, 6) for part in parts]
    page.keyboard.press("Tab")  # from here on the keys move the focus
    for part, before in zip(parts, pictures, strict=True):
        page.locator(part).focus()
        difference = ImageChops.difference(before, seen(page, part, 6))
        left, top, right, bottom = difference.point(lambda light: 255 * (light > 60)).getbbox()
        assert right - left >= before.width - 16
        assert bottom - top >= before.height - 16


def colour(part: Locator, x: int, from_bottom: int) -> object:
    """As it is drawn: what a browser says of its styles tells nothing of forced colours."""
    picture = Image.open(io.BytesIO(part.screenshot())).convert("RGB")
    return picture.getpixel((x, picture.height - from_bottom))


def expect_forced_colours_to_leave_verdict_and_tab_to_be_seen(page: Page) -> None:
    steps.tab(page, "Thinking")
    page.emulate_media(forced_colors="active")
    page.locator("h1").hover()
    first, tie = (
        [colour(mark, 4, 4) for mark in page.locator(f".vrt-says{value} .vrt-glyph i").all()[:2]]
        for value in (1, 0)
    )
    assert first[0] != first[1]
    assert tie == [first[0], first[0]]
    chosen, another = (
        page.get_by_role("tab", name=name).first for name in ("Thinking", "All frames")
    )
    assert colour(chosen, 20, 1) != colour(another, 20, 1)
    mark = page.locator(".vrt-mark").first
    filled = colour(mark, 6, 24)
    mark.evaluate("(mark) => mark.classList.add('gone')")
    assert filled != colour(mark, 6, 24), "a frame that left the judge's view has a hollow mark"
    page.emulate_media(forced_colors="none")


LOW_BUTTONS = """() => [...document.querySelectorAll("button, summary")]
    .filter((node) => node.checkVisibility({ visibilityProperty: true }))
    .filter((node) => !node.matches(".vrt-ref, #players button") && node.offsetHeight < 44)
    .map((node) => node.outerHTML.slice(0, 120))"""
"""Links in a sentence are as high as its lines, and Gradio's player has its own controls."""
SMALL_LETTERS = """() => [...document.querySelectorAll("input, select, textarea")]
    .filter((node) => node.checkVisibility() && parseFloat(getComputedStyle(node).fontSize) < 16)
    .filter((node) => !node.disabled).map((node) => node.outerHTML.slice(0, 120))"""


@opened(phone={**steps.PHONE, "color_scheme": "dark", "reduced_motion": "reduce"})
def test_on_a_phone_a_finger_hits_every_button_and_all_fits(page: Page) -> None:
    assert page.evaluate(LOW_BUTTONS) == []
    steps.show_example(page)
    remove = page.locator("#first button[aria-label='Clear']")
    expect(remove).to_be_hidden()  # no finger hits it by mistake while it is read

    def seen_at_the_top() -> bool:
        page.evaluate("scrollTo(0, 0)")  # again, since the page may still follow its reading
        return remove.is_visible()

    until(seen_at_the_top)
    steps.button(page, "Vote", exact=True).click()
    page.locator(".vrt-ballot summary").click()
    assert page.evaluate(LOW_BUTTONS) == []
    assert page.evaluate(SMALL_LETTERS) == []
    assert steps.fits(page)
    steps.look(page)
    assert page.evaluate(LOW_BUTTONS) == []
