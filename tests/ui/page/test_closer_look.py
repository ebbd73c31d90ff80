"""A closer look: a pair large, at the judge's pixels, in four modes; and the gallery of all pairs, which opens the same view."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from PIL import Image

from tests.ui.conftest import PHONE, Serve, Server
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.saved_examples import SCRIPT, write_example
from tests.ui.support.steps import saved, serious_violations, show_example, start, tab, wait_for

pytestmark = pytest.mark.browser


TRANSFORMS = "[...document.querySelectorAll('.vrt-lens img')].map((image) => getComputedStyle(image).transform)"


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    examples = tmp_path_factory.mktemp("examples")
    write_example(examples / "a-block")
    concat = (
        '<Think>One video only.</Think><tool_call>{"name": "select_frames", "arguments": {"target_frames": [5, 6]}}</tool_call>',
        "<final answer>TA=1, MQ=0, VQ=2, OA=1</final answer>",
    )
    write_example(examples / "b-concat", concat, protocol="concat")
    return serve(SCRIPT, "--examples", str(examples), protocol="paired", pause=0.01)


def look(page: Page, position: int = 0) -> None:
    page.locator("#trace .vrt-tile").nth(position).click()
    expect(page.locator(".vrt-closer")).to_be_visible()


def expect_exact(page: Page, size: str = "448 × 448") -> None:
    expect(page.locator(".vrt-note")).to_have_text(
        f"{size} pixels, exactly as the judge was given them."
    )


def title(page: Page) -> str:
    return page.locator(".vrt-closer h2").inner_text()


def mode(page: Page, name: str) -> None:
    page.locator(".vrt-tools").get_by_role("button", name=name).click()


def extrema(page: Page) -> object:
    """The darkest and the brightest value of each colour in the lenses."""
    picture = Image.open(io.BytesIO(page.locator(".vrt-lens").first.screenshot()))
    return list(picture.convert("RGB").getextrema())


def test_a_click_seeks_and_opens_the_judges_pixels_and_escape_leads_back(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    page.wait_for_selector(".vrt-turn:nth-child(2) .vrt-tile")
    before = page.evaluate("scrollY")
    look(page, 6)
    assert title(page) == "#60 · turn 2"
    assert re.fullmatch(
        r"Video 1 0\.\d\d s\s*Video 2 0\.\d\d s",
        page.locator(".vrt-closer-times").inner_text().strip(),
    )
    expect_exact(page)
    wait_for(page, "Finished")
    sizes = page.locator(".vrt-lens img").evaluate_all(
        "images => images.map((image) => [image.naturalWidth, image.naturalHeight])"
    )
    assert sizes == [[448, 448], [448, 448]]
    page.keyboard.press("Escape")
    expect(page.locator(".vrt-closer")).to_be_hidden()
    assert page.evaluate("document.activeElement.dataset.frames") == "60"
    assert abs(page.evaluate("scrollY") - before) < 900
    assert "index 60 of 127" in page.locator(".vrt-time").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator(".vrt-closer")).to_be_visible()


@pytest.fixture
def looking(server: Server, open_page: Open) -> Page:
    """The first pair of an example, looked at closely."""
    page = open_page(server.url)
    show_example(page)
    look(page)
    return page


def test_arrows_go_through_all_pairs_the_players_follow_and_the_focus_stays_inside(
    looking: Page,
) -> None:
    page, seen = looking, [title(looking)]
    for _ in range(7):
        page.keyboard.press("ArrowRight")
        seen.append(title(page))
    assert seen == [
        f"#{slot} · turn {1 + (place > 3)}"
        for place, slot in enumerate((16, 48, 80, 112, 10, 30, 60, 90))
    ]
    expect(page.locator(".vrt-place")).to_have_text("Pair 8 of 8")
    page.keyboard.press("ArrowRight")
    assert title(page) == seen[-1]
    expect_exact(page)
    page.locator(".vrt-closer").get_by_role("button", name="Earlier").click()
    assert title(page) == seen[-2]
    for key in ("Tab", "Shift+Tab"):
        for _ in range(14):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.closest('.vrt-closer') !== null")
    page.keyboard.press("Home")  # one of the players' keys
    page.keyboard.press("Escape")
    assert "index 60 of 127" in page.locator(".vrt-time").inner_text()
    assert page.locator("#trace .vrt-tile[aria-current]").get_attribute("data-frames") == "60"
    tab(page, "Frames")
    tile = page.locator("#frames .vrt-tile").nth(2)
    expect(tile).to_be_visible()
    tile.scroll_into_view_if_needed()
    before = page.evaluate("[scrollX, scrollY, document.documentElement.scrollHeight]")
    tile.click()
    assert title(page) == "#80 · turn 1"
    size = "node => [node.offsetWidth, node.offsetHeight]"
    assert page.locator(".vrt-closer").evaluate(size) == [1280, 900]
    expect_exact(page)
    page.keyboard.press("Escape")
    assert page.evaluate("[scrollX, scrollY, document.documentElement.scrollHeight]") == before
    assert page.evaluate("document.activeElement.closest('#frames') !== null")
    assert "index 80 of 127" in page.locator(".vrt-time").inner_text()
    assert page.locator("#frames .vrt-tile[aria-current]").get_attribute("data-frames") == "80"


def test_zoom_and_pan_are_those_of_both_frames(looking: Page) -> None:
    page = looking
    whole = page.evaluate(TRANSFORMS)
    assert whole[0] == whole[1]
    box = page.locator(".vrt-lens").first.bounding_box()
    assert box
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -500)
    page.wait_for_function(f"whole => {TRANSFORMS}[0] !== whole", arg=whole[0])
    near = page.evaluate(TRANSFORMS)
    assert near[0] == near[1]
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    moved = page.evaluate(TRANSFORMS)
    assert moved[0] == moved[1] != near[0]
    page.keyboard.press("ArrowRight")
    assert page.evaluate(TRANSFORMS) == moved, "the next pair is seen at the same place"
    page.locator(".vrt-lens").first.dblclick()
    assert page.evaluate(TRANSFORMS) == whole
    page.keyboard.press("+")
    expect(page.locator(".vrt-tools").get_by_role("button", name="Show all")).to_have_text("150 %")
    page.keyboard.press("-")
    assert page.evaluate(TRANSFORMS) == whole


def test_who_wants_little_motion_turns_over_by_hand_and_no_frame_differs_from_itself(
    looking: Page,
) -> None:
    page = looking
    expect_exact(page)
    mode(page, "Flicker")
    before = page.locator(".vrt-lenses").get_attribute("data-front")
    page.wait_for_timeout(1600)
    assert page.locator(".vrt-lenses").get_attribute("data-front") == before
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    mode(page, "Difference")
    assert extrema(page) != [(0, 0)] * 3
    page.evaluate(
        "() => { const [one, two] = document.querySelectorAll('.vrt-lens img'); two.src = one.src; }"
    )
    page.wait_for_function("() => document.querySelectorAll('.vrt-lens img')[1].complete")
    assert extrema(page) == [(0, 0)] * 3


def test_wipe_flicker_and_difference(server: Server, open_page: Open) -> None:
    page = open_page(server.url, reduced_motion="no-preference")
    show_example(page)
    look(page)
    expect_exact(page)
    second = page.locator(".vrt-lens").nth(1)
    mode(page, "Wipe")
    boxes = [page.locator(".vrt-lens").nth(number).bounding_box() for number in (0, 1)]
    assert boxes[0] == boxes[1]
    page.locator(".vrt-options input").fill("25")
    assert second.evaluate("node => getComputedStyle(node).clipPath") == "inset(0px 0px 0px 25%)"
    page.locator(".vrt-options input").press("ArrowRight")
    assert second.evaluate("node => getComputedStyle(node).clipPath") == "inset(0px 0px 0px 26%)"
    assert title(page) == "#16 · turn 1"
    mode(page, "Difference")
    assert second.evaluate("node => getComputedStyle(node).mixBlendMode") == "difference"
    mode(page, "Flicker")
    shown = "() => getComputedStyle(document.querySelectorAll('.vrt-lens')[1]).visibility"
    page.wait_for_function(f"({shown})() === 'hidden'")
    page.wait_for_function(f"({shown})() === 'visible'")
    page.get_by_role("button", name="Pause", exact=True).click()
    before = page.evaluate(shown)
    page.wait_for_timeout(1000)
    assert page.evaluate(shown) == before
    page.get_by_role("button", name="Other video").click()
    assert page.evaluate(shown) != before


def test_a_frame_of_one_video_only_is_never_compared(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    show_example(page, 1)
    look(page)
    mode(page, "Wipe")
    last = page.locator("#trace .vrt-tile").count() - 1
    for _ in range(last):
        page.keyboard.press("ArrowRight")
    assert page.locator(".vrt-lenses").get_attribute("data-mode") == "side"
    assert page.locator(".vrt-lens .vrt-missing:visible").inner_text() == "not requested"
    expect(page.locator(".vrt-tools [data-mode=difference]")).to_be_disabled()
    page.locator(".vrt-tools [data-mode=difference]").dispatch_event("click")
    assert page.locator(".vrt-lenses").get_attribute("data-mode") == "side"


def test_a_saved_report_has_gallery_and_closer_look_with_its_thumbnails(
    server: Server, open_page: Open, open_file: Open, tmp_path: Path
) -> None:
    page = open_page(server.url)
    show_example(page)
    report = open_file(saved(page, tmp_path / "report.html", "Report (.html)"))
    report.locator("#frames summary").click()
    report.locator("#frames .vrt-tile").nth(4).click()
    expect(report.locator(".vrt-closer h2")).to_have_text("#10 · turn 2")
    expect(report.locator(".vrt-note")).to_contain_text("Thumbnail")
    report.keyboard.press("ArrowLeft")
    expect(report.locator(".vrt-closer h2")).to_have_text("#112 · turn 1")
    assert (
        report.locator(".vrt-lens img").first.evaluate(
            "image => image.complete && image.naturalWidth"
        )
        == 224
    )


@pytest.mark.parametrize(
    "screen", [{}, {**PHONE, "color_scheme": "dark"}], ids=["desktop", "phone"]
)
def test_axe_finds_nothing_serious_and_all_fits(
    server: Server, open_page: Open, axe: str, screen: dict[str, object]
) -> None:
    page = open_page(server.url, bypass_csp=True, **screen)
    show_example(page)
    look(page)
    expect_exact(page)
    for name in ("Side by side", "Wipe", "Difference", "Flicker"):
        mode(page, name)
        assert serious_violations(page, axe) == []
        inside = "node => node.scrollWidth <= innerWidth && node.scrollHeight <= innerHeight"
        assert page.locator(".vrt-closer").evaluate(inside), name
        for lens in page.locator(".vrt-lens").all():
            box = lens.bounding_box()
            assert box is None or min(box["width"], box["height"]) > 190
