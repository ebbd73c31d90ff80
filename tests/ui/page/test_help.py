"""The help on a dimension, its label and the judge's confidence: shown by a hover, by the keyboard's focus or by a tap."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.conftest import PHONE, Serve, Server
from tests.ui.support import handmade_runs
from tests.ui.support.browsing import Locator, Open, Page, expect
from tests.ui.support.steps import open_trace, tab, wait_for
from vrthinker_core.traces import to_json
from vrthinker_core.types import Dimension, Preference
from vrthinker_core.ui import words

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"])


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose judge said how sure it was, and left out one dimension."""
    trace = handmade_runs.three_turns()
    first = replace(trace.turns[0], reply=replace(trace.turns[0].reply, confidence=2))
    finished = replace(trace.finished, verdict=replace(handmade_runs.WHOLE, VQ=None))
    path = tmp_path_factory.mktemp("traces") / "trace.json"
    path.write_bytes(to_json(replace(trace, turns=(first, *trace.turns[1:]), finished=finished)))
    return path


@pytest.fixture(scope="module")
def told_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in both orders whose judge told how likely its labels were, and thought beside its last reply."""
    first = handmade_runs.telling_probabilities("<img src=x onerror=alert(1)> I wonder.")
    path = tmp_path_factory.mktemp("told") / "trace.json"
    path.write_bytes(to_json(handmade_runs.both_orders(trace=first)))
    return path


def buttons_and_helps(page: Page) -> list[tuple[Locator, str]]:
    """(button, its help) of all four dimensions and of the confidence."""
    labels = {
        Dimension.OA: Preference.FIRST,
        Dimension.TA: Preference.FIRST,
        Dimension.VQ: None,
        Dimension.MQ: Preference.TIE,
    }
    helps = [
        f"{words.DIMENSION_HELP[dimension]} {words.LABEL_HELP[label]}"
        for dimension, label in labels.items()
    ]
    chips = page.locator(".vrt-chip > button").all()
    confidence_button = page.get_by_role("button", name=words.OWN_CONFIDENCE.format(2))
    return [*zip(chips, helps, strict=True), (confidence_button, words.OWN_CONFIDENCE_HELP)]


def visible_help(page: Page) -> list[str]:
    """The help texts that are visible now, all of them inside the window."""
    found = [help for help in page.locator(".vrt-help").all() if help.is_visible()]
    width = page.viewport_size["width"] if page.viewport_size else 0
    for help in found:
        box = help.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    return [help.inner_text() for help in found]


@pytest.fixture
def show(server: Server, open_page: Open, trace_file: Path) -> Open:
    def start(**options: object) -> Page:
        page = open_page(server.url, **options)
        open_trace(page, trace_file)
        wait_for(page, "Replaying")
        tab(page, "Trace")
        assert visible_help(page) == []
        return page

    return start


def test_hovering_and_the_focus_show_one_help_and_escape_puts_it_away(show: Open) -> None:
    page = show()
    buttons = buttons_and_helps(page)
    for button, text in buttons[::-1]:
        button.hover()
        assert visible_help(page) == [text]
    help = page.locator(".vrt-help").first.bounding_box()
    page.mouse.move(
        help["x"] + 9, help["y"] + help["height"] / 2, steps=40
    )  # over all that lies between
    assert visible_help(page) == [text]
    page.keyboard.press("Escape")
    assert visible_help(page) == []
    page.locator("h1").hover()
    button.hover()
    assert visible_help(page) == [text]
    page.locator("h1").hover()
    page.get_by_role("tab", name="Trace").first.focus()
    tab_to_help(page)
    page.keyboard.press("Enter")
    assert visible_help(page) == [text]
    page.keyboard.press("Enter")
    assert visible_help(page) == []
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert visible_help(page) == []
    assert button.get_attribute("aria-expanded") == "false"
    page.get_by_role("tab", name="Trace").first.focus()
    for position, (each, text) in enumerate(buttons):
        tab_to_help(page)
        expect(each).to_be_focused()
        assert visible_help(page) == [text]
        if position < 4:
            assert each.get_attribute("aria-describedby") == f"vrt-help-{position}"
    page.keyboard.press("Tab")
    assert visible_help(page) == []


def tab_to_help(page: Page) -> None:
    """Press Tab until a button that has a help is reached; frame numbers lie between."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if visible_help(page):
            return


def test_a_tap_shows_the_help_of_one_button(show: Open) -> None:
    page = show(**PHONE)
    for button, text in buttons_and_helps(page):
        button.tap()
        assert visible_help(page) == [text]
        assert button.get_attribute("aria-expanded") == "true"
        page.locator(".vrt-headline").tap()
        assert visible_help(page) == []


@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desktop", "phone"])
def test_a_doubtful_label_says_how_likely_it_was_and_reasoning_is_folded(
    server: Server, open_page: Open, told_file: Path, screen: dict[str, object]
) -> None:
    page = open_page(server.url, **screen)
    open_trace(page, told_file)
    wait_for(page, "Replaying")
    tab(page, "Trace")
    assert "%" not in page.locator(".vrt-chips").inner_text()
    assert "%" not in page.locator(".vrt-both").inner_text()
    page.locator(".vrt-chip > button").nth(3).click()
    assert "50 % likely to write this label" in visible_help(page)[0]
    aside = page.locator(".vrt-aside")
    assert aside.count() == 1
    thought = aside.locator(".vrt-passage p")
    assert not thought.is_visible()
    aside.locator("summary").click()
    assert thought.inner_text() == "<img src=x onerror=alert(1)> I wonder."
    assert page.locator(".vrt-both").evaluate(
        "node => node.getBoundingClientRect().right <= innerWidth - 32"
    ), "the page's margin"
