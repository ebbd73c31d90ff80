"""Faults that were found by using the page: each of these did something else once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, ImageDraw

from tests.ui.conftest import Server
from tests.ui.page.test_page import ENDLESS, fill, start, wait_for
from tests.ui.page.test_saved_runs import link, open_trace, saved, show_example, tab
from tests.ui.page.test_stage import IN_VIEW, SCREENS
from tests.ui.support.saved_examples import SCRIPT, write_example, write_old
from vrthinker_core.traces import from_json
from vrthinker_core.ui.view import words
from vrthinker_core.video.files import file_digest

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    examples = tmp_path_factory.mktemp("examples")
    write_example(examples / "a-block")
    write_example(examples / "b-block", hue=40)
    return serve(SCRIPT, "--examples", str(examples), protocol="paired")


def headline_in_view(page: Page) -> None:
    expect(page.locator(".vrt-headline")).to_be_visible()
    page.wait_for_function(f"({IN_VIEW})(document.querySelector('.vrt-headline'))")


def write_gif(path: Path) -> Path:
    """A GIF in which a square glides to the right."""
    pictures = [Image.new("RGB", (96, 64), "navy") for _ in range(12)]
    for number, picture in enumerate(pictures):
        ImageDraw.Draw(picture).rectangle((6 * number, 20, 6 * number + 20, 40), "white")
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=80, loop=0)
    return path


@pytest.mark.parametrize("screen", SCREENS.values(), ids=SCREENS)
def test_an_example_brings_its_verdict_into_view_from_anywhere(
    server: Server, open_page: Open, screen: dict[str, Any]
) -> None:
    page = open_page(server.url, **screen)
    for number, name in ((0, "Trace"), (1, "Frames"), (0, "Save and share")):
        tab(page, name)
        page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        show_example(page, number)
        headline_in_view(page)


def test_an_opened_trace_is_shown(server: Server, open_page: Open, tmp_path: Path) -> None:
    page = open_page(server.url)
    show_example(page)
    path = saved(page, tmp_path / "trace.json")
    visitor = open_page(server.url)
    open_trace(visitor, path)
    headline_in_view(visitor)


def test_the_address_names_the_run_that_is_shown(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    show_example(page, 0)
    expect(page).to_have_url(f"{server.url}?trace=a-block")
    show_example(page, 1)
    expect(page).to_have_url(f"{server.url}?trace=b-block")
    prompt = page.locator("#prompt textarea")
    prompt.fill("Another prompt.")
    page.go_back()
    expect(page.locator("#second video")).to_have_attribute("src", re.compile("a-block"))
    expect(page).to_have_url(f"{server.url}?trace=a-block")
    expect(page.locator(".vrt-turn")).to_have_count(2)
    page.go_forward()
    expect(page.locator("#second video")).to_have_attribute("src", re.compile("b-block"))
    page.go_back()
    expect(page.locator("#second video")).to_have_attribute("src", re.compile("a-block"))
    expect(page.locator(".vrt-turn")).to_have_count(2)
    page.go_back()
    expect(page.locator(".vrt-turn")).to_have_count(0)
    expect(page.locator("#second video")).to_have_count(0)
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    page.go_forward()
    headline_in_view(page)
    page.locator("#first button[aria-label='Clear']").click()
    page.locator("#second button[aria-label='Clear']").click()
    start(page, clips)
    wait_for(page, "Finished")
    expect(page).to_have_url(re.compile(r"\?run=[0-9a-f]{24}$"))
    address = link(page)
    expect(page).to_have_url(address)
    page.reload()
    headline_in_view(page)
    expect(page).to_have_url(address)


def test_a_complaint_goes_when_what_was_missing_has_come(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(server.url)
    page.locator("#go").click()
    wait_for(page, words.MISSING_VIDEOS)
    fill(page, clips)
    wait_for(page, words.READY_TO_COMPARE)
    expect(page.get_by_text(words.MISSING_VIDEOS)).to_have_count(0)
    page.locator("#first button[aria-label='Clear']").click()
    wait_for(page, words.ONE_VIDEO)


def test_a_gif_is_compared_as_the_command_line_does(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    gif = write_gif(tmp_path / "square.gif")
    page.locator("#first input[type=file]").set_input_files(str(gif))
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 1")
    dropped = "file => { const all = new DataTransfer(); all.items.add(new File([file], 'b.gif', { type: 'image/gif' })); return all; }"
    page.evaluate(
        f"""bytes => document.querySelector('#second button').dispatchEvent(new DragEvent('drop', {{
            bubbles: true, cancelable: true, dataTransfer: ({dropped})(new Uint8Array(bytes)),
        }}))""",
        list(gif.read_bytes()),
    )
    page.wait_for_function("document.querySelector('#second video')?.readyState >= 1")
    page.locator("#prompt textarea").fill("A square glides to the right.")
    page.locator("#go").click()
    wait_for(page, "Finished")
    clip = from_json(saved(page, tmp_path / "trace.json").read_bytes()).started.clips[0]
    assert clip is not None
    assert (clip.digest, clip.frames) == (file_digest(gif), 12)


def test_a_video_with_a_copy_is_not_called_unplayable(
    server: Server, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(server.url)
    page.evaluate("""() => {
        window.said = [];
        new MutationObserver(() => said.push(document.body.innerText)).observe(document.body, { childList: true, subtree: true });
    }""")
    page.locator("#first input[type=file]").set_input_files(str(write_old(tmp_path / "old.avi")))
    wait_for(page, words.COPY_SHOWN)
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 1")
    page.wait_for_timeout(300)
    assert not any("not playable" in text for text in page.evaluate("said"))


def test_the_upload_buttons_have_names_of_their_own(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    for number in (1, 2):
        button = page.get_by_role("button", name=re.compile(f"^Video {number}: Drop Video Here"))
        expect(button).to_have_count(1)


def test_the_footer_ends_in_words(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    assert page.locator("footer").inner_text().strip().endswith("MCP")


def test_a_run_says_that_its_inputs_changed_while_it_went_on(
    serve: Callable[..., Server], open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(serve([ENDLESS], protocol="paired", pause=0.05).url)
    start(page, clips)
    wait_for(page, "writing")
    page.locator("#second button[aria-label='Clear']").click()
    page.locator("#second input[type=file]").set_input_files(str(clips[0]))
    notice = page.locator(".vrt-changed")
    expect(notice).to_contain_text(
        f"These inputs have changed. This run judged another video 2: {clips[1].name}."
    )
    page.locator("#prompt textarea").fill("Something else.")
    expect(notice).to_contain_text("judged the prompt “A white block glides to the right.”")
    page.locator("#stop").click()
    wait_for(page, "Stopped")
    expect(notice).to_contain_text("another video 2")
    assert page.locator(".vrt-text p").first.is_visible()
