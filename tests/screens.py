"""python -m tests.screens --out DIR [--width 1440 --width 1024]

Screenshots of the page in every state, light and dark, 1280 and 390 pixels wide or as asked: DIR/WIDTH-SCHEME-STATE.png.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.support.browser import started
from tests.support.small_clips import write_clip
from tests.ui.conftest import DESKTOP, PHONE, Server, write_script
from tests.ui.support import steps
from tests.ui.support.saved_examples import ANSWER, PROMPT, SCRIPT, ask, write_example

CALM = {"reduced_motion": "reduce"}
SIZES: dict[str, dict[str, Any]] = {
    "1440": {**steps.SCREENS["1440"], **CALM},
    "1280": DESKTOP,
    "1024": {**steps.SCREENS["1024"], **CALM},
    "390": PHONE,
}
ENDLESS = "<Think>" + "The block glides on, and nothing else in the picture moves. " * 4000
REPLIES = {"usual": SCRIPT, "endless": (ENDLESS,), "unreadable": ("Hm. I would not know.",)}


class Stage:
    """A fresh page, servers by what their scripted judge replies, and two clips to upload."""

    def __init__(self, page: Page, servers: dict[str, str], clips: tuple[Path, Path]) -> None:
        self.page, self.servers, self.clips = page, servers, clips

    def open(self, server: str = "usual") -> None:
        self.page.goto(self.servers[server])
        steps.wait_for_judge(self.page)

    def start(self, server: str = "usual", prompt: str = PROMPT) -> None:
        self.open(server)
        steps.start(self.page, self.clips, prompt)

    def run_endless(self) -> None:
        self.start("endless")
        expect(self.page.locator(".vrt-text p").first).to_contain_text("nothing else")

    def queue(self) -> None:
        """Wait behind another visitor's comparison."""
        Stage(self.page.context.new_page(), self.servers, self.clips).run_endless()
        self.start("endless")

    def replay(self) -> None:
        self.open()
        steps.show_example(self.page)
        steps.look(self.page, 6)
        self.page.keyboard.press("Escape")

    def show_messages(self) -> None:
        expect(steps.exact_messages(steps.turns(self.page).first).first).to_be_visible()


Step = Callable[[Stage], object]


def on_page(step: Callable[..., object], *args: object) -> Step:
    return lambda stage: step(stage.page, *args)


STATES: dict[str, tuple[Step, ...]] = {
    "empty": (Stage.open,),
    "settings": (Stage.open, on_page(steps.open_settings)),
    "running": (Stage.run_endless,),
    "stopped": (Stage.run_endless, on_page(steps.stop)),
    "queued": (Stage.queue, on_page(steps.wait_for, "You are second")),
    "finished": (Stage.start, on_page(steps.wait_until_over)),
    "unreadable": (
        lambda stage: stage.start("unreadable"),
        on_page(steps.wait_for, "Ended|Failed|Finished"),
    ),
    "refused": (lambda stage: stage.start(prompt=""), on_page(steps.wait_for, "prompt is empty")),
    "replaying": (Stage.replay,),
    "frames": (Stage.replay, on_page(steps.tab, "All frames")),
    "messages": (Stage.replay, Stage.show_messages),
    "saving": (Stage.replay, on_page(steps.link)),
}
"""Steps that bring a fresh page into each state."""


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the screenshots")
    parser.add_argument("--width", action="append", choices=SIZES, help="pixels, once or more")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=60_000)
    with started() as chromium, tempfile.TemporaryDirectory() as name, serving(Path(name)) as at:
        clips = (
            write_clip(Path(name) / "one.mp4"),
            write_clip(Path(name) / "two.mp4", frames=30, hue=80),
        )
        sizes = options.width or ["1280", "390"]
        for size, scheme, state in product(sizes, ("light", "dark"), STATES):
            context = chromium.new_context(**SIZES[size], color_scheme=scheme)
            page = context.new_page()
            stage = Stage(page, at, clips)
            for step in STATES[state]:
                step(stage)
            page.wait_for_timeout(300)
            path = options.out / f"{size}-{scheme}-{state}.png"
            page.screenshot(path=path, full_page=True)
            context.close()
            print(path, flush=True)


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """Give the addresses of servers with three examples each; they are stopped at the end."""
    examples, script = folder / "examples", (ask(10, 30, 60, 90), ask(*range(50, 72, 2)), ANSWER)
    for name, hue in (("a-block", 20), ("b-block", 50), ("c-block", 80)):
        write_example(examples / name, script, hue=hue)
    addresses = dict[str, str]()
    with ExitStack() as running:
        for name, replies in REPLIES.items():
            (home := folder / name).mkdir()
            judge = write_script(home / "script.jsonl", replies, protocol="paired", pause=0.02)
            server = Server(home, judge, "--examples", str(examples), forked=True)
            running.callback(server.stop)
            addresses[name] = server.url
        yield addresses


if __name__ == "__main__":
    main()
