"""More visitors than the judge can serve: who finds no place is told so at once, and comes in later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server
from tests.ui.page.test_page import ENDLESS, start, wait_for
from vrthinker_core.ui.view import words

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_who_finds_no_place_is_told_at_once(
    serve: Callable[..., Server], open_page: Callable[..., Page], clips: tuple[Path, Path]
) -> None:
    server = serve([ENDLESS], "--waiting", "1", protocol="paired", pause=0.01)
    judged, waiting, turned_away = (open_page(server.url) for _ in range(3))
    start(judged, clips)
    expect(judged.locator(".vrt-text p").first).to_be_visible(timeout=30_000)
    start(waiting, clips)
    expect(waiting.locator("#place")).to_contain_text("queue", timeout=30_000)
    start(turned_away, clips)
    wait_for(turned_away, words.BUSY)
    expect(turned_away.locator("#go")).to_be_visible(timeout=30_000)
    expect(turned_away.locator(".vrt-turn")).to_have_count(0)
    waiting.locator("#stop").click()
    expect(waiting.locator("#go")).to_be_visible(timeout=30_000)
    turned_away.locator("#go").click()
    expect(turned_away.locator("#place")).to_contain_text("queue", timeout=30_000)
    judged.locator("#stop").click()
    wait_for(judged, "Stopped")
    expect(turned_away.locator(".vrt-text p").first).to_be_visible(timeout=30_000)
    turned_away.locator("#stop").click()
    wait_for(turned_away, "Stopped")
