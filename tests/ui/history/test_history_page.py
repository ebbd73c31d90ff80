"""The list of runs in a real browser: a reload in the middle, a restart of the server, deletion, another visitor, the form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ui.conftest import Serve, Server, write_script
from tests.ui.support import handmade_runs
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.saved_examples import ENDLESS, PROMPT, write_example
from tests.ui.support.steps import (
    choose,
    link,
    open_trace,
    saved,
    show_example,
    start,
    tab,
    video_files,
    wait_for,
    wait_until_said,
)
from vrthinker_core.traces import to_json
from vrthinker_core.ui import history_words

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Server]]:
    """Starts a server; one that is started later finds the runs of the one before it, which is stopped."""
    folder = tmp_path_factory.mktemp("server")
    write_example(folder / "examples" / "a-block")
    script = write_script(folder / "script.jsonl", [ENDLESS], protocol="paired", pause=0.05)
    running: list[Server] = []

    def begin() -> Server:
        options = ["--examples", str(folder / "examples"), "--after-leaving", "300"]
        for server in running:
            server.stop()
        running.append(Server(folder, script, *options, forked=True))
        return running[-1]

    yield begin
    running[-1].stop()


def runs(page: Page, *outcomes: str) -> None:
    """Open the list, and wait until it says this."""
    tab(page, "Your runs")
    expect(page.locator(".vrt-runs b")).to_have_text(list(outcomes))


def leave_and_come_back(page: Page) -> None:
    """A run goes on, is followed after a reload, and the way back from an example leads to it."""
    page.reload()
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    runs(page, "Goes on")
    tab(page, "Trace")
    show_example(page)
    page.go_back()
    page.locator("#stop").click()
    wait_for(page, "^Stopped")
    expect(page.locator("#go")).to_be_visible()


def change_everything_and_open_it(page: Page) -> None:
    """The list opens the run as it was, whatever has become of the inputs."""
    page.locator("#second button[aria-label='Clear']").click()
    page.locator("#prompt textarea").fill("Another prompt.")
    runs(page, "Stopped")
    page.locator(".vrt-open-run").click()
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    expect(page.locator("#second video")).to_be_visible()


def delete_by_keyboard(page: Page) -> None:
    tab(page, "Your runs")
    page.locator(".vrt-open-run").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("alert").filter(has_text=history_words.LIST["deleteQuestion"])
    ).to_be_visible()
    page.keyboard.press("Enter")  # Keep it
    expect(page.get_by_role("button", name="Delete this run")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".vrt-none")).to_be_visible()


def test_no_run_is_lost(servers: Callable[[], Server], open_page: Open, clips: Clips) -> None:
    server = servers()
    page = open_page(server.url)
    start(page, clips)
    expect(page.locator(".vrt-text p").first).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?run=[0-9a-f]{24}$"))
    address = page.url
    leave_and_come_back(page)
    expect(page).to_have_url(address)
    change_everything_and_open_it(page)
    shared = link(page)

    stranger = open_page(address)  # in a browser of its own
    wait_for(stranger, "gone, or belongs to another visitor")
    assert stranger.request.delete(f"{server.url}history/{address[-24:]}").json()["runs"] == []

    again = servers()
    for visitor, place in ((page, address), (stranger, shared)):
        visitor.goto(place.replace(server.url, again.url))
        expect(visitor.locator(".vrt-ending")).to_contain_text("Stopped without a verdict.")
        expect(visitor.locator(".vrt-tile")).to_have_count(4)
        assert all(video_files(visitor))
    address = page.url
    delete_by_keyboard(page)
    expect(page).to_have_url(again.url)  # which a reload shows
    expect(page.locator(".vrt-said")).to_be_focused()
    page.goto(address)
    wait_for(page, "is gone")
    stranger.reload()  # the link has ended, too
    wait_for(stranger, "was deleted")


def test_a_run_that_goes_on_is_followed_from_the_list(
    servers: Callable[[], Server], open_page: Open, clips: Clips
) -> None:
    page = open_page(servers().url)
    start(page, clips)
    expect(page.locator(".vrt-text p").first).to_be_visible()
    for other in (False, True):  # whether another run is shown meanwhile
        if other:
            show_example(page)
        runs(page, "Goes on")
        page.locator(".vrt-open-run").click()
        expect(page.get_by_role("tab", name="Trace").first).to_have_attribute(
            "aria-selected", "true"
        )
        expect(page.locator("#stop")).to_be_visible()
        expect(page.locator(".vrt-text p").last).to_be_in_viewport()
    page.locator("#stop").click()
    wait_for(page, "^Stopped")


def test_a_run_without_a_prompt_has_a_title(
    server: Server, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(server.url)
    file = tmp_path / "trace.json"
    file.write_bytes(to_json(handmade_runs.three_turns(prompt=" \n ")))
    open_trace(page, file)
    wait_for(page, "Replaying")
    tab(page, "Your runs")
    title = page.locator(".vrt-run-prompt")
    expect(title).to_have_text(history_words.LIST["noPrompt"])
    assert title.get_attribute("dir") == "auto", "prompts are written from the right, too"
    expect(page.locator(".vrt-delete-run")).to_have_attribute(
        "aria-label", re.compile(history_words.LIST["noPrompt"])
    )


LONG = f"<Think>{'on and on ' * 60}</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with two judges, one of which takes its time."""
    second = write_script(
        tmp_path_factory.mktemp("judges") / "slow.jsonl", [LONG], protocol="paired", pause=0.03
    )
    return serve(
        ["<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"],
        "--judge",
        second,
        "--after-leaving",
        "300",
        protocol="paired",
    )


def start_slow(page: Page, clips: Clips) -> None:
    page.locator("#settings button").first.click()
    choose(page, "judge", "slow")
    choose(page, "max_turns", "3")
    start(page, clips)
    wait_for(page, "writing")


def test_the_pair_of_a_run_that_was_followed_can_be_judged_again(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start_slow(page, clips)
    page.goto(server.url)
    runs(page, "Goes on")
    page.locator(".vrt-open-run").first.click()
    tab(page, "Trace")
    wait_until_said(page, "^Turn 1 of 3")
    wait_for(page, "^Finished")
    page.get_by_role("button", name="Check the order").click()
    wait_for(page, "^Sides swapped: Turn 1")
    page.locator("#stop").click()
    expect(page.locator("#go")).to_be_visible()


def test_an_own_run_that_is_opened_brings_its_judge_and_its_settings(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    start_slow(page, clips)
    for _ in ("while it goes on", "when it is over"):
        page.reload()
        expect(page.locator(".vrt-judge")).to_have_text("Judge: slow")
        page.locator("#settings button").first.click()
        expect(page.locator("#judge input")).to_have_value("slow")
        expect(page.locator("#max_turns input")).to_have_value("3")
        expect(page.locator("#window input")).to_have_value("As the protocol says")
        expect(page.locator("#protocol input")).to_have_value("Automatic")
        wait_for(page, "^Finished|^Replaying")
    page.locator("#go").click()
    wait_for(page, "^Turn 1 of 3 · writing")
    expect(page.locator(".vrt-judge")).to_have_text("Judge: slow")
    page.locator("#stop").click()


def expect_form(page: Page, judge: str, max_turns: str) -> None:
    expect(page.locator("#max_turns input")).to_have_value(max_turns)
    expect(page.locator("#judge input")).to_have_value(judge)


def open_the_run(page: Page) -> None:
    """It is in the list, and brings its settings."""
    runs(page, "Stopped")
    page.locator(".vrt-open-run").click()
    expect_form(page, "slow", "3")


def test_the_settings_of_an_own_run_go_with_it(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    start_slow(page, clips)
    page.locator("#stop").click()
    wait_for(page, "^Stopped")
    trace = saved(page, tmp_path / "trace.json")
    page.goto(server.url)
    page.locator("#settings button").first.click()
    choose(page, "max_turns", "2")
    open_the_run(page)
    page.go_back()
    wait_for(page, "^Ready")
    expect_form(page, "script", "2")
    open_the_run(page)
    show_example(page)
    expect_form(page, "script", "2")
    open_trace(page, trace)
    expect_form(page, "slow", "3")
    show_example(page)
    expect_form(page, "script", "2")
    page.go_back()
    expect_form(page, "slow", "3")
    choose(page, "max_turns", "4")
    show_example(page)
    expect_form(page, "slow", "4")  # a choice for the next run
