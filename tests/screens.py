"""python -m tests.screens --out DIR

Screenshots of the page in every state, 1280 and 390 pixels wide, light and dark: DIR/WIDTH-SCHEME-STATE.png.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.benchmarks.tools.metrics import scripted_server
from tests.support.browser import started
from tests.support.small_clips import write_clip
from tests.ui.conftest import DESKTOP, PHONE, Server
from tests.ui.support import steps
from tests.ui.support.saved_examples import ANSWER, PROMPT, SCRIPT, ask, write_example

SIZES: dict[str, dict[str, Any]] = {"1280": DESKTOP, "390": PHONE}
ENDLESS = "<Think>" + "The block glides on, and nothing else in the picture moves. " * 4000


@dataclass(frozen=True)
class Servers:
    """Servers that differ in what their scripted judge replies, and two clips to upload."""

    usual: Server
    endless: Server
    unreadable: Server
    clips: tuple[Path, Path]


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the screenshots")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=60_000)
    with (
        started() as chromium,
        tempfile.TemporaryDirectory() as name,
        start_servers(Path(name)) as servers,
    ):
        for size, scheme, state in product(SIZES, ("light", "dark"), STATES):
            context = chromium.new_context(**SIZES[size], color_scheme=scheme)
            page = context.new_page()
            STATES[state](page, servers)
            page.wait_for_timeout(300)
            path = out / f"{size}-{scheme}-{state}.png"
            page.screenshot(path=path, full_page=True)
            context.close()
            print(path, flush=True)


@contextmanager
def start_servers(folder: Path) -> Iterator[Servers]:
    """All servers that the states need, with three examples each; stopped at the end."""
    examples, script = folder / "examples", (ask(10, 30, 60, 90), ask(*range(50, 72, 2)), ANSWER)
    for name, hue in (("a-block", 20), ("b-block", 50), ("c-block", 80)):
        write_example(examples / name, script, hue=hue)
    clips = write_clip(folder / "one.mp4"), write_clip(folder / "two.mp4", frames=30, hue=80)
    with ExitStack() as stack:

        def serve(replies: Sequence[str], pause: float) -> Server:
            home = Path(tempfile.mkdtemp(dir=folder))
            server = scripted_server(home, replies, pause, "--examples", str(examples))
            return stack.enter_context(server)

        unreadable = serve(("Hm. I would not know.",), 0)
        yield Servers(serve(SCRIPT, 0.002), serve((ENDLESS,), 0.02), unreadable, clips)


# -- states --------------------------------------------------------------------------------------------------------------


def empty(page: Page, servers: Servers) -> None:
    """The page as it opens."""
    _open(page, servers.usual)


def settings(page: Page, servers: Servers) -> None:
    """The settings, expanded."""
    _open(page, servers.usual)
    steps.open_settings(page)


def running(page: Page, servers: Servers) -> None:
    """The judge is writing."""
    _start(page, servers.endless, servers)
    expect(page.locator(".vrt-text p").first).to_contain_text("nothing else")


def stopped(page: Page, servers: Servers) -> None:
    """Stopped while the judge was writing."""
    running(page, servers)
    steps.stop(page)


def queued(page: Page, servers: Servers) -> None:
    """In the queue, behind another visitor's comparison."""
    running(page.context.new_page(), servers)
    _start(page, servers.endless, servers)
    steps.wait_for(page, "You are second")


def finished(page: Page, servers: Servers) -> None:
    """Finished with a verdict."""
    _start(page, servers.usual, servers)
    steps.wait_until_over(page)


def unreadable(page: Page, servers: Servers) -> None:
    """Ended without a verdict: no reply can be read."""
    _start(page, servers.unreadable, servers)
    steps.wait_for(page, "Ended|Failed|Finished")


def refused(page: Page, servers: Servers) -> None:
    """Refused: the prompt is missing."""
    _start(page, servers.usual, servers, prompt="")
    steps.wait_for(page, "prompt is empty")


def replaying(page: Page, servers: Servers) -> None:
    """A replayed example."""
    _open(page, servers.usual)
    steps.show_example(page)
    steps.look(page, 6)
    page.keyboard.press("Escape")


def frames(page: Page, servers: Servers) -> None:
    """All frames of an example, in their tab."""
    replaying(page, servers)
    steps.tab(page, "All frames")
    expect(page.locator("#frames img").first).to_be_visible()


def messages(page: Page, servers: Servers) -> None:
    """The exact messages of a turn of an example."""
    replaying(page, servers)
    expect(steps.exact_messages(steps.turns(page).first).first).to_be_visible()


def saving(page: Page, servers: Servers) -> None:
    """A link to an example, in the menu beside its headline."""
    replaying(page, servers)
    steps.link(page)


STATES: dict[str, Callable[[Page, Servers], None]] = {
    state.__name__: state
    for state in (
        empty, settings, running, stopped, queued, finished, unreadable, refused, replaying, frames, messages, saving,
    )
}  # fmt: skip
"""Each brings a fresh page into a state."""


def _open(page: Page, server: Server) -> None:
    page.goto(server.url)
    steps.wait_for_judge(page)


def _start(page: Page, server: Server, servers: Servers, prompt: str = PROMPT) -> None:
    _open(page, server)
    steps.start(page, servers.clips, prompt)


if __name__ == "__main__":
    main()
