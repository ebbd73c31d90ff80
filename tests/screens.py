"""python -m tests.screens --out DIR

Pictures of the page in every state, 1280 and 390 pixels wide, light and dark: DIR/WIDTH-SCHEME-STATE.png.
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
LONG = 60_000
ENDLESS = "<Think>" + "The block glides on, and nothing else in the picture moves. " * 4000


@dataclass(frozen=True)
class Stage:
    """Servers with one judge each, and two clips."""

    usual: Server
    endless: Server
    mumbling: Server
    clips: tuple[Path, Path]


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with started() as chromium, tempfile.TemporaryDirectory() as place, staged(Path(place)) as stage:
        for size, options in SIZES.items():
            for scheme in ("light", "dark"):
                for state, act in STATES.items():
                    _take(chromium, {**options, "color_scheme": scheme}, stage, act, out / f"{size}-{scheme}-{state}.png")


def _take(chromium: Browser, options: dict[str, Any], stage: Stage, act: Callable[[Page, Stage], None], path: Path) -> None:
    context = chromium.new_context(**options)
    page = context.new_page()
    act(page, stage)
    page.wait_for_timeout(300)
    page.screenshot(path=path, full_page=True)
    context.close()
    print(path, flush=True)


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Everything that the states need."""
    examples = folder / "examples"
    for name, hue in (("a-block", 20), ("b-block", 50), ("c-block", 80)):
        write_example(examples / name, (ask(10, 30, 60, 90), ask(*range(50, 72, 2)), ANSWER), hue=hue)
    clips = write_clip(folder / "one.mp4"), write_clip(folder / "two.mp4", frames=30, hue=80)
    with ExitStack() as stack:

        def serve(name: str, replies: tuple[str, ...], pause: float) -> Server:
            place = folder / name
            place.mkdir()
            script = write_script(place / "script.jsonl", replies, protocol="paired", pause=pause)
            server = Server(place, script, "--examples", str(examples))
            stack.callback(server.stop)
            return server

        yield Stage(
            serve("usual", SCRIPT, 0.002),
            serve("endless", (ENDLESS,), 0.02),
            serve("mumbling", ("Hm. I would not know.",), 0),
            clips,
        )


# -- states --------------------------------------------------------------------------------------------------------------


def empty(page: Page, stage: Stage) -> None:
    """Before anything."""
    _open(page, stage.usual)


def settings(page: Page, stage: Stage) -> None:
    """The settings, open."""
    _open(page, stage.usual)
    page.locator("#settings button").first.click()
    expect(page.locator("#window input")).to_be_visible(timeout=LONG)


def running(page: Page, stage: Stage) -> None:
    """The judge is writing."""
    _start(page, stage.endless, stage)
    expect(page.locator(".vrt-text p").first).to_contain_text("nothing else", timeout=LONG)


def stopped(page: Page, stage: Stage) -> None:
    """Stopped while the judge was writing."""
    running(page, stage)
    page.locator("#stop").click()
    _wait(page, "Stopped")


def queued(page: Page, stage: Stage) -> None:
    """Waiting behind another visitor."""
    assert page.context.browser is not None
    running(page.context.new_page(), stage)
    _start(page, stage.endless, stage)
    expect(page.locator("#place")).to_contain_text("queue", timeout=LONG)


def finished(page: Page, stage: Stage) -> None:
    """A verdict."""
    _start(page, stage.usual, stage)
    _wait(page, "Finished")


def unreadable(page: Page, stage: Stage) -> None:
    """A judge that says nothing usable."""
    _start(page, stage.mumbling, stage)
    _wait(page, "Ended|Failed|Finished")


def failed(page: Page, stage: Stage) -> None:
    """A prompt is missing."""
    _start(page, stage.usual, stage, prompt="")
    _wait(page, "Failed")


def replaying(page: Page, stage: Stage) -> None:
    """An example."""
    _open(page, stage.usual)
    page.locator(".vrt-card").first.click()
    _wait(page, "Replaying")
    expect(page.locator("#first video")).to_be_visible(timeout=LONG)
    page.locator(".vrt-tile").nth(6).click()


def frames(page: Page, stage: Stage) -> None:
    """All frames of an example."""
    replaying(page, stage)
    _tab(page, "Frames")
    expect(page.locator("#frames img").first).to_be_visible(timeout=LONG)


def transcript(page: Page, stage: Stage) -> None:
    """The raw text of an example."""
    replaying(page, stage)
    _tab(page, "Raw transcript")
    expect(page.locator("#transcript pre").first).to_be_visible(timeout=LONG)


def saving(page: Page, stage: Stage) -> None:
    """A link to an example."""
    replaying(page, stage)
    _tab(page, "Save and share")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".vrt-link")).to_be_visible(timeout=LONG)


STATES: dict[str, Callable[[Page, Stage], None]] = {
    act.__name__: act
    for act in (
        empty, settings, running, stopped, queued, finished, unreadable, failed, replaying, frames, transcript, saving,
    )
}  # fmt: skip


def _open(page: Page, server: Server) -> None:
    page.goto(server.url)
    expect(page.locator(".vrt-notes li").first).to_be_visible(timeout=LONG)


def _start(page: Page, server: Server, stage: Stage, prompt: str = PROMPT) -> None:
    _open(page, server)
    for name, clip in zip(("first", "second"), stage.clips, strict=True):
        page.locator(f"#{name} input[type=file]").set_input_files(str(clip))
        page.wait_for_function("name => document.querySelector(`#${name} video`)?.readyState >= 1", arg=name, timeout=LONG)
    page.locator("#prompt textarea").fill(prompt)
    page.locator("#go").click()


def _wait(page: Page, pattern: str) -> None:
    expect(page.locator("#status textarea")).to_have_value(re.compile(pattern), timeout=LONG)


def _tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).first.click()


if __name__ == "__main__":
    main()
