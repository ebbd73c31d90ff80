"""Saved runs in a real browser: examples, links, files, frames and swapped sides; and faults that were found by use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from tests.ui.conftest import Serve, Server
from tests.ui.page.test_stage import IN_VIEW, SCREENS
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.saved_examples import PROMPT, SCRIPT, write_old
from tests.ui.support.steps import (
    fill,
    link,
    open_trace,
    saved,
    show_example,
    start,
    tab,
    trace_text,
    video_files,
    wait_for,
)
from vrthinker_core.traces import from_json
from vrthinker_core.video.files import file_digest

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(serve: Serve, examples: Path) -> Server:
    return serve(SCRIPT, "--examples", str(examples), protocol="paired", pause=0.005)


def test_a_click_on_an_example_shows_its_run_and_videos(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    card = page.locator(".vrt-card").first
    expect(card).to_contain_text(PROMPT)
    expect(card).to_contain_text("Judge: scripted")
    show_example(page)
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    expect(page.locator(".vrt-turn")).to_have_count(2)
    expect(page.locator(".vrt-mark")).to_have_count(8)
    expect(page.locator("#first video")).to_be_visible()
    assert video_files(page) == ["a-block/first.mp4", "a-block/second.mp4"]
    assert link(page).endswith("?trace=a-block")


def test_a_link_and_a_file_show_the_same_run_and_the_videos_that_are_at_hand(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    expect(page.locator("#go")).to_be_visible()
    live = trace_text(page)
    address = link(page)
    assert re.search(r"\?trace=[0-9a-f]{24}$", address)
    visitor = open_page(address)
    expect(visitor.locator(".vrt-headline")).to_be_visible()
    shown = [line for line in trace_text(visitor).splitlines() if line != "Judge: script"]
    assert shown == live.splitlines()
    expect(visitor.locator("#prompt textarea")).to_have_value(PROMPT)
    assert [Path(file).suffix for file in video_files(visitor)] == [".mp4", ".mp4"]
    path = saved(page, tmp_path / "trace.json")
    trace = from_json(path.read_bytes())
    assert trace.started.prompt == PROMPT
    open_trace(page, path)
    wait_for(page, "Replaying a saved trace")
    assert [video.split("/")[-1] for video in video_files(page)] == ["one.mp4", "two.mp4"]
    stranger = open_page(server.url)
    open_trace(stranger, path)
    wait_for(stranger, "Replaying a saved trace")
    expect(stranger.locator(".vrt-headline")).to_be_in_viewport()
    assert video_files(stranger) == ["", ""]
    assert from_json(saved(stranger, tmp_path / "again.json").read_bytes()) == trace


def test_the_frames_tab_shows_frames_in_pairs(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    show_example(page)
    tab(page, "Frames")
    expect(page.locator("#frames .vrt-tile img")).to_have_count(16)
    captions = page.locator("#frames .vrt-caption b").all_inner_texts()
    assert captions == [f"#{slot}" for slot in (16, 48, 80, 112, 10, 30, 60, 90)]
    for turn in (1, 2):
        beside = page.locator(f"#frames .vrt-turn:nth-child({turn}) .vrt-text h4").all_inner_texts()
        assert beside[:2] == ["Snapshot", "Think"]
    show_example(page, 1)
    expect(page.locator("#frames .vrt-tile img")).to_have_count(16)


def test_a_run_whose_sides_were_swapped_says_that_it_judged_the_other_order(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url)
    show_example(page)
    expect(page.locator("#first video")).to_be_visible()
    page.get_by_role("button", name="Swap sides").click()
    wait_for(page, "Sides swapped")
    page.wait_for_function("document.querySelector('#first video')?.src.endsWith('second.mp4')")
    assert video_files(page) == ["a-block/second.mp4", "a-block/first.mp4"]
    expect(page.locator(".vrt-changed")).to_contain_text(
        "judged these videos with the sides swapped"
    )
    expect(page.locator(".vrt-turn")).to_have_count(2)
    page.get_by_role("button", name="Swap sides").click()
    wait_for(page, "Replaying")
    expect(page.locator(".vrt-changed")).to_be_hidden()
    page.locator("#go").click()
    wait_for(page, "Finished after 2 turns")


@pytest.mark.parametrize("anchoring", ["auto", "none"])
def test_arriving_turns_do_not_move_what_is_read_by_who_does_not_follow(
    server: Server, open_page: Open, clips: Clips, anchoring: str
) -> None:
    """Neither in a browser that keeps it in its place itself, nor in one that does not."""
    page = open_page(server.url, viewport={"width": 1280, "height": 400})
    page.evaluate("value => document.documentElement.style.overflowAnchor = value", anchoring)
    fill(page, clips)
    page.locator("#go").click()
    page.locator(".vrt-follow:not([hidden])").dispatch_event(
        "click"
    )  # it moves, as long as the page follows
    expect(page.locator(".vrt-text p").first).to_be_visible()
    page.locator(".vrt-turn header").first.evaluate(
        "node => window.scrollTo(0, node.getBoundingClientRect().top + scrollY)"
    )
    top = page.locator(".vrt-text p").first.bounding_box()
    expect(page.locator(".vrt-turn")).to_have_count(2)
    wait_for(page, "Finished")  # the verdict is inserted above the turn that is being read
    page.evaluate(
        "() => new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(seen)))"
    )
    after = page.locator(".vrt-text p").first.bounding_box()
    assert after["y"] == pytest.approx(top["y"], abs=1)


def test_an_unplayable_video_is_shown_as_a_copy_and_judged_as_it_is(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    old = write_old(tmp_path / "old.avi")
    page = open_page(server.url)
    page.evaluate("""() => {
        window.said = [];
        new MutationObserver(() => said.push(document.body.innerText)).observe(document.body, { childList: true, subtree: true });
    }""")
    page.locator("#first input[type=file]").set_input_files(str(old))
    wait_for(page, "a copy is shown")
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 2")
    assert not any("not playable" in text for text in page.evaluate("said"))
    page.locator("#second input[type=file]").set_input_files(str(clips[1]))
    page.wait_for_function("document.querySelector('#second video')?.readyState >= 2")
    page.locator("#prompt textarea").fill(PROMPT)
    page.locator("#go").click()
    wait_for(page, "Finished")
    path = saved(page, tmp_path / "trace.json")
    first = from_json(path.read_bytes()).started.clips[0]
    assert first.digest == file_digest(old)
    open_trace(page, path)
    wait_for(page, "Replaying")
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 2")


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
    assert (clip.digest, clip.frames) == (file_digest(gif), 12)


def test_a_run_says_that_its_inputs_changed_while_it_went_on(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url)
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
