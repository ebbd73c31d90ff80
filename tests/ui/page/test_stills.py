"""Saved runs whose videos are not at hand: the players show the frames that the judge saw."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.ui.conftest import PHONE, Serve, Server
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.saved_examples import SCRIPT, write_example
from tests.ui.support.steps import wait_for

pytestmark = pytest.mark.browser


STILLS = """() => ["first", "second"].map((name) => {
    const still = document.querySelector(`#${name} .vrt-still`);
    return still && still.checkVisibility() ? still.querySelector("img").getAttribute("src") : null;
})"""
"""What each player shows in place of a video; None where nothing does."""
TILES = """() => [...document.querySelectorAll(".vrt-turns .vrt-tile")].map(({ tile }) => ({
    frames: tile.label.replaceAll("#", ""),
    src: tile.halves.map((half) => half && half.src),
    at: tile.halves.map((half) => half && half.at),
    place: tile.halves.map((half) => half && half.place),
}))"""
GONE = "The videos of this run are not kept here: the players show the frames that the judge saw."


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Examples of which both videos, one, and none are at hand."""
    examples = tmp_path_factory.mktemp("examples")
    for hue, (name, lost) in enumerate(
        {"whole": (), "half": ("second",), "gone": ("first", "second")}.items()
    ):
        folder = write_example(examples / name, hue=20 + 10 * hue)
        for side in lost:
            (folder / f"{side}.mp4").unlink()
    return serve(SCRIPT, "--examples", str(examples), protocol="paired")


@pytest.fixture
def gone(server: Server, open_page: Open) -> Page:
    """The page as a link opens it whose videos are not kept."""
    page = open_page(f"{server.url}?trace=gone")
    expect(page.locator("#second .vrt-still")).to_be_visible()
    return page


def tiles(page: Page) -> list[dict[str, Any]]:
    return list(page.evaluate(TILES))


def test_every_way_to_a_frame_leads_to_its_stills(gone: Page) -> None:
    page, seen = gone, tiles(gone)
    assert page.locator(".vrt-lost").inner_text() == GONE
    assert page.locator("[data-action=swap]").is_disabled(), "there is nothing to swap"
    by_place = sorted(seen, key=lambda tile: tile["place"][0])
    assert page.evaluate(STILLS) == by_place[0]["src"], "a run begins with its first frames"
    for number, tile in enumerate(seen):
        page.locator(".vrt-turns .vrt-tile").nth(number).click()
        expect(page.locator(".vrt-note")).to_have_text("Thumbnail: the videos are gone.")
        page.keyboard.press("Escape")  # the closer look
        assert page.evaluate(STILLS) == tile["src"]
        assert page.locator(".vrt-time").inner_text().startswith(f"index {tile['frames']} of ")
        page.locator(".vrt-mark").nth(len(seen) - 1 - number).click()
        assert page.evaluate(STILLS) == seen[len(seen) - 1 - number]["src"]
    page.keyboard.press("Home")
    for tile in by_place:
        page.keyboard.press("ArrowRight")
        assert page.evaluate(STILLS) == tile["src"]
        assert (
            page.locator(".vrt-turns [aria-current]").get_attribute("data-frames") == tile["frames"]
        )
    for tile in by_place[-2::-1]:
        page.keyboard.press(",")
        assert page.evaluate(STILLS) == tile["src"]
    link = page.locator(".vrt-ref:enabled").first
    link.click()
    assert page.evaluate(STILLS) in [
        tile["src"] for tile in seen if link.get_attribute("data-frame") in tile["frames"]
    ]


def test_any_moment_shows_the_nearest_frame_of_each_video_and_its_time(gone: Page) -> None:
    page, seen = gone, tiles(gone)
    box = page.locator(".vrt-track").bounding_box()
    for fraction in (0.02, 0.2, 0.33, 0.55, 0.71, 0.98):
        page.mouse.click(box["x"] + fraction * box["width"], box["y"] + 4)
        for side, still in enumerate(page.evaluate(STILLS)):
            length = max(tile["at"][side] / tile["place"][side] for tile in seen)
            away = {tile["src"][side]: abs(tile["at"][side] - fraction * length) for tile in seen}
            assert away[still] <= min(away.values()) + 0.02 * length, (fraction, side)
        times = [still.get_attribute("alt") for still in page.locator(".vrt-still img").all()]
        assert all(
            str(time).rpartition(", ")[2] in page.locator(".vrt-time").inner_text()
            for time in times
        )


def test_playing_shows_one_frame_after_the_other(gone: Page) -> None:
    page = gone
    order = [tile["src"][0] for tile in sorted(tiles(page), key=lambda tile: tile["place"][0])]
    page.evaluate("""() => {
        window.seen = [];
        const image = document.querySelector("#first .vrt-still img");
        new MutationObserver(() => seen.push(image.getAttribute("src"))).observe(image, { attributeFilter: ["src"] });
    }""")
    page.get_by_role("button", name="Loop").click()
    page.get_by_role("button", name="Play both").click()
    page.wait_for_function(
        "document.querySelector('[data-action=play]').textContent === '▶' && seen.length > 0"
    )
    assert page.evaluate("seen") == [src for src in order if src in page.evaluate("seen")], (
        "in the order of their times"
    )
    assert page.evaluate("seen.at(-1)") == order[-1]
    page.keyboard.press(" ")
    page.wait_for_function("document.querySelector('[data-action=play]').textContent !== '▶'")


def test_a_video_takes_the_place_of_its_still_and_both_can_be_compared(
    gone: Page, clips: Clips
) -> None:
    page, seen = gone, tiles(gone)
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Upload video 1").click()
    chooser.value.set_files(str(clips[0]))
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 1")
    expect(page.locator(".vrt-lost")).to_have_text(
        re.compile("^Video 2 of this run is not kept here")
    )
    page.locator(".vrt-turns .vrt-tile").nth(2).click()
    page.keyboard.press("Escape")
    assert page.evaluate(STILLS) == [None, seen[2]["src"][1]]
    assert page.evaluate("document.querySelector('#first video').currentTime") == pytest.approx(
        seen[2]["at"][0], abs=1e-3
    )
    page.locator("#first button[aria-label='Clear']").click()
    expect(page.locator("#first .vrt-still")).to_be_visible()
    for side, clip in zip(("first", "second"), clips, strict=True):
        page.locator(f"#{side} input[type=file]").set_input_files(str(clip))
        page.wait_for_function(f"document.querySelector('#{side} video')?.readyState >= 1")
    expect(page.locator(".vrt-lost")).to_be_hidden()
    page.locator("#go").click()
    wait_for(page, "^Finished")
    page.locator("#second button[aria-label='Clear']").click()
    expect(page.locator("#second video")).to_have_count(0)
    assert page.evaluate(STILLS) == [None, None], "a live run has no stills"


def test_only_what_is_not_at_hand_is_a_still_and_a_phone_keeps_it_in_sight(
    server: Server, open_page: Open
) -> None:
    page = open_page(f"{server.url}?trace=whole", **PHONE)
    expect(page.locator("#second video")).to_be_visible()
    assert page.evaluate(STILLS) == [None, None]
    assert page.locator(".vrt-lost").is_hidden()
    page.goto(f"{server.url}?trace=half")
    expect(page.locator("#second .vrt-still")).to_be_visible()
    expect(page.locator("#first video")).to_be_visible()
    assert page.evaluate(STILLS)[0] is None
    expect(page.locator(".vrt-lost")).to_have_text(re.compile("^Video 2 "))
    page.goto(f"{server.url}?trace=gone")
    expect(page.locator("#first .vrt-still")).to_be_visible()
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight / 2)")
    expect(page.locator("#first .vrt-still")).to_be_in_viewport()
