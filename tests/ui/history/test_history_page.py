"""The list of runs in a real browser: a reload in the middle, a restart of the server, deletion, and another visitor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server, write_script
from tests.ui.page.test_page import start, wait_for
from tests.ui.page.test_saved_runs import LONG, link, show_example, tab, video_files
from tests.ui.support.saved_examples import ANSWER, ask, write_example

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]
SLOW = "<Think>" + "It glides on. " * 60 + "</Think>"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Server]]:
    """Starts a server; one that is started later finds the runs of the one before it, which is stopped, at the same address."""
    folder = tmp_path_factory.mktemp("server")
    write_example(folder / "examples" / "a-block")
    script = write_script(folder / "script.jsonl", [ask(10, 60), SLOW + ANSWER], protocol="paired", pause=0.05)
    running: list[Server] = []

    def begin() -> Server:
        options = ["--examples", str(folder / "examples"), "--after-leaving", "60"]
        for server in running:
            server.stop()
        running.append(Server(folder, script, *options, forked=True))
        return running[-1]

    yield begin
    running[-1].stop()


def rows(page: Page) -> list[str]:
    return page.locator(".vrt-runs b").all_inner_texts()


def test_no_run_is_lost(servers: Callable[[], Server], open_page: Open, clips: Clips) -> None:
    server = servers()
    page = open_page(server.url)
    start(page, clips)
    expect(page.locator(".vrt-text p").first).to_be_visible(timeout=LONG)
    expect(page).to_have_url(re.compile(r"\?run=[0-9a-f]{24}$"), timeout=LONG)
    address = page.url

    page.reload()  # in the middle: the run goes on, and is followed
    expect(page.locator("#stop")).to_be_visible(timeout=LONG)
    expect(page.locator("#prompt textarea")).to_have_value("A white block glides to the right.")
    assert all(video_files(page))
    tab(page, "Your runs")
    expect(page.locator(".vrt-runs b")).to_have_text(["Goes on"], timeout=LONG)

    tab(page, "Trace")
    show_example(page)  # while it goes on: it is found again by the way back
    page.go_back()
    expect(page).to_have_url(address)
    wait_for(page, "Finished after 2 turns")
    expect(page.locator("#go")).to_be_visible(timeout=LONG)
    tab(page, "Your runs")
    expect(page.locator(".vrt-runs b")).to_have_text(["Video 1 is better overall"], timeout=LONG)
    shared = link(page)

    stranger = open_page(address)  # in a browser of its own
    wait_for(stranger, "not here any more, or it is another visitor's")
    tab(stranger, "Your runs")
    expect(stranger.locator(".vrt-none")).to_be_visible(timeout=LONG)
    assert stranger.request.delete(f"{server.url}history/{address[-24:]}").json()["runs"] == []

    again = servers()
    page.goto(address.replace(server.url, again.url))
    expect(page.locator(".vrt-headline")).to_be_visible(timeout=LONG)
    expect(page.locator("#first video")).to_be_visible(timeout=LONG)
    assert all(video_files(page))
    stranger.goto(shared.replace(server.url, again.url))
    expect(stranger.locator(".vrt-headline")).to_be_visible(timeout=LONG)
    assert all(video_files(stranger))

    tab(page, "Your runs")
    page.locator(".vrt-open-run").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".vrt-none")).to_be_visible(timeout=LONG)
    page.reload()
    wait_for(page, "not here any more")
    stranger.reload()
    wait_for(stranger, "leads nowhere")
