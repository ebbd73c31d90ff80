"""A click on a tile shows exactly the frames that the judge saw: each frame carries its number as bars, which the browser reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until_equal
from tests.ui.conftest import Server
from tests.ui.support.barcode_clips import READ, steady, uneven, write_bars
from tests.ui.support.saved_examples import ANSWER, ask
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.judge import judge
from vrthinker_core.traces import load
from vrthinker_core.types import VideoPair
from vrthinker_core.ui.view.tiles import group_tiles

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

CLIPS: dict[str, Callable[[Path], Path]] = {
    "h264": lambda folder: write_bars(folder / "clip.mp4", "libx264", steady(97, 24)),
    "vp9": lambda folder: write_bars(folder / "clip.webm", "libvpx-vp9", steady(61, 30)),
    "uneven": lambda folder: write_bars(folder / "uneven.mp4", "libx264", uneven(83)),
}
SCRIPT = (ask(*range(0, 128, 11)), ask(1, 2, 3, 63, 64, 65, 124, 125, 126, 127), ANSWER)


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve(SCRIPT, protocol="paired")


def shown(page: Page) -> list[int]:
    """The frame numbers in both players."""
    return [page.evaluate(READ, [f"#{side} video", None]) for side in ("first", "second")]


@pytest.mark.parametrize("name", CLIPS)
def test_every_tile_seeks_to_its_exact_frames(
    server: Server, open_page: Callable[..., Page], tmp_path: Path, name: str
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
    for side, clip in (("first", first), ("second", second)):
        page.locator(f"#{side} input[type=file]").set_input_files(str(clip))
        page.wait_for_function(
            "side => document.querySelector(`#${side} video`)?.readyState >= 2", arg=side
        )
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
