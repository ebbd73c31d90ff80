"""A closer look: a pair large, at the judge's pixels, in four modes; and the gallery of all pairs."""

import io

import pytest
from PIL import Image

from tests.support.waiting import until, until_equal
from tests.ui.support import steps
from tests.ui.support.browsing import PHONE, Clips, Locator, Page, expect, opened

TRANSFORMS = "all => all.map((image) => getComputedStyle(image).transform)"
INSIDE = "node => node.scrollWidth <= innerWidth && node.scrollHeight <= innerHeight"
PAIRS = [f"#{n} · turn {2 if n % 16 else 1}" for n in (16, 48, 80, 112, 10, 30, 60, 90)]


def expect_pair(page: Page, position: int) -> None:
    expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text(PAIRS[position])


def expect_exact(page: Page) -> None:
    expect(page.locator(".vrt-note")).to_contain_text("448 × 448 pixels, exactly as the judge")


def press(page: Page, name: str) -> None:
    steps.button(page.get_by_role("dialog"), name).click()


def style(part: Locator, name: str) -> str:
    return part.evaluate("(node, name) => getComputedStyle(node)[name]", name)


def extrema(page: Page) -> list[tuple[int, int]]:
    """The darkest and the brightest value of each colour in the lenses."""
    picture = Image.open(io.BytesIO(page.locator(".vrt-lens").first.screenshot()))
    return list(picture.convert("RGB").getextrema())


@pytest.fixture
def looking(page: Page) -> Page:
    steps.show_example(page)
    steps.look(page)
    return page


def test_a_tile_of_a_live_run_opens_the_judges_pixels(page: Page, clips: Clips) -> None:
    steps.start(page, clips)
    expect(steps.turns(page).nth(1).locator(".vrt-tile").first).to_be_visible()
    closer = steps.look(page, 6)
    expect_pair(page, 6)
    for side in (1, 2):
        expect(closer.locator(".vrt-closer-times")).to_contain_text(f"Video {side} 0.")
    expect_exact(page)
    steps.wait_for(page, "Finished")
    sizes = "all => all.map((image) => `${image.naturalWidth}×${image.naturalHeight}`)"
    assert page.locator(".vrt-lens img").evaluate_all(sizes) == ["448×448"] * 2
    page.keyboard.press("Escape")
    expect(closer).to_have_count(0)
    assert page.evaluate("document.activeElement.dataset.frames") == "60"
    assert "index 60 of 127" in steps.moment(page)
    page.keyboard.press("Enter")
    expect(closer).to_be_visible()


def test_arrows_lead_through_all_pairs_and_escape_leads_back(looking: Page) -> None:
    page, place = looking, "[scrollX, scrollY, document.documentElement.scrollHeight]"
    for position in (*range(8), 7):
        expect_pair(page, position)
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("dialog")).to_contain_text("Pair 8 of 8")
    expect_exact(page)
    press(page, "Earlier")
    expect_pair(page, 6)
    for key in [*["Tab"] * 14, *["Shift+Tab"] * 14]:
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Home")  # one of the players' keys
    page.keyboard.press("Escape")
    assert "index 60 of 127" in steps.moment(page)
    assert steps.chosen(page) == "60"
    steps.tab(page, "All frames")
    page.locator("#frames .vrt-tile").nth(2).click()  # the closer look is one more click away
    before = page.evaluate(place)
    closer = steps.look(page, 2, "#frames")
    expect_pair(page, 2)
    size = "node => node.offsetWidth === innerWidth && node.offsetHeight === innerHeight"
    assert closer.evaluate(size)
    page.keyboard.press("Escape")
    assert page.evaluate(place) == before
    assert page.evaluate("document.activeElement.closest('#frames') !== null")
    assert steps.chosen(page, "#frames") == "80"


def test_zoom_and_pan_are_those_of_both_frames(looking: Page) -> None:
    page, images = looking, looking.locator(".vrt-lens img")

    def shown() -> str:
        one, other = images.evaluate_all(TRANSFORMS)
        assert one == other
        return one

    whole, box = shown(), page.locator(".vrt-lens").first.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.75 * box["width"], y)
    page.mouse.wheel(0, -500)
    until(lambda: shown() != whole)
    near = shown()
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], y, steps=4)
    page.mouse.up()
    moved = shown()
    page.keyboard.press("ArrowRight")
    assert near != shown() == moved, "the next pair is seen at the same place"
    page.locator(".vrt-lens").first.dblclick()
    assert shown() == whole
    page.keyboard.press("+")
    expect(steps.button(page.get_by_role("dialog"), "Show all")).to_have_text("150 %")
    page.keyboard.press("-")
    assert shown() == whole


@opened(moving={"reduced_motion": "no-preference"}, calm={})
def test_wipe_flicker_and_difference(looking: Page, request: pytest.FixtureRequest) -> None:
    """For who wants little motion nothing turns over by itself; no frame differs from itself."""
    page, second = looking, looking.locator(".vrt-lens").nth(1)
    slider = page.get_by_role("slider", name="Where Video 1 ends")
    expect_exact(page)
    press(page, "Wipe")
    assert page.locator(".vrt-lens").first.bounding_box() == second.bounding_box()
    slider.fill("25")
    slider.press("ArrowRight")
    assert style(second, "clipPath") == "inset(0px 0px 0px 26%)"
    expect_pair(page, 0)
    press(page, "Flicker")
    if "moving" in request.node.name:
        for seen in ("hidden", "visible"):
            until_equal(lambda: style(second, "visibility"), seen)
        press(page, "Pause")
    before = style(second, "visibility")
    assert steps.stays(page, lambda: style(second, "visibility"), 1000)
    press(page, "Other video")
    assert style(second, "visibility") != before
    press(page, "Difference")
    assert extrema(page) != [(0, 0)] * 3
    page.evaluate("const [a, b] = document.querySelectorAll('.vrt-lens img'); b.src = a.src;")
    until_equal(lambda: extrema(page), [(0, 0)] * 3)


def test_a_frame_of_one_video_only_is_never_compared(page: Page) -> None:
    steps.show_example(page, 2)
    steps.look(page, page.locator("#trace .vrt-tile").count() - 1)
    expect(page.locator(".vrt-lens .vrt-missing:visible")).to_have_text("not requested")
    difference = steps.button(page, "Difference", exact=True)
    expect(difference).to_be_disabled()
    difference.dispatch_event("click")
    expect(steps.button(page, "Side by side")).to_have_attribute("aria-pressed", "true")


@opened(desktop={}, phone={**PHONE, "color_scheme": "dark"})
def test_axe_finds_nothing_serious_in_any_mode_and_all_fits(looking: Page, axe: str) -> None:
    expect_exact(looking)
    for name in ("Side by side", "Wipe", "Difference", "Flicker"):
        press(looking, name)
        assert steps.serious_violations(looking, axe) == []
        assert looking.get_by_role("dialog").evaluate(INSIDE), name
        boxes = filter(None, (each.bounding_box() for each in looking.locator(".vrt-lens").all()))
        assert all(min(box["width"], box["height"]) > 190 for box in boxes)
