"""How far a run is, the place in the queue, one visitor too many, and what a stopped turn looks like."""

from __future__ import annotations

import re

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Serve, Server, within
from tests.ui.support.api import client, uploaded
from tests.ui.support.browsing import Clips, Open, expect
from tests.ui.support.saved_examples import ENDLESS, PROMPT, SCRIPT
from tests.ui.support.steps import fill, start, status, wait_for, wait_until_said
from vrthinker_core.types.progress import place_in_queue
from vrthinker_core.ui import words

pytestmark = pytest.mark.browser


CLIPPED = """() => {
    const passages = [...document.querySelectorAll(".vrt-transcript pre")];
    return passages.filter((node) => node.scrollHeight > node.clientHeight + 1).length;
}"""
DRIFTED = """([speed, ahead, stall]) => {
    // Two players of 4 s and 6 s: the second one starts `ahead` seconds off, and loses `stall` of each second it should play.
    const make = (duration, currentTime) => {
        const video = { duration, playbackRate: 1, seeking: false, muted: false, ended: false, seeks: 0, at: currentTime };
        Object.defineProperty(video, "currentTime", { get: () => video.at, set: (at) => { video.seeks += 1; video.at = at; } });
        return Object.assign(video, { play: () => Promise.resolve(), pause: () => {} });
    };
    const [first, second] = [make(400, 10), make(600, 15 + ahead)];
    const players = new VRThinker.Players(["none", "none"], () => {});
    players.videos = () => [first, second];
    players.leader = () => first;
    players.speed = speed;
    players.place = 10 / 400;
    players.tick = () => {};
    players.play();
    second.playbackRate = 1.5 * speed;
    first.playbackRate = speed;
    const drift = () => second.at / second.duration - first.at / first.duration;
    const seen = [];
    for (let frame = 0; frame < 60 * 8; frame += 1) {
        first.at += first.playbackRate / 60;
        second.at += second.playbackRate * (1 - stall) / 60;
        players.place = first.at / first.duration;
        players.follow(first);
        seen.push(Math.abs(drift() * second.duration));
    }
    return { seeks: second.seeks, late: Math.max(...seen.slice(60 * 4)) };
}"""


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    """A judge that asks for frames once and then writes without end."""
    return serve([SCRIPT[0], ENDLESS], protocol="paired", pause=0.02)


def test_a_run_says_how_fast_it_goes_and_a_stopped_turn_that_it_was_stopped(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_until_said(page, "^Turn 1 of ")
    height = page.locator("#status").evaluate("node => node.offsetHeight")
    wait_for(page, r"Turn 2 of \d+ · writing · [\d.]+ tokens a second · .* · at most \d+ s left")
    assert page.locator("#status").evaluate("node => node.offsetHeight") == height, (
        "a longer line moves nothing below it"
    )
    page.locator("#stop").click()
    wait_for(
        page, r"^Stopped after 2 turns in .* · 16 frames · [\d,]+ tokens read, [\d,]+ written$"
    )
    assert "stopped" in page.locator(".vrt-turn:nth-child(2) .vrt-state").inner_text()
    assert "no usable answer" not in page.locator(".vrt-turns").inner_text()
    assert "token limit" not in page.locator(".vrt-turns").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    appear = [
        page.locator(".vrt-tile .vrt-caption span").nth(position).inner_text().split(" | ")[0]
        for position in range(4)
    ]
    assert appear == ["0.25 s", "0.75 s", "1.25 s", "1.75 s"], (
        "slots 16, 48, 80 and 112 of 48 frames, 24 a second"
    )
    for position in range(8):
        tile = page.locator(".vrt-tile").nth(position)
        tile.click()
        page.keyboard.press("Escape")  # the closer look
        times = tile.locator(".vrt-caption span").inner_text().split(" | ")
        page.wait_for_function(
            "time => document.querySelector('.vrt-time').innerText.includes(time)",
            arg=f"Video 1 {times[0]}",
        )
        assert f"Video 2 {times[1]}" in page.locator(".vrt-time").inner_text()
    page.get_by_role("tab", name="Raw transcript").click()
    page.locator(".vrt-transcript pre").first.wait_for()
    assert page.locator(".vrt-transcript pre").first.inner_text().strip()
    assert page.evaluate(CLIPPED) == 0, "nothing is cut without a sign"


def test_the_players_show_the_time_of_the_frame_that_is_seen(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start(page, clips)
    page.wait_for_selector(".vrt-tile")
    page.locator(".vrt-tile").first.click()
    page.keyboard.press("Escape")  # the closer look
    page.keyboard.press(".")
    page.wait_for_timeout(300)

    def away_from_frame() -> float:
        """Seconds between what is said of video 1 and when the frame that it shows appears."""
        said = float(re.search(r"Video 1 ([\d.]+) s", page.locator(".vrt-time").inner_text())[1])
        return abs(
            said
            - page.evaluate("Math.floor(document.querySelector('#first video').currentTime * 24)")
            / 24
        )

    until(lambda: away_from_frame() < 0.0051)  # not where the player stands in it
    page.locator("#stop").click()


def test_the_queue_says_in_words_who_is_before(
    server: Server, open_page: Open, clips: Clips
) -> None:
    """Two pages and a program: a browser has six connections to a server, and each page holds two of them."""
    second, third = (open_page(server.url) for _ in range(2))
    program = client(server)
    first = program.submit(*uploaded(server, clips), PROMPT, api_name="/compare")
    until(lambda: first.outputs())
    start(second, clips)
    wait_for(second, "You are second; one comparison is before yours.")
    start(third, clips)
    wait_for(third, "You are third; two comparisons are before yours.")
    before = third.locator("#first video").get_attribute("src")
    third.locator("[data-action=swap]").click()
    third.wait_for_timeout(800)
    assert third.locator("#first video").get_attribute("src") == before
    second.locator("#stop").click()
    second.locator("#go").wait_for(state="visible")
    wait_for(third, "You are second; one comparison is before yours.")
    assert status(second) == words.READY_TO_COMPARE
    first.cancel()
    third.wait_for_selector(".vrt-text p")
    assert status(third).startswith("Turn 1 of ")
    third.locator("#stop").click()
    wait_for(third, "Stopped")
    program.close()


def test_players_that_drift_apart_come_together_and_seek_only_when_far_apart(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url)
    for speed in (0.25, 1, 2):
        for ahead, stall in (
            (0.1 * speed, 0),
            (0.3 * speed, 0),
            (-0.3 * speed, 0),
            (0, 0.1),
        ):  # the last is a slow decoder
            moved = page.evaluate(DRIFTED, [speed, ahead, stall])
            assert moved["seeks"] == 0, (speed, ahead, stall)
            assert moved["late"] < 0.08 * speed, (speed, ahead, stall)
        far = page.evaluate(DRIFTED, [speed, 20, 0])
        assert far["seeks"] == 1
        assert far["late"] < 0.05


def test_a_visitor_beyond_the_capacity_is_told_at_once(
    serve: Serve, open_page: Open, clips: Clips
) -> None:
    server = serve([ENDLESS], "--waiting", "1", protocol="paired", pause=0.05)
    first, waiting, refused = (open_page(server.url) for _ in range(3))
    start(first, clips)
    expect(first.locator(".vrt-text p").first).to_be_visible()
    start(waiting, clips)
    wait_for(waiting, place_in_queue(1))
    fill(refused, clips)
    with within(3):
        refused.locator("#go").click()
        wait_for(refused, words.BUSY)
    expect(refused.locator("#go")).to_be_visible()
    expect(refused.locator(".vrt-turn")).to_have_count(0)
    waiting.locator("#stop").click()
    expect(waiting.locator("#go")).to_be_visible()
    refused.locator("#go").click()
    wait_for(refused, place_in_queue(1))
    first.locator("#stop").click()
    wait_for(first, "Stopped")
    expect(refused.locator(".vrt-text p").first).to_be_visible()
    refused.locator("#stop").click()
    wait_for(refused, "Stopped")
