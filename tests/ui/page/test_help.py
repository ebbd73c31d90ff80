"""What a dimension, its label and the judge's confidence mean is one hover, one keystroke or one tap away."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import PHONE, Server
from tests.ui.page.test_page import wait_for
from tests.ui.page.test_saved_runs import open_trace, tab
from tests.ui.support import handmade_runs
from vrthinker_core.traces import to_json
from vrthinker_core.types import Dimension, Preference
from vrthinker_core.ui.view import words

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"])


@pytest.fixture(scope="module")
def unsure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose judge said how sure it was, and nothing of one dimension."""
    trace = handmade_runs.three_turns()
    first = replace(trace.turns[0], reply=replace(trace.turns[0].reply, confidence=2))
    assert trace.finished is not None
    finished = replace(trace.finished, verdict=replace(handmade_runs.WHOLE, VQ=None))
    path = tmp_path_factory.mktemp("traces") / "unsure.json"
    path.write_bytes(to_json(replace(trace, turns=(first, *trace.turns[1:]), finished=finished)))
    return path


def explained(page: Page) -> list[tuple[Locator, str]]:
    """(button, what must be said of it) of all four dimensions and of the confidence."""
    said = {Dimension.OA: Preference.FIRST, Dimension.TA: Preference.FIRST, Dimension.VQ: None, Dimension.MQ: Preference.TIE}
    helps = [f"{words.DIMENSION_HELP[dimension]} {words.LABEL_HELP[label]}" for dimension, label in said.items()]
    chips = page.locator(".vrt-chip button").all()
    sure = page.get_by_role("button", name=words.confidence_text(2))
    return [*zip(chips, helps, strict=True), (sure, words.CONFIDENCE_HELP)]


def shown(page: Page) -> list[str]:
    """The help that can be read now, all of it inside the window."""
    found = [help for help in page.locator(".vrt-help").all() if help.is_visible()]
    width = page.viewport_size["width"] if page.viewport_size else 0
    for help in found:
        box = help.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    return [help.inner_text() for help in found]


@pytest.fixture
def show(server: Server, open_page: Open, unsure: Path) -> Open:
    def start(**options: object) -> Page:
        page = open_page(server.url, **options)
        open_trace(page, unsure)
        wait_for(page, "Replaying")
        tab(page, "Trace")
        assert shown(page) == []
        return page

    return start


def test_one_hover(show: Open) -> None:
    page = show()
    for button, text in explained(page):
        button.hover()
        assert shown(page) == [text]
    page.locator("h1").hover()
    assert shown(page) == []


def test_one_keystroke(show: Open) -> None:
    page = show()
    page.get_by_role("tab", name="Trace").first.focus()
    asked = explained(page)
    for _ in range(12):
        page.keyboard.press("Tab")
        if shown(page):
            break
    for position, (button, text) in enumerate(asked[:4]):
        expect(button).to_be_focused()
        assert shown(page) == [text]
        assert button.get_attribute("aria-describedby") == f"vrt-help-{position}"
        page.keyboard.press("Tab")
    sure, text = asked[4]
    expect(sure).to_be_focused()
    assert shown(page) == [text]
    page.keyboard.press("Tab")
    assert shown(page) == []


def test_one_tap(show: Open) -> None:
    page = show(**PHONE)
    for button, text in explained(page):
        button.tap()
        assert shown(page) == [text]
        assert button.get_attribute("aria-expanded") == "true"
        page.locator(".vrt-headline").tap()
        assert shown(page) == []
