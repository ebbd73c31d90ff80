"""All frames: the pairs of a run, how each came, and what the judge wrote with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.conftest import OpenReport
from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Locator, Open, Page, Serve, Server, expect, opened
from tests.ui.support.handmade_runs import many_turns, three_turns
from tests.ui.support.saved_examples import LABELS, ask, write_example
from vrthinker_core.protocols.parser import frame_numbers

WANTED = (10, 20, 30, 40, 60, 70, 90)
NOTED = "<Snapshot>Frame 60 is blurred. Frame 70 is not.</Snapshot>"
REASONS = "VQ: 16 and #60 differ, so video 1 is better. OA: video 1 is better. MQ: 2 s say nothing."
SCRIPT = (ask(*WANTED), f"{NOTED}<Think>{REASONS}</Think>{LABELS}")


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block", SCRIPT)
    return serve(SCRIPT, "--examples", str(folder), protocol="paired")


def tile(page: Page, number: int) -> Locator:
    return page.locator(f"#frames .vrt-tile[data-frames='{number}']")


def shown(page: Page) -> list[str]:
    """The numbers of the pairs that are not filtered out."""
    tiles = page.locator("#frames .vrt-tile:visible")
    return list(tiles.evaluate_all("all => all.map((tile) => tile.dataset.frames)"))


def named(page: Page) -> list[str]:
    """The sentences that stand out beside the chosen pair."""
    return page.locator("#frames .vrt-pair mark").all_inner_texts()


def only(page: Page, name: str) -> None:
    steps.button(page.get_by_role("group", name="Pairs shown"), name).click()


@pytest.fixture
def gallery(page: Page) -> Page:
    steps.show_example(page)
    steps.tab(page, "Frames")
    return page


@opened(**steps.SCREENS)
def test_a_pair_is_chosen_and_chosen_again(gallery: Page, axe: str) -> None:
    page, pair = gallery, gallery.locator("#frames .vrt-pair")
    chips = page.get_by_role("group", name="Pairs shown").get_by_role("button")
    expect(chips).to_have_text(["All 11", "Given 4", "Asked for 7", "Named 2"])
    assert shown(page) == list(map(str, (16, 48, 80, 112, *WANTED)))
    tops = [tile(page, int(number)).bounding_box()["y"] for number in shown(page)]
    assert tops.count(tops[0]) == (3 if steps.is_narrow(page) else 6)
    tile(page, 60).scroll_into_view_if_needed()
    before = tile(page, 60).bounding_box()
    tile(page, 60).click()
    assert tile(page, 60).bounding_box() == before, "a second click finds it"
    assert "index 60 of 127" in steps.moment(page)
    told = tile(page, 60).get_attribute("aria-label")
    assert told.startswith("#60, Asked for in turn 1, named in the reasoning"), told
    expect(pair).to_contain_text("Asked for in turn 1 · named in the reasoning for the verdict")
    assert named(page) == ["Frame 60 is blurred.", "VQ: 16 and #60 differ, so video 1 is better."]
    assert steps.serious_violations(page, axe) == []
    assert steps.fits(page)
    text = pair.locator(".vrt-text").bounding_box()
    picture = pair.locator(".vrt-screens").bounding_box()
    assert (text["y"] > picture["y"]) == steps.is_narrow(page)
    tile(page, 60).click()
    expect(page.get_by_role("dialog")).to_contain_text("#60 · turn 2")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.dataset.frames") == "60"


def test_arrows_enter_and_filters(gallery: Page) -> None:
    page, dialog = gallery, gallery.get_by_role("dialog")
    page.get_by_role("group", name="Pairs shown").get_by_role("button").last.focus()
    for key, frame in {
        "Tab": "16", "ArrowRight": "48", "ArrowDown": "20", "End": "90", "ArrowUp": "30",
        "ArrowLeft": "20", "Home": "16",
    }.items():  # fmt: skip
        page.keyboard.press(key)
        assert page.evaluate("document.activeElement.dataset.frames") == frame, key
    assert steps.chosen(page, "#frames") == "16"
    expect(page.locator("#frames .vrt-pair")).to_contain_text("Reasoning for the verdict, turn 2")
    assert named(page) == ["VQ: 16 and #60 differ, so video 1 is better."]
    page.locator("#frames .vrt-pair .vrt-ref").first.click()
    assert steps.chosen(page, "#frames") == "60"
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("#60 · turn 2")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    assert steps.chosen(page, "#frames") == "70", "what was looked at last"
    assert named(page) == ["Frame 70 is not."]
    only(page, "Named")
    assert shown(page) == ["16", "60"]
    expect(page.locator("#frames .vrt-pair")).to_have_count(0)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("#16 · turn 1")
    page.keyboard.press("Escape")
    only(page, "Given")
    assert shown(page) == ["16", "48", "80", "112"]
    steps.button(page, "Look closer").click()
    expect(dialog).to_be_visible()


@opened("endless")
def test_new_pairs_come_while_one_is_chosen(page: Page, clips: Clips) -> None:
    steps.start(page, clips)
    steps.tab(page, "Frames")
    tile(page, 48).click()
    expect(tile(page, 90)).to_be_visible()
    assert steps.chosen(page, "#frames") == "48"
    tile(page, 90).click()
    thought = page.locator("#frames .vrt-pair .vrt-text")
    expect(thought).to_contain_text("on and on and on")
    expect(page.get_by_role("group", name="Pairs shown")).to_contain_text("Asked for 4")
    steps.stop(page)
    assert steps.chosen(page, "#frames") == "90"


def test_many_pairs_and_those_that_left_the_memory(page: Page, tmp_path: Path) -> None:
    steps.replay(page, tmp_path / "many.json", many_turns(40))
    steps.tab(page, "Frames")
    expect(page.locator("#frames .vrt-tile")).to_have_count(80)
    tile(page, 16).focus()
    for _ in range(79):
        page.keyboard.press("ArrowRight")
    assert steps.chosen(page, "#frames") == "99"
    steps.replay(page, tmp_path / "three.json", three_turns())
    steps.tab(page, "Frames")
    gone = page.locator("#frames .vrt-tile").filter(has_text="out of view")
    expect(gone.locator("b")).to_have_text(["#10", "#30", "#90"])


def test_a_frame_of_one_video_the_other_order_and_a_hidden_verdict(
    serve: Serve, every_example: Path, open_page: Open
) -> None:
    page = open_page(serve(SCRIPT, "--examples", str(every_example), protocol="paired").url)
    steps.show_example(page, 2)
    steps.tab(page, "Frames")
    alone = page.locator("#frames .vrt-tile").last
    expect(alone.locator(".vrt-missing")).to_have_text("not requested")
    assert "video 2 not requested" in alone.get_attribute("aria-label")
    steps.show_example(page, 3)
    pictures = "all => all.map((image) => image.getAttribute('src'))"
    for name in ("As given", "Sides swapped"):
        steps.tab(page, "Thinking")
        steps.button(page, name).click()
        seen = page.locator("#trace .vrt-tile img").evaluate_all(pictures)
        steps.tab(page, "Frames")
        assert page.locator("#frames .vrt-tile img").evaluate_all(pictures) == seen
    page.locator("#vote-first input").check()
    steps.tab(page, "Thinking")
    page.locator(".vrt-card").first.click()
    expect(page.locator(".vrt-hidden")).to_be_visible()
    steps.tab(page, "Frames")
    tile(page, 60).click()
    expect(page.locator("#frames .vrt-pair")).to_contain_text("Hidden until you have voted")


def test_a_report_has_the_gallery(open_report: OpenReport) -> None:
    trace = three_turns()
    last = replace(trace.turns[2].reply, think="VQ: #48 is blurred, so video 2 is better.")
    turns = (*trace.turns[:2], replace(trace.turns[2], reply=last))
    page = open_report(replace(trace, turns=turns))
    page.locator("#frames summary").click()
    only(page, "Named 1")
    assert shown(page) == ["48"]
    tile(page, 48).click()
    assert named(page) == ["VQ: #48 is blurred, so video 2 is better."]
    tile(page, 48).click()
    expect(page.get_by_role("dialog")).to_contain_text("#48 · turn 1")


SENTENCES = [
    *("It jumps between 14 and 18.", "Frames 4, 14 and 18-24 are dark", "see #18.", "#4,#14"),
    *("Video 1 is 14 px wide in 18 s, at 24 fps.", "14% of 18", "4/14", "TA=1, 14 = 18"),
    *("videos 1 and 4", "video 14", "frames 14", "1.4 or 4.18", "4 frames, 14 times", "x14 y=18"),
]


def test_page_and_server_find_the_same_numbers(page: Page) -> None:
    numbers = ["1", "4", "14", "18", "24"]
    script = "([text, all]) => all.filter((each) => VRThinker.isNamed(text, [each]))"
    for text in SENTENCES:
        found = sorted(map(str, frame_numbers(text, numbers)))
        assert sorted(page.evaluate(script, [text, numbers])) == found, text
