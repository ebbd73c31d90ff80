"""Saved runs in a real browser: examples, links, files, frames, settings and swapped sides."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Server
from tests.ui.page.test_page import ENDLESS, fill, start, status, wait_for
from tests.ui.support.saved_examples import PROMPT, SCRIPT, write_example, write_old
from vrthinker_core.traces import from_json
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
    return serve(SCRIPT, "--examples", str(examples), protocol="paired", pause=0.005)


def tab(page: Page, name: str) -> None:
    """Open a tab. Gradio lays its tabs out once more soon after the page is drawn, and then takes no click."""
    button = page.get_by_role("tab", name=name).first

    def opened() -> bool:
        button.click()
        page.wait_for_timeout(50)
        return button.get_attribute("aria-selected") == "true"

    until(opened)


def video_files(page: Page) -> list[str]:
    return page.evaluate(
        "['first', 'second'].map(name => (document.querySelector(`#${name} video`)?.src || '').split('/').slice(-2).join('/'))"
    )


def trace_text(page: Page) -> str:
    """The whole text of the trace, without the progress that Gradio lays over it, unseen, while an event goes on."""
    return page.locator("#trace .html-container").inner_text()


def show_example(page: Page, number: int = 0) -> None:
    page.locator(".vrt-card").nth(number).click()
    expect(page.locator(".vrt-headline")).to_be_attached()
    expect(page.locator("#status textarea")).to_have_value(re.compile("^Replaying a saved trace"))


def link(page: Page) -> str:
    tab(page, "Save and share")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".vrt-link")).to_have_value(re.compile("trace="))
    return page.locator(".vrt-link").input_value()


def saved(page: Page, path: Path, what: str = "Trace (.json)") -> Path:
    tab(page, "Save and share")
    with page.expect_download() as download:
        page.get_by_role("link", name=what).click()
    download.value.save_as(path)
    return path


def open_trace(page: Page, path: Path) -> None:
    tab(page, "Save and share")
    with page.expect_file_chooser() as chooser:
        page.locator("#open").click()
    chooser.value.set_files(str(path))


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


def test_every_request_goes_to_the_pages_own_server(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    show_example(page)
    expect(page.locator("#first video")).to_be_visible()
    assert asked
    assert [
        url for url in asked if not url.startswith((server.url, "data:", f"blob:{server.url}"))
    ] == []


def test_a_link_shows_the_same_run(server: Server, open_page: Open, clips: Clips) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    expect(page.locator("#go")).to_be_visible()
    live = trace_text(page)
    address = link(page)
    assert re.search(r"\?trace=[0-9a-f]{24}$", address)
    visitor = open_page(address)
    expect(visitor.locator(".vrt-headline")).to_be_visible()
    assert [
        line for line in trace_text(visitor).splitlines() if line != "Judge: script"
    ] == live.splitlines()
    expect(visitor.locator("#prompt textarea")).to_have_value(PROMPT)
    assert [Path(file).suffix for file in video_files(visitor)] == [".mp4", ".mp4"]


def test_an_unknown_link_says_so(server: Server, open_page: Open) -> None:
    page = open_page(f"{server.url}?trace={'0' * 24}")
    expect(page.locator("#status textarea")).to_have_value(re.compile("leads nowhere"))


def test_an_opened_trace_finds_the_videos_of_the_same_session(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    start(page, clips)
    wait_for(page, "Finished")
    path = saved(page, tmp_path / "trace.json")
    trace = from_json(path.read_bytes())
    assert trace.started.prompt == PROMPT
    open_trace(page, path)
    wait_for(page, "Replaying a saved trace")
    assert [video.split("/")[-1] for video in video_files(page)] == ["one.mp4", "two.mp4"]
    visitor = open_page(server.url)
    open_trace(visitor, path)
    wait_for(visitor, "Replaying a saved trace")
    assert video_files(visitor) == ["", ""]
    assert from_json(saved(visitor, tmp_path / "again.json").read_bytes()) == trace


def test_a_file_that_is_no_trace_is_refused_with_a_sentence(
    server: Server, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(server.url)
    show_example(page)
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"prompt": "<img src=x onerror=alert(1)>"}))
    open_trace(page, path)
    wait_for(page, "not a VR-Thinker trace")
    expect(page.locator(".vrt-turn")).to_have_count(2)


def test_the_report_is_one_self_contained_file(
    server: Server, open_page: Open, open_file: Callable[[Path], Page], tmp_path: Path
) -> None:
    page = open_page(server.url)
    show_example(page)
    report = open_file(saved(page, tmp_path / "report.html", "Report (.html)"))
    expect(report.locator(".vrt-turn")).to_have_count(2)


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


def test_the_frames_tab_is_filled_while_the_judge_writes(
    serve: Callable[..., Server], open_page: Open, clips: Clips
) -> None:
    page = open_page(serve([ENDLESS], protocol="paired", pause=0.05).url)
    tab(page, "Frames")
    start(page, clips)
    expect(page.locator("#frames .vrt-tile img")).to_have_count(8)
    assert "writing" in status(page) or "looking" in status(page)
    page.locator("#stop").click()
    wait_for(page, "Stopped")
    expect(page.locator("#frames .vrt-tile img")).to_have_count(8)


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
        "judged these two videos the other way round"
    )
    expect(page.locator(".vrt-turn")).to_have_count(2)
    page.get_by_role("button", name="Swap sides").click()
    wait_for(page, "Replaying")
    expect(page.locator(".vrt-changed")).to_be_hidden()
    page.locator("#go").click()
    wait_for(page, "Finished after 2 turns")


def choose(page: Page, name: str, value: str) -> None:
    page.locator(f"#{name} input").click()
    page.get_by_role("option", name=value, exact=True).click()


def test_chosen_settings_reach_the_run_and_a_protocol_mismatch_is_one_sentence(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    page.locator("#settings button").first.click()
    choose(page, "max_turns", "3")
    choose(page, "window", "Keep everything")
    choose(page, "frames_per_call", "2")
    start(page, clips)
    wait_for(page, "Finished")
    settings = from_json(saved(page, tmp_path / "trace.json").read_bytes()).started.settings
    assert (settings.max_turns, settings.window, settings.frames_per_call) == (3, "all", 2)
    choose(page, "protocol", "concat")
    page.locator("#go").click()
    wait_for(page, "Failed")
    tab(page, "Trace")
    expect(page.locator(".vrt-ending")).to_contain_text(
        "trained for the protocol paired, not for concat"
    )


def test_the_rail_shows_the_protocols_own_index(server: Server, open_page: Open) -> None:
    page = open_page(server.url)
    show_example(page)
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 1")
    page.locator(".vrt-tile").nth(6).click()
    page.keyboard.press("Escape")
    expect(page.locator(".vrt-time")).to_contain_text("index 60 of 127")
    page.locator("h1").click()
    page.keyboard.press("Home")
    expect(page.locator(".vrt-time")).to_contain_text("index 0 of 127")


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
    assert top is not None
    assert after is not None
    assert after["y"] == pytest.approx(top["y"], abs=1)


def test_an_unplayable_video_is_shown_as_a_copy_and_judged_as_it_is(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    old = write_old(tmp_path / "old.avi")
    page = open_page(server.url)
    page.locator("#first input[type=file]").set_input_files(str(old))
    wait_for(page, "a copy is shown")
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 2")
    page.locator("#second input[type=file]").set_input_files(str(clips[1]))
    page.wait_for_function("document.querySelector('#second video')?.readyState >= 2")
    page.locator("#prompt textarea").fill(PROMPT)
    page.locator("#go").click()
    wait_for(page, "Finished")
    path = saved(page, tmp_path / "trace.json")
    first = from_json(path.read_bytes()).started.clips[0]
    assert first is not None
    assert first.digest == file_digest(old)
    open_trace(page, path)
    wait_for(page, "Replaying")
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 2")
