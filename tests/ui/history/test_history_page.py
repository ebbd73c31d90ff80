"""The list of runs in a real browser: a reload in the middle, a restart of the server, deletion, and another visitor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server, write_script
from tests.ui.page.test_page import ENDLESS, start, wait_for
from tests.ui.page.test_saved_runs import LONG, link, show_example, tab, video_files
from tests.ui.support.saved_examples import PROMPT, write_example

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Server]]:
    """Starts a server; one that is started later finds the runs of the one before it, which is stopped."""
    folder = tmp_path_factory.mktemp("server")
    write_example(folder / "examples" / "a-block")
    script = write_script(folder / "script.jsonl", [ENDLESS], protocol="paired", pause=0.01)
    running: list[Server] = []

    def begin() -> Server:
        options = ["--examples", str(folder / "examples"), "--after-leaving", "60"]
        for server in running:
            server.stop()
        running.append(Server(folder, script, *options, forked=True))
        return running[-1]

    yield begin
    running[-1].stop()


def test_no_run_is_lost(servers: Callable[[], Server], open_page: Open, clips: Clips) -> None:
    server = servers()
    page = open_page(server.url)
    start(page, clips)
    expect(page.locator(".vrt-text p").first).to_be_visible(timeout=LONG)
    expect(page).to_have_url(re.compile(r"\?run=[0-9a-f]{24}$"), timeout=LONG)
    address = page.url

    page.reload()  # in the middle: the run goes on, and is followed
    expect(page.locator("#stop")).to_be_visible(timeout=LONG)
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    tab(page, "Your runs")
    expect(page.locator(".vrt-runs b")).to_have_text(["Goes on"], timeout=LONG)
    tab(page, "Trace")
    show_example(page)  # the run goes on, and the way back leads to it
    page.go_back()
    expect(page).to_have_url(address)
    page.locator("#stop").click(timeout=LONG)
    wait_for(page, "^Stopped")
    expect(page.locator("#go")).to_be_visible(timeout=LONG)
    page.locator("#second button[aria-label='Clear']").click(timeout=LONG)
    page.locator("#prompt textarea").fill("Another prompt.")
    tab(page, "Your runs")
    expect(page.locator(".vrt-runs b")).to_have_text(["Stopped"], timeout=LONG)
    page.locator(".vrt-open-run").click()  # as it was, whatever has become of the inputs
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT, timeout=LONG)
    expect(page.locator("#second video")).to_be_visible(timeout=LONG)
    shared = link(page)

    stranger = open_page(address)  # in a browser of its own
    wait_for(stranger, "not here any more, or it is another visitor's")
    assert stranger.request.delete(f"{server.url}history/{address[-24:]}").json()["runs"] == []

    again = servers()  # the server was started anew
    for visitor, place in ((page, address), (stranger, shared)):
        visitor.goto(place.replace(server.url, again.url))
        expect(visitor.locator(".vrt-ending")).to_contain_text("Stopped.", timeout=LONG)
        expect(visitor.locator(".vrt-tile")).to_have_count(4)
        assert all(video_files(visitor))
    tab(page, "Your runs")
    page.locator(".vrt-open-run").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # deletes it, with its link
    expect(page.locator(".vrt-none")).to_be_visible(timeout=LONG)
    page.reload()
    wait_for(page, "not here any more")
    stranger.reload()
    wait_for(stranger, "leads nowhere")
