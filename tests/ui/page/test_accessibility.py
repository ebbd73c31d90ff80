"""Accessibility: axe-core finds no serious violation in any state of the page, light or dark."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageChops

from tests.ui.conftest import Serve, Server
from tests.ui.support.browsing import Clips, Locator, Open, Page, expect
from tests.ui.support.saved_examples import SCRIPT, write_example
from tests.ui.support.steps import (
    serious_violations,
    show_example,
    start,
    tab,
    wait_for,
    wait_until_said,
)
from vrthinker_core.types import Settings
from vrthinker_core.ui import words

pytestmark = pytest.mark.browser

SCHEMES = pytest.mark.parametrize("scheme", ["light", "dark"])


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    examples = tmp_path_factory.mktemp("examples")
    write_example(examples / "a-block")
    write_example(examples / "both-orders", settings=Settings(swap="on"))
    return serve(SCRIPT, "--examples", str(examples), protocol="paired")


def open_when_ready(open_page: Open, server: Server, scheme: str) -> Page:
    page = open_page(server.url, color_scheme=scheme, bypass_csp=True)
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    return page


@SCHEMES
def test_axe_finds_nothing_serious_when_empty_and_finished(
    server: Server, open_page: Open, axe: str, scheme: str
) -> None:
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
    for name, part in (
        ("Frames", "#frames img"),
        ("Raw transcript", "#transcript pre"),
        ("Save and share", ".vrt-takes"),
    ):
        tab(page, name)
        expect(page.locator(part).first).to_be_visible()
        assert serious_violations(page, axe) == []


CONTRAST_OF_HINTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const light = (colours) => {
        canvas.clearRect(0, 0, 1, 1);
        for (const colour of colours) {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
        }
        const linear = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const around = (node) => (node ? [...around(node.parentElement), getComputedStyle(node).backgroundColor] : ["white"]);
    const hinted = [...document.querySelectorAll("[placeholder]")].filter((node) => node.placeholder && node.checkVisibility());
    return hinted.map((node) => {
        const { color, opacity } = getComputedStyle(node, "::placeholder");
        const [dark, bright] = [light(around(node)), light([...around(node), color])].sort((a, b) => a - b);
        return [node.placeholder, Number(opacity), (bright + 0.05) / (dark + 0.05)];
    });
}"""


@SCHEMES
def test_the_focus_is_seen_and_the_hint_in_an_empty_field_can_be_read(
    server: Server, open_page: Open, scheme: str
) -> None:
    page = open_when_ready(open_page, server, scheme)
    parts = ("#prompt textarea", "#vote-first input")
    pictures = [picture_around(page, part) for part in parts]
    page.keyboard.press("Tab")  # from here on the keys move the focus
    for part, before in zip(parts, pictures, strict=True):
        page.locator(part).focus()
        difference = ImageChops.difference(before, picture_around(page, part))
        changed = difference.point(lambda light: 255 * (light > 60)).getbbox()
        assert changed[2] - changed[0] >= before.width - 16
        assert changed[3] - changed[1] >= before.height - 16
    page.locator("#addresses button").first.click()
    expect(page.locator("#address-1 input")).to_be_visible()
    hints = page.evaluate(CONTRAST_OF_HINTS)
    assert len(hints) == 3
    assert all(opacity == 1 and contrast >= 4.5 for _, opacity, contrast in hints), hints


def picture_around(page: Page, part: str) -> Image.Image:
    box = page.locator(part).bounding_box()
    area = {side: box[side] - 6 for side in "xy"}
    area |= {side: box[side] + 12 for side in ("width", "height")}
    return Image.open(io.BytesIO(page.screenshot(clip=area))).convert("L")


def colour(part: Locator, x: int, from_bottom: int) -> tuple[int, ...]:
    """As it is drawn: what a browser says of its styles tells nothing of forced colours."""
    picture = Image.open(io.BytesIO(part.screenshot())).convert("RGB")
    pixel = picture.getpixel((x, picture.height - from_bottom))
    assert isinstance(pixel, tuple)
    return pixel


def test_forced_colours_leave_the_verdict_and_the_chosen_tab_to_be_seen(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url, forced_colors="active")
    show_example(page)
    page.locator("h1").hover()
    first, tie = (
        [colour(mark, 4, 4) for mark in page.locator(f".vrt-says{value} .vrt-glyph i").all()[:2]]
        for value in (1, 0)
    )
    assert first[0] != first[1]
    assert tie == [first[0], first[0]]
    mark = page.locator(".vrt-mark").first
    filled = colour(mark, 6, 24)
    mark.evaluate("(mark) => mark.classList.add('gone')")
    assert filled != colour(mark, 6, 24), "a frame that left the judge's view has a hollow mark"
    chosen, another = (page.get_by_role("tab", name=name).first for name in ("Trace", "Frames"))
    assert colour(chosen, 20, 1) != colour(another, 20, 1)


KEEP_ANNOUNCED = """() => {
    window.announced = [];
    const all = { childList: true, characterData: true, subtree: true };
    for (const region of document.querySelectorAll(".vrt-unseen[role=status]"))
      new MutationObserver(() => announced.push(region.textContent)).observe(region, all);
}"""


def test_a_screen_reader_is_told_of_the_verdict(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    page.evaluate(KEEP_ANNOUNCED)
    page.locator("#go").click()
    page.wait_for_function("text => announced.includes(text)", arg=words.MISSING_VIDEOS)
    start(page, clips)
    for _ in range(2):
        page.wait_for_function(
            "announced.some((text) => /^Finished after 2 turns in [^·]+$/.test(text))"
        )
        page.wait_for_function(
            "announced.filter((text) => text === 'Video 1 is better overall').length === 1"
        )
        page.evaluate("announced.length = 0")
        page.locator("#go").click()


def test_a_screen_reader_is_told_how_a_run_goes_and_not_every_second(
    endless: Server, open_page: Open, clips: Clips
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
    endless: Server, open_page: Open, axe: str, clips: Clips, scheme: str
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
