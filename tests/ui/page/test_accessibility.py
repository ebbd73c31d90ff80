"""Accessibility: axe-core finds no serious violation in any state of the page, light or dark."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import Server
from tests.ui.page.test_page import ENDLESS, start, wait_for, wait_until_said
from tests.ui.page.test_saved_runs import show_example, tab
from tests.ui.support.saved_examples import SCRIPT, write_example
from vrthinker_core.types import Settings
from vrthinker_core.ui.view import words

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]
SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core, from its Python package."""
    return resources.files(pytest.importorskip("axe_playwright_python")).joinpath("axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    examples = tmp_path_factory.mktemp("examples")
    write_example(examples / "a-block")
    write_example(examples / "both-orders", settings=Settings(swap="on"))
    return serve(SCRIPT, "--examples", str(examples), protocol="paired")


@pytest.fixture(scope="module")
def endless(serve: Callable[..., Server]) -> Server:
    return serve([ENDLESS], protocol="paired", pause=0.05)


def serious_violations(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [
        f"{violation['id']}: {node['html'][:200]}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def open_when_ready(open_page: Open, server: Server, scheme: str) -> Page:
    page = open_page(server.url, color_scheme=scheme, bypass_csp=True)
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    return page


@SCHEMES
def test_axe_finds_nothing_serious_when_empty_and_finished(server: Server, open_page: Open, axe: str, scheme: str) -> None:
    page = open_when_ready(open_page, server, scheme)
    page.locator("#settings button").first.click()
    expect(page.locator("#window input")).to_be_visible()
    page.locator("#more-settings button").first.click()
    expect(page.locator("#temperature input")).to_be_visible()
    assert serious_violations(page, axe) == []
    show_example(page, 1)
    page.locator(".vrt-choice button", has_text="Sides swapped").click()
    expect(page.locator(".vrt-swapped-notice")).to_be_visible()
    assert serious_violations(page, axe) == []
    show_example(page)
    assert serious_violations(page, axe) == []
    for name, part in (("Frames", "#frames img"), ("Raw transcript", "#transcript pre"), ("Save and share", ".vrt-takes")):
        tab(page, name)
        expect(page.locator(part).first).to_be_visible()
        assert serious_violations(page, axe) == []


KEEP_ANNOUNCED = """() => {
    window.announced = [];
    const all = { childList: true, characterData: true, subtree: true };
    for (const region of document.querySelectorAll(".vrt-unseen[role=status]"))
      new MutationObserver(() => announced.push(region.textContent)).observe(region, all);
}"""


def test_a_screen_reader_is_told_of_the_verdict(server: Server, open_page: Open, clips: tuple[Path, Path]) -> None:
    page = open_page(server.url)
    page.evaluate(KEEP_ANNOUNCED)
    page.locator("#go").click()
    page.wait_for_function("text => announced.includes(text)", arg=words.MISSING_VIDEOS)
    start(page, clips)
    for _ in range(2):
        page.wait_for_function("announced.some((text) => /^Finished after 2 turns in [^·]+$/.test(text))")
        page.wait_for_function("announced.filter((text) => text === 'Video 1 is better overall').length === 1")
        page.evaluate("announced.length = 0")
        page.locator("#go").click()


def test_a_screen_reader_is_told_how_a_run_goes_and_not_every_second(
    endless: Server, open_page: Open, clips: tuple[Path, Path]
) -> None:
    page = open_page(endless.url)
    page.evaluate(KEEP_ANNOUNCED)
    start(page, clips)
    wait_until_said(page, r"writing .* 2\.\d s")
    page.locator("#stop").click()
    page.wait_for_function("announced.some((text) => text.startsWith('Stopped after 1 turn'))")
    assert page.evaluate("announced").count("Turn 1 of 6") == 1


@SCHEMES
def test_axe_finds_nothing_serious_while_running_and_stopped(
    endless: Server, open_page: Open, axe: str, clips: tuple[Path, Path], scheme: str
) -> None:
    page = open_when_ready(open_page, endless, scheme)
    start(page, clips)
    expect(page.locator(".vrt-text p").first).to_be_visible()
    assert serious_violations(page, axe) == []
    page.locator("#stop").click()
    wait_for(page, "Stopped")
    assert serious_violations(page, axe) == []
    tab(page, "Your runs")
    expect(page.locator(".vrt-open-run")).to_contain_text("Stopped")
    page.get_by_role("button", name="Delete all runs").click()
    expect(page.get_by_role("button", name="Keep them")).to_be_focused()
    assert serious_violations(page, axe) == []
