"""More visitors than the waiting room holds: one too many is told so at once, and gets a place later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server
from tests.ui.page.test_page import ENDLESS, start, wait_for
from vrthinker_core.types.progress import place_in_queue
from vrthinker_core.ui.view import words

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def test_a_visitor_beyond_the_capacity_is_told_at_once(
    serve: Callable[..., Server], open_page: Callable[..., Page], clips: tuple[Path, Path]
) -> None:
    server = serve([ENDLESS], "--waiting", "1", protocol="paired", pause=0.05)
    first, waiting, refused = (open_page(server.url) for _ in range(3))
    start(first, clips)
    expect(first.locator(".vrt-text p").first).to_be_visible()
    start(waiting, clips)
    wait_for(waiting, place_in_queue(1))
    start(refused, clips)
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
