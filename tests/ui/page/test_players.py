"""Both players as one, at exactly the frames that the judge saw: each frame carries its number as bars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.waiting import until, until_equal
from tests.ui.conftest import Serve, Server
from tests.ui.support.barcode_clips import READ, steady, uneven, write_bars
from tests.ui.support.browsing import Open, Page, expect
from tests.ui.support.saved_examples import ANSWER, ask
from tests.ui.support.steps import wait_for
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.judge import judge
from vrthinker_core.traces import load
from vrthinker_core.types import VideoPair
from vrthinker_core.ui.tiles import group_tiles

pytestmark = pytest.mark.browser

PLACES = "[...document.querySelectorAll('#first video, #second video')].map((video) => video.currentTime / video.duration)"
PAUSED = (
    "[...document.querySelectorAll('#first video, #second video')].map((video) => video.paused)"
)
LIVE = "document.querySelector('.vrt-time').getAttribute('aria-live')"
SCRIPT = (ask(*range(0, 128, 11)), ask(1, 2, 3, 63, 64, 65, 124, 125, 126, 127), ANSWER)


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve(SCRIPT, protocol="paired", pause=0.005)


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


def test_clips_of_very_different_lengths_go_at_speeds_that_browsers_have(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url, viewport={"width": 320, "height": 700}, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        "they fit side by side"
    )
    for first, second, speed in ((1, 30, 1), (30, 1, 0.25), (1, 30, 2), (4, 6, 1)):
        rates = page.evaluate(RATES, [speed, first, second])
        assert rates[1] / rates[0] == pytest.approx(second / first), "both need the same time"
        assert all(1 / 16 <= rate <= 16 for rate in rates)
        assert rates[0] == speed or max(first, second) == 30


def test_a_player_that_goes_keeps_no_video_in_memory(page: Page, tmp_path: Path) -> None:
    old = page.query_selector("#first video")
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


CLIPS: dict[str, Callable[[Path], Path]] = {
    "h264": lambda folder: write_bars(folder / "clip.mp4", "libx264", steady(97, 24)),
    "vp9": lambda folder: write_bars(folder / "clip.webm", "libvpx-vp9", steady(61, 30)),
    "uneven": lambda folder: write_bars(folder / "uneven.mp4", "libx264", uneven(83)),
}


def shown(page: Page) -> list[int]:
    """The frame numbers in both players."""
    return [page.evaluate(READ, [f"#{side} video", None]) for side in ("first", "second")]


@pytest.mark.parametrize("name", CLIPS)
def test_every_tile_seeks_to_its_exact_frames(
    server: Server, open_page: Open, tmp_path: Path, name: str
) -> None:
    first = CLIPS[name](tmp_path)
    second = write_bars(tmp_path / "second.mp4", "libx264", steady(40, 25))
    for _ in judge(
        VideoPair("p", first, second),
        ScriptedBackend(SCRIPT, protocol="paired"),
        trace=tmp_path / "trace.json",
    ):
        pass
    expected = [
        [half.index for _, half in sorted(tile.halves.items())]
        for turn in load(tmp_path / "trace.json").turns
        for tile in group_tiles(turn.frames)
    ]
    page = open_page(server.url)
    upload(page, "first", first)
    upload(page, "second", second)
    page.locator("#prompt textarea").fill("Bars.")
    page.locator("#go").click()
    expect(page.locator(".vrt-headline")).to_be_visible()
    for position, frames in enumerate(expected):
        page.locator(".vrt-tile").nth(position).click()
        expect(page.locator(".vrt-closer")).to_be_visible()
        page.keyboard.press("Escape")
        until_equal(
            lambda: shown(page), frames
        )  # a busy machine paints a frame later than it reports it
    assert len(expected) > 20
    if name != "uneven":
        page.keyboard.press("Home")
        for number in range(1, 6):
            page.keyboard.press(".")
            until_equal(lambda: shown(page), [number, number])
        page.keyboard.press(",")
        until_equal(lambda: shown(page), [4, 4])
