"""Both players as one: they stay at the same moment whatever moves one of them, and leave nothing behind when they go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Server
from tests.ui.page.test_page import wait_for
from tests.ui.support.barcode_clips import steady, write_bars
from tests.ui.support.saved_examples import ANSWER

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]

PLACES = "[...document.querySelectorAll('#first video, #second video')].map((video) => video.currentTime / video.duration)"
PAUSED = (
    "[...document.querySelectorAll('#first video, #second video')].map((video) => video.paused)"
)
LIVE = "document.querySelector('.vrt-time').getAttribute('aria-live')"


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve([ANSWER], protocol="paired", pause=0.02)


def upload(page: Page, side: str, clip: Path) -> None:
    page.locator(f"#{side} input[type=file]").set_input_files(str(clip))
    page.wait_for_function(
        "side => document.querySelector(`#${side} video`)?.readyState >= 2", arg=side
    )


@pytest.fixture
def page(server: Server, open_page: Open, tmp_path: Path) -> Page:
    """The page with two videos of different lengths."""
    opened = open_page(server.url)
    upload(opened, "first", write_bars(tmp_path / "a.mp4", "libx264", steady(97, 24)))
    upload(opened, "second", write_bars(tmp_path / "b.mp4", "libx264", steady(150, 25)))
    return opened


def test_videos_that_change_sides_stay_where_the_rail_is(page: Page) -> None:
    track = page.locator(".vrt-track")
    box = track.bounding_box()
    assert box is not None
    track.click(position={"x": 0.5 * box["width"], "y": box["height"] / 2})
    until(lambda: all(abs(place - 0.5) < 0.02 for place in page.evaluate(PLACES)))
    page.get_by_role("button", name="Swap sides").click()
    page.wait_for_function("document.querySelector('#first video')?.duration > 5")
    until(
        lambda: (
            len(found := page.evaluate(PLACES)) == 2
            and all(abs(place - 0.5) < 0.02 for place in found)
        )
    )


def test_a_player_that_is_paused_by_itself_pauses_the_other(page: Page) -> None:
    for side in ("first", "second"):
        page.get_by_role("button", name="Play both").click()
        until(lambda: page.evaluate(PAUSED) == [False, False])
        assert page.evaluate(LIVE) == "off", "a screen reader would be told of each frame"
        page.evaluate("side => document.querySelector(`#${side} video`).pause()", side)
        until(lambda: page.evaluate(PAUSED) == [True, True])
        page.get_by_role("button", name="Play both").wait_for()
        assert page.evaluate(LIVE) == "polite"


PLAYING = "VRThinker.rail.players.playing"


def test_space_plays_after_a_pointer_has_pressed_a_button(page: Page) -> None:
    for button in (
        page.get_by_role("button", name="Later frame that the judge saw"),
        page.get_by_role("tab", name="Frames"),
    ):
        button.click()
        page.keyboard.press("Space")
        assert page.evaluate(PLAYING)
        page.keyboard.press("Space")
        assert not page.evaluate(PLAYING)
    loop = page.get_by_role("button", name="Loop")
    page.get_by_role("button", name="Speed").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert loop.get_attribute("aria-pressed") == "false", "keys have led to it: Space presses it"
    assert not page.evaluate(PLAYING)


def test_space_presses_neither_stop_nor_compare_after_a_click_on_compare(page: Page) -> None:
    page.locator("#prompt textarea").fill("A white block glides to the right.")
    page.locator("#go").click()
    page.wait_for_function("VRThinker.buttons.running")
    assert page.evaluate("document.activeElement === document.body")
    wait_for(page, "Finished")
    run = page.evaluate("VRThinker.trace.run")
    page.keyboard.press("Space")
    assert page.evaluate(PLAYING)
    page.wait_for_timeout(500)
    assert page.evaluate("VRThinker.trace.run") == run


RATES = """([speed, ...durations]) => {
    const players = new VRThinker.Players([], () => {});
    const videos = durations.map((duration) => ({ duration }));
    Object.assign(players, { speed, videos: () => videos });
    return videos.map((video) => players.rateOf(video, videos[0]));
}"""


@pytest.mark.parametrize(
    ("first", "second", "speed"), [(1, 30, 1), (30, 1, 0.25), (1, 30, 2), (4, 6, 1)]
)
def test_clips_of_very_different_lengths_go_at_speeds_that_browsers_have(
    server: Server, open_page: Open, first: int, second: int, speed: float
) -> None:
    rates = open_page(server.url).evaluate(RATES, [speed, first, second])
    assert rates[1] / rates[0] == pytest.approx(second / first), "both need the same time"
    assert all(1 / 16 <= rate <= 16 for rate in rates)
    assert rates[0] == speed or max(first, second) == 30


def test_a_player_that_goes_keeps_no_video_in_memory(page: Page, tmp_path: Path) -> None:
    old = page.query_selector("#first video")
    assert old is not None
    page.locator("#first button[aria-label=Clear]").click()
    until(lambda: not old.evaluate("(video) => video.isConnected"))
    until(
        lambda: (
            not old.evaluate("(video) => video.hasAttribute('src') || video.querySelector('track')")
        )
    )
    upload(page, "first", tmp_path / "a.mp4")


WITHOUT_END = """() => {
    const video = document.querySelector("#first video");
    Object.defineProperty(video, "duration", { get: () => Infinity });
    video.dispatchEvent(new Event("loadedmetadata"));
}"""
"""As a clip is that stores no duration, until the browser has read all of it, or its copy has come."""


def test_a_video_whose_end_is_not_known_is_left_alone_without_an_error(page: Page) -> None:
    page.evaluate(WITHOUT_END)
    page.locator("h1").click()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('#second video').currentTime > 5")
    assert page.evaluate("document.querySelector('#first video').currentTime") == 0


@pytest.mark.parametrize("width", [320, 390])
def test_both_players_fit_the_narrowest_screen(server: Server, open_page: Open, width: int) -> None:
    page = open_page(server.url, viewport={"width": width, "height": 700}, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
