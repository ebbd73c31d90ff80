"""The judge's banner never replaces a run that was opened meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server
from tests.ui.support.saved_examples import SCRIPT, write_example
from vrthinker_core.ui.page.handlers.judge_banner import BANNER_ONLY

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SHOW_TWO_VALUES = """([first, then]) => {
  const host = document.createElement("div"), props = { value: first };
  let changed = null;
  const introduction = { lead: "Nothing yet.", steps: [], links: [], loop: { folder: "intro", label: "" } };
  VRThinker.mountTrace(host, props, (name, listener) => { changed = listener; }, introduction, [["Check", ""], []], () => {});
  props.value = then;
  changed();
  return [host.innerText || host.textContent, VRThinker.trace];
}"""
"""Gives the trace two values, one after the other; returns the text on the page and the trace that its other scripts see."""

NOTES = {**BANNER_ONLY, "turns": [], "notes": ["This is the built-in judge."]}
RUN = {
    "run": "a",
    "over": True,
    "turns": [],
    "headline": "Video 1 is better overall",
    "notes": ["A note of the run."],
}


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    examples = tmp_path_factory.mktemp("examples")
    write_example(examples / "a-block")
    return serve(SCRIPT, "--examples", str(examples), protocol="paired", pause=0.005)


def test_a_late_banner_leaves_the_run_as_it_is(
    server: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(server.url)
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    text, trace = page.evaluate(SHOW_TWO_VALUES, [RUN, NOTES])
    assert "A note of the run." in text
    assert trace["run"] == "a"


def test_a_banner_is_shown_without_a_run_and_replaced_by_one(
    server: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(server.url)
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    text, trace = page.evaluate(SHOW_TWO_VALUES, [{"turns": []}, NOTES])
    assert "This is the built-in judge." in text
    assert trace["introduction"]
    text, trace = page.evaluate(SHOW_TWO_VALUES, [NOTES, RUN])
    assert "A note of the run." in text
    assert trace["run"] == "a"
