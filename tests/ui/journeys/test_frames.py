"""All frames of a run: pairs and what was written with them, and a closer look in four modes."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from tests.support.waiting import until, until_equal
from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Locator, Open, Page, Serve, Server, expect, opened
from tests.ui.support.handmade_runs import asking, pairs, refs, three_turns
from tests.ui.support.saved_examples import LABELS, ask, write_example
from vrthinker_core.protocols.parser import frame_numbers
from vrthinker_core.ui.routes import render_report

WANTED = (10, 20, 30, 40, 60, 70, 90)
NOTED = "<Snapshot>Frame 60 is blurred. Frame 70 is not.</Snapshot>"
REASONS = "VQ: 16 and #60 differ, so video 1 is better. OA: video 1 is better. MQ: 2 s say nothing."
SCRIPT = (ask(*WANTED), f"{NOTED}<Think>{REASONS}</Think>{LABELS}")
PAIRS = [f"#{n} · turn {2 if n % 16 else 1}" for n in (16, 48, 80, 112, *WANTED)]
INSIDE = "node => node.scrollWidth <= innerWidth && node.scrollHeight <= innerHeight"


@pytest.fixture(scope="module")
def talking(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with one example, which names frames in its reasoning."""
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block", SCRIPT)
    return serve(SCRIPT, "--examples", str(folder), protocol="paired")


# -- all frames -----------------------------------------------------------------------------------


def tile(page: Page, number: int) -> Locator:
    return page.locator(f"#frames .vrt-tile[data-frames='{number}']")


def shown(page: Page) -> list[str]:
    """The numbers of the pairs that are not filtered out."""
    tiles = page.locator("#frames .vrt-tile:visible")
    return list(tiles.evaluate_all("all => all.map((tile) => tile.dataset.frames)"))


def named(page: Page) -> list[str]:
    """The sentences that stand out beside the chosen pair."""
    marked = "[...CSS.highlights.get('vrt-chosen') ?? []].map(String)"
    return list(page.evaluate(marked))


def only(page: Page, name: str) -> None:
    steps.button(page.get_by_role("group", name="Pairs shown"), name).click()


def focused(page: Page) -> str | None:
    return page.evaluate("document.activeElement.dataset.frames")


@opened("talking", **steps.WIDE, also=steps.SMALLER)
def test_a_pair_is_chosen_and_chosen_again(page: Page, axe: str) -> None:
    steps.show_example(page)
    steps.tab(page, "Frames")
    pair = page.locator("#frames .vrt-pair")
    chips = page.get_by_role("group", name="Pairs shown").get_by_role("button")
    expect(chips).to_have_text(["All 11", "Given 4", "Asked for 7", "Named 2"])
    assert shown(page) == list(map(str, (16, 48, 80, 112, *WANTED)))
    tops = [tile(page, int(number)).bounding_box()["y"] for number in shown(page)]
    assert tops.count(tops[0]) == (3 if steps.is_narrow(page) else 6)
    tile(page, 60).scroll_into_view_if_needed()
    before = tile(page, 60).bounding_box()
    tile(page, 60).click()
    assert tile(page, 60).bounding_box() == before, "a second click finds it"
    assert "#60 (of 0–127)" in steps.moment(page)
    told = tile(page, 60).get_attribute("aria-label")
    assert told.startswith("#60, Asked for in turn 1, named in the reasoning"), told
    expect(pair).to_contain_text("Asked for in turn 1 · named in the reasoning for the verdict")
    assert named(page) == ["Frame 60 is blurred.", "VQ: 16 and #60 differ, so video 1 is better."]
    assert steps.serious_violations(page, axe) == []
    assert steps.fits(page)
    tile(page, 60).click()
    expect(page.get_by_role("dialog")).to_contain_text("#60 · turn 2")
    place = "[scrollX, scrollY, document.documentElement.scrollHeight]"
    before = page.evaluate(place)
    page.keyboard.press("Escape")
    assert focused(page) == "60"
    assert page.evaluate(place) == before
    if not steps.is_narrow(page):
        go_through_pairs_by_keys_and_filters(page)


def go_through_pairs_by_keys_and_filters(page: Page) -> None:
    dialog, pair = page.get_by_role("dialog"), page.locator("#frames .vrt-pair")
    page.get_by_role("group", name="Pairs shown").get_by_role("button").last.focus()
    keys = ("Tab", "Home", "ArrowRight", "ArrowDown", "End", "ArrowUp", "ArrowLeft")
    for key, frame in zip(keys, (60, 16, 48, 40, 90, 10, 112), strict=True):
        page.keyboard.press(key)
        assert focused(page) == str(frame), key
    page.keyboard.press("Home")
    assert steps.chosen(page, "#frames") == "16"
    expect(pair).to_contain_text("Reasoning for the verdict, turn 2")
    assert named(page) == ["VQ: 16 and #60 differ, so video 1 is better."]
    pair.locator(".vrt-ref", has_text="#60").first.click()
    assert steps.chosen(page, "#frames") == "60"
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("#60 · turn 2")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    assert steps.chosen(page, "#frames") == "70", "what was looked at last"
    assert named(page) == ["Frame 70 is not."]
    only(page, "Named")
    assert shown(page) == ["16", "60"]
    expect(pair).to_have_count(0)
    only(page, "Given")
    assert shown(page) == ["16", "48", "80", "112"]
    tile(page, 48).click()
    steps.button(page, "Look closer").click()
    expect(dialog).to_be_visible()


SENTENCES = [
    *("It jumps between 14 and 18.", "Frames 4, 14 and 18-24 are dark", "see #18.", "#4,#14"),
    *("Video 1 is 14 px wide in 18 s, at 24 fps.", "14% of 18", "4/14", "TA=1, 14 = 18"),
    *("videos 1 and 4", "video 14", "frames 14", "1.4 or 4.18", "4 frames, 14 times", "x14 y=18"),
]


COLOUR_OF_A_TURN = """() => {
    const marks = [...document.querySelectorAll(".vrt-mark")]
        .map((mark) => getComputedStyle(mark, "::after").backgroundColor);
    const turn = getComputedStyle(document.querySelector("#trace .vrt-turn")).borderLeftColor;
    return marks.length === 24 && new Set(marks).size === 12 && turn === marks[0];
}"""
"""The marks of 24 frames say by their colour which of 12 turns saw them."""


def test_a_long_run_has_all_its_frames_in_the_rail_and_in_the_gallery(
    page: Page, tmp_path: Path
) -> None:
    turns = [asking(turn, pairs([15 + turn, 59 + turn]), [60]) for turn in range(1, 13)]
    in_view = refs([frame for turn in turns for frame in turn.frames])
    many = replace(three_turns(), turns=(*turns[:-1], replace(turns[-1], in_view=in_view)))
    steps.replay(page, tmp_path / "many.json", many)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(COLOUR_OF_A_TURN)
    steps.tab(page, "Frames")
    expect(page.locator("#frames .vrt-tile")).to_have_count(24)
    tile(page, 16).focus()
    for _ in range(23):
        page.keyboard.press("ArrowRight")
    assert steps.chosen(page, "#frames") == "71"
    steps.replay(page, tmp_path / "three.json", three_turns())
    steps.tab(page, "Frames")
    gone = page.locator("#frames .vrt-tile").filter(has_text="out of view")
    expect(gone.locator("b")).to_have_text(["#10", "#30", "#90"])
    numbers = ["1", "4", "14", "18", "24"]
    script = "([text, all]) => all.filter((each) => VRThinker.isNamed(text, [each]))"
    for text in SENTENCES:  # page and server find the same numbers
        found = sorted(map(str, frame_numbers(text, numbers)))
        assert sorted(page.evaluate(script, [text, numbers])) == found, text


def test_a_frame_of_one_video_the_other_order_and_a_hidden_verdict(page: Page) -> None:
    steps.show_example(page, 2)
    steps.tab(page, "Frames")
    alone = page.locator("#frames .vrt-tile").last
    expect(alone.locator(".vrt-missing")).to_have_text("not requested")
    assert "video 2 not requested" in alone.get_attribute("aria-label")
    alone.click()
    alone.click()
    expect(page.locator(".vrt-lens .vrt-missing:visible")).to_have_text("not requested")
    difference = steps.button(page, "Difference", exact=True)
    expect(difference).to_be_disabled()
    difference.dispatch_event("click")
    expect(steps.button(page, "Side by side")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    steps.show_example(page, 3)
    pictures = "all => all.map((image) => image.getAttribute('src'))"
    for name in ("As given", "Sides swapped"):
        steps.tab(page, "Thinking")
        steps.button(page, name).click()
        seen = page.locator("#trace .vrt-tile img").evaluate_all(pictures)
        steps.tab(page, "Frames")
        assert page.locator("#frames .vrt-tile img").evaluate_all(pictures) == seen
    page.evaluate("VRThinker.remember('vote_first', 'on')")
    steps.tab(page, "Thinking")
    page.locator(".vrt-card").first.click()
    expect(page.locator(".vrt-hidden")).to_be_visible()
    steps.tab(page, "Frames")
    tile(page, 60).click()
    expect(page.locator("#frames .vrt-pair")).to_contain_text("Hidden until you have voted")
    steps.tab(page, "Thinking")
    steps.button(page, "Show the verdict without voting").click()
    expect(steps.headline(page)).to_be_visible()
    expect(page.locator(".vrt-hidden")).to_be_hidden()


@opened()
def test_an_address_leads_to_a_turn_and_a_frame(page: Page, server: Server) -> None:
    """The line of turns stays in sight; a tile's sentences are marked while it is pointed at."""
    page.goto(f"{server.url}?trace=b-block#frame-60")
    expect(page.locator(".vrt-tile[aria-current=true]")).to_contain_text("#60")
    walk = page.get_by_role("navigation", name="Turns").get_by_role("link")
    expect(walk).to_have_count(2)
    walk.last.click()
    assert page.url.endswith("?trace=b-block#turn-2")
    expect(page.locator("#turn-2 h3")).to_be_in_viewport()
    expect(walk.first).to_be_in_viewport()
    page.locator("#turn-2 .vrt-tile").first.hover()
    marked = "[...CSS.highlights.get('vrt-named') ?? []].map(String).join()"
    until(lambda: "60" in page.evaluate(marked))


def test_a_report_has_the_gallery(open_file: Open, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text(render_report(three_turns()), encoding="utf-8")
    page = open_file(report)
    page.locator("#frames summary").click()
    only(page, "Asked for")
    tile(page, 56).click()
    tile(page, 56).click()
    expect(page.get_by_role("dialog")).to_contain_text("#56 · turn 3")


@opened("endless")
def test_the_frames_of_a_live_run_can_be_chosen_and_looked_at(page: Page, clips: Clips) -> None:
    """A closer look shows the judge's pixels, and gives the focus back."""
    steps.start(page, clips)
    expect(steps.turns(page).nth(1).locator(".vrt-tile").first).to_be_visible()
    closer = steps.look(page, 6)
    expect_pair(page, "#60 · turn 2")
    expect_exact(page)
    sizes = "all => all.map((image) => `${image.naturalWidth}×${image.naturalHeight}`)"
    assert page.locator(".vrt-lens img").evaluate_all(sizes) == ["448×448"] * 2
    page.keyboard.press("Escape")
    expect(closer).to_have_count(0)
    assert focused(page) == "60"
    assert "#60 (of 0–127)" in steps.moment(page)
    steps.tab(page, "Frames")
    tile(page, 90).click()
    thought = page.locator("#frames .vrt-pair .vrt-text")
    expect(thought).to_contain_text("on and on and on")
    steps.stop(page)
    assert steps.chosen(page, "#frames") == "90"


# -- a closer look --------------------------------------------------------------------------------


def expect_pair(page: Page, name: str) -> None:
    expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text(name)


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


@opened("talking", desktop={}, also={"phone": {**steps.PHONE, "color_scheme": "dark"}})
def test_four_modes_zoom_and_pan_in_a_closer_look(page: Page, axe: str) -> None:
    steps.show_example(page)
    steps.look(page)
    expect_exact(page)
    for name in ("Wipe", "Difference", "Flicker", "Side by side"):
        press(page, name)
        assert steps.serious_violations(page, axe) == []
        assert page.get_by_role("dialog").evaluate(INSIDE), name
    if not steps.is_narrow(page):
        zoom_and_pan_both(page)
        compare_in_each_mode(page)
        for name in PAIRS[1:]:
            expect_pair(page, name)
            page.keyboard.press("ArrowRight")
        expect(page.get_by_role("dialog")).to_contain_text("Pair 11 of 11")
        press(page, "Earlier")
        for key in [*["Tab"] * 14, *["Shift+Tab"] * 14]:
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.closest('dialog') !== null")
        page.keyboard.press("Home")  # one of the players' keys
        page.keyboard.press("Escape")
        assert "#70 (of 0–127)" in steps.moment(page)
        assert steps.chosen(page) == "70"


def zoom_and_pan_both(page: Page) -> None:
    images = page.locator(".vrt-lens img")

    def seen() -> str:
        transforms = "all => all.map((image) => getComputedStyle(image).transform)"
        one, other = images.evaluate_all(transforms)
        assert one == other
        return one

    whole, box = seen(), page.locator(".vrt-lens").first.bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.75 * box["width"], y)
    page.mouse.wheel(0, -500)
    until(lambda: seen() != whole)
    near = seen()
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], y, steps=4)
    page.mouse.up()
    moved = seen()
    page.keyboard.press("ArrowRight")
    assert near != seen() == moved, "the next pair is seen at the same place"
    page.locator(".vrt-lens").first.dblclick()
    assert seen() == whole


def compare_in_each_mode(page: Page) -> None:
    """For who wants little motion nothing turns over by itself; no frame differs from itself."""
    first, second = page.locator(".vrt-lens").all()
    slider = page.get_by_role("slider", name="Where Video 1 ends")
    expect_exact(page)
    press(page, "Wipe")
    assert first.bounding_box() == second.bounding_box()
    slider.fill("25")
    slider.press("ArrowRight")
    assert style(second, "clipPath") == "inset(0px 0px 0px 26%)"
    expect_pair(page, PAIRS[1])
    press(page, "Flicker")
    before = style(second, "visibility")
    assert steps.stays(page, lambda: style(second, "visibility"), 1000)
    press(page, "Other video")
    assert style(second, "visibility") != before
    press(page, "Side by side")
    page.emulate_media(reduced_motion="no-preference")
    press(page, "Flicker")
    for seen in ("hidden", "visible"):
        until_equal(lambda: style(second, "visibility"), seen)
    press(page, "Difference")
    assert extrema(page) != [(0, 0)] * 3
    page.evaluate("const [a, b] = document.querySelectorAll('.vrt-lens img'); b.src = a.src;")
    until_equal(lambda: extrema(page), [(0, 0)] * 3)
