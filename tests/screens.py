"""python -m tests.screens --out DIR

Screenshots of the page in every state, 1280 and 390 pixels wide, light and dark: DIR/WIDTH-SCHEME-STATE.png.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

from tests.support.browser import started
from tests.support.small_clips import write_clip
from tests.ui.conftest import DESKTOP, PHONE, Server, write_script
from tests.ui.support.saved_examples import ANSWER, PROMPT, SCRIPT, ask, write_example

SIZES: dict[str, dict[str, Any]] = {"1280": DESKTOP, "390": PHONE}
TIMEOUT_MS = 60_000
ENDLESS = "<Think>" + "The block glides on, and nothing else in the picture moves. " * 4000


@dataclass(frozen=True)
class Servers:
    """Servers that differ in what their scripted judge replies, and two clips to upload."""

    usual: Server
    endless: Server
    unreadable: Server
    clips: tuple[Path, Path]


EnterState = Callable[[Page, Servers], None]
"""Brings a fresh page into one of its states."""


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the screenshots")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with (
        started() as chromium,
        tempfile.TemporaryDirectory() as name,
        start_servers(Path(name)) as servers,
    ):
        for size, options in SIZES.items():
            for scheme in ("light", "dark"):
                for state, enter in STATES.items():
                    path = out / f"{size}-{scheme}-{state}.png"
                    _take_screenshot(
                        chromium, {**options, "color_scheme": scheme}, servers, enter, path
                    )


def _take_screenshot(
    chromium: Browser, options: dict[str, Any], servers: Servers, enter: EnterState, path: Path
) -> None:
    context = chromium.new_context(**options)
    page = context.new_page()
    enter(page, servers)
    page.wait_for_timeout(300)
    page.screenshot(path=path, full_page=True)
    context.close()
    print(path, flush=True)


@contextmanager
def start_servers(folder: Path) -> Iterator[Servers]:
    """All servers that the states need, with three examples each; stopped at the end."""
    examples = folder / "examples"
    for name, hue in (("a-block", 20), ("b-block", 50), ("c-block", 80)):
        write_example(
            examples / name, (ask(10, 30, 60, 90), ask(*range(50, 72, 2)), ANSWER), hue=hue
        )
    clips = write_clip(folder / "one.mp4"), write_clip(folder / "two.mp4", frames=30, hue=80)
    with ExitStack() as stack:

        def serve(name: str, replies: tuple[str, ...], pause: float) -> Server:
            home = folder / name
            home.mkdir()
            script = write_script(home / "script.jsonl", replies, protocol="paired", pause=pause)
            server = Server(home, script, "--examples", str(examples))
            stack.callback(server.stop)
            return server

        yield Servers(
            serve("usual", SCRIPT, 0.002),
            serve("endless", (ENDLESS,), 0.02),
            serve("unreadable", ("Hm. I would not know.",), 0),
            clips,
        )


# -- states --------------------------------------------------------------------------------------------------------------


def empty(page: Page, servers: Servers) -> None:
    """The page as it opens."""
    _open(page, servers.usual)


def settings(page: Page, servers: Servers) -> None:
    """The settings, expanded."""
    _open(page, servers.usual)
    page.locator("#settings button").first.click()
    expect(page.locator("#window input")).to_be_visible(timeout=TIMEOUT_MS)


def running(page: Page, servers: Servers) -> None:
    """The judge is writing."""
    _start(page, servers.endless, servers)
    expect(page.locator(".vrt-text p").first).to_contain_text("nothing else", timeout=TIMEOUT_MS)


def stopped(page: Page, servers: Servers) -> None:
    """Stopped while the judge was writing."""
    running(page, servers)
    page.locator("#stop").click()
    _wait_for_status(page, "Stopped")


def queued(page: Page, servers: Servers) -> None:
    """In the queue, behind another visitor's comparison."""
    assert page.context.browser is not None
    running(page.context.new_page(), servers)
    _start(page, servers.endless, servers)
    _wait_for_status(page, "You are second")


def finished(page: Page, servers: Servers) -> None:
    """Finished with a verdict."""
    _start(page, servers.usual, servers)
    _wait_for_status(page, "Finished")


def unreadable(page: Page, servers: Servers) -> None:
    """Ended without a verdict: no reply can be read."""
    _start(page, servers.unreadable, servers)
    _wait_for_status(page, "Ended|Failed|Finished")


def failed(page: Page, servers: Servers) -> None:
    """Failed: the prompt is missing."""
    _start(page, servers.usual, servers, prompt="")
    _wait_for_status(page, "Failed")


def replaying(page: Page, servers: Servers) -> None:
    """A replayed example."""
    _open(page, servers.usual)
    page.locator(".vrt-card").first.click()
    _wait_for_status(page, "Replaying")
    expect(page.locator("#first video")).to_be_visible(timeout=TIMEOUT_MS)
    page.locator(".vrt-tile").nth(6).click()
    page.keyboard.press("Escape")


def frames(page: Page, servers: Servers) -> None:
    """All frames of an example, in their tab."""
    replaying(page, servers)
    _open_tab(page, "Frames")
    expect(page.locator("#frames img").first).to_be_visible(timeout=TIMEOUT_MS)


def transcript(page: Page, servers: Servers) -> None:
    """The raw transcript of an example."""
    replaying(page, servers)
    _open_tab(page, "Raw transcript")
    expect(page.locator("#transcript pre").first).to_be_visible(timeout=TIMEOUT_MS)


def saving(page: Page, servers: Servers) -> None:
    """A link to an example, in the tab for saving and sharing."""
    replaying(page, servers)
    _open_tab(page, "Save and share")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".vrt-link")).to_be_visible(timeout=TIMEOUT_MS)


STATES: dict[str, EnterState] = {
    state.__name__: state
    for state in (
        empty, settings, running, stopped, queued, finished, unreadable, failed, replaying, frames, transcript, saving,
    )
}  # fmt: skip


def _open(page: Page, server: Server) -> None:
    page.goto(server.url)
    expect(page.locator(".vrt-notes li").first).to_be_visible(timeout=TIMEOUT_MS)


def _start(page: Page, server: Server, servers: Servers, prompt: str = PROMPT) -> None:
    _open(page, server)
    for name, clip in zip(("first", "second"), servers.clips, strict=True):
        page.locator(f"#{name} input[type=file]").set_input_files(str(clip))
        page.wait_for_function(
            "name => document.querySelector(`#${name} video`)?.readyState >= 1",
            arg=name,
            timeout=TIMEOUT_MS,
        )
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#go").click()


def _wait_for_status(page: Page, pattern: str) -> None:
    expect(page.locator("#status textarea")).to_have_value(re.compile(pattern), timeout=TIMEOUT_MS)


def _open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).first.click()


if __name__ == "__main__":
    main()
