"""Choosing between judges: in the browser, and from a program."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Serve, Server, write_script
from tests.ui.support.api import answers, check_refused, client, uploaded
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.page_events import act, comparing, config
from tests.ui.support.saved_examples import ENDLESS, PROMPT
from tests.ui.support.steps import choose, start, wait_for
from vrthinker_core.ui import words
from vrthinker_core.ui.compare_handlers import BANNER_ONLY

FIRST = "<Think>The first.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
SECOND = "<Think>The second.</Think><Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"
LABELS = {
    "script": {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1},
    "second": {"TA": 2, "MQ": 2, "VQ": 2, "OA": 2},
}
JUDGES = ["script", "second", "missing", "endless"]


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Two judges with different verdicts, one that cannot be opened, and one that never ends."""
    folder = tmp_path_factory.mktemp("judges")
    more = (
        write_script(folder / "second.jsonl", [SECOND], protocol="paired", pause=0.005),
        f"hf:{folder}/missing",
        write_script(folder / "endless.jsonl", [ENDLESS], protocol="paired", pause=0.05),
    )
    options = [word for judge in more for word in ("--judge", judge)]
    return serve([FIRST], *options, "--at-once", "3", protocol="paired", pause=0.005)


def open_settings(open_page: Open, server: Server, **options: Any) -> Page:
    """The page with its settings open."""
    page = open_page(server.url, **options)
    page.locator("#settings button").first.click()
    expect(page.locator("#judge input")).to_be_visible()
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    return page


def expect_judge(page: Page, name: str) -> None:
    """Wait until the page's head names this judge."""
    expect(page.locator(".vrt-judge")).to_have_text(f"Judge: {name}")


def expect_finished(page: Page, headline: str, name: str) -> None:
    expect(page.locator(".vrt-headline")).to_have_text(headline)
    wait_for(page, "Finished")
    expect_judge(page, name)


# -- in the browser ------------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_chosen_judge_runs_and_is_named(server: Server, open_page: Open, clips: Clips) -> None:
    page = open_settings(open_page, server)
    expect_judge(page, "script")
    choose(page, "judge", "second")
    expect_judge(page, "second")
    start(page, clips)
    expect_finished(page, "Video 2 is better overall", "second")
    choose(page, "judge", "script")
    page.wait_for_timeout(500)
    expect_finished(page, "Video 2 is better overall", "second")
    assert page.locator(".vrt-turn").count() == 1, (
        "choosing another judge leaves the run on the page"
    )
    page.locator("#go").click()
    expect_finished(page, "Video 1 is better overall", "script")
    choose(page, "judge", "second")
    page.get_by_role("button", name="swap").click()
    wait_for(page, "Sides swapped")
    expect_judge(page, "script")  # the run stays, and with it the name of its judge


@pytest.mark.browser
def test_a_choice_during_a_run_counts_for_the_next_one(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_settings(open_page, server)
    choose(page, "judge", "endless")
    start(page, clips)
    page.wait_for_selector(".vrt-text p")
    choose(page, "judge", "second")
    before = len(page.locator(".vrt-text").first.inner_text())
    until(
        lambda: (
            page.wait_for_timeout(30) or len(page.locator(".vrt-text").first.inner_text()) > before
        )
    )
    expect_judge(page, "endless")
    page.locator("#stop").click()
    wait_for(page, "Stopped")
    expect_judge(page, "endless")
    page.locator("#go").click()
    expect_finished(page, "Video 2 is better overall", "second")


@pytest.mark.browser
def test_a_judge_that_cannot_be_opened_says_why_and_leaves_the_others_alone(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page = open_settings(open_page, server)
    choose(page, "judge", "missing")
    expect(page.locator(".vrt-judge")).to_have_text(words.UNOPENED_LINE.format("missing"))
    expect(page.locator(".vrt-ending")).to_have_text(
        f"There is no folder missing. {words.CHOOSE_IN_SETTINGS}"
    )
    assert page.locator(".vrt-notes li").count() == 0
    choose(page, "judge", "second")
    expect(page.locator(".vrt-notes li")).to_have_text(["A script replies, not a model."])
    expect(page.locator(".vrt-ending")).to_be_hidden()
    choose(page, "judge", "missing")
    start(page, clips)
    wait_for(page, "Failed before the first turn")
    expect(page.locator(".vrt-ending")).to_have_text("There is no folder missing.")
    choose(page, "judge", "second")
    page.locator("#go").click()
    expect_finished(page, "Video 2 is better overall", "second")


@pytest.mark.browser
def test_a_judge_can_be_chosen_by_keyboard_alone(server: Server, open_page: Open) -> None:
    page = open_settings(open_page, server)
    page.locator("#settings button").first.focus()
    page.keyboard.press("Tab")
    expect(page.locator("#judge input")).to_be_focused()
    expect(page.get_by_role("option").first).to_be_visible()
    offered = page.get_by_role("option").all()
    assert [option.get_attribute("aria-label") for option in offered] == JUDGES
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect_judge(page, "second")


@pytest.mark.browser
def test_a_judge_that_is_still_being_loaded_can_be_chosen_and_run(
    serve: Serve, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    """Its script is a pipe, which cannot be read before it is written."""
    os.mkfifo(path := tmp_path / "slow.jsonl")
    page = open_settings(
        open_page, server := serve([FIRST], "--judge", f"scripted:{path}", protocol="paired")
    )
    found = client(server).predict(api_name="/health")
    assert (found["status"], [judge["status"] for judge in found["judges"]]) == (
        "ready",
        ["ready", "loading"],
    )
    choose(page, "judge", "slow")
    expect(page.locator(".vrt-judge")).to_have_text(words.LOADING)
    choose(page, "judge", "script")
    expect_judge(page, "script")
    choose(page, "judge", "slow")
    expect(page.locator(".vrt-judge")).to_have_text(words.LOADING)
    start(page, clips)
    wait_for(page, words.LOADING)
    path.write_text(json.dumps({"reply": SECOND, "protocol": "paired"}))
    expect_finished(page, "Video 2 is better overall", "slow")


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


@pytest.mark.browser
def test_a_banner_is_shown_without_a_run_and_replaced_by_one(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url)
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    text, trace = page.evaluate(SHOW_TWO_VALUES, [{"turns": []}, NOTES])
    assert "This is the built-in judge." in text
    assert trace["introduction"]
    for values in ([NOTES, RUN], [RUN, NOTES]):
        text, trace = page.evaluate(SHOW_TWO_VALUES, values)
        assert "A note of the run." in text
        assert trace["run"] == "a"


# -- from a program ------------------------------------------------------------------------------------------------------


def test_health_lists_every_judge(server: Server) -> None:
    until(
        lambda: all(
            judge["status"] != "loading"
            for judge in client(server).predict(api_name="/health")["judges"]
        )
    )
    found = client(server).predict(api_name="/health")
    assert (found["status"], found["judge"], found["error"]) == ("ready", "script", "")
    assert found["judges"] == [
        {"name": "script", "status": "ready", "error": ""},
        {"name": "second", "status": "ready", "error": ""},
        {"name": "missing", "status": "no judge", "error": "There is no folder missing."},
        {"name": "endless", "status": "ready", "error": ""},
    ]


def test_a_program_chooses_a_judge_by_name(server: Server, clips: Clips) -> None:
    files = uploaded(server, clips)
    for name, judge in (
        ("", "script"),
        (None, "script"),
        ("script", "script"),
        ("second", "second"),
    ):
        item = answers(server, *files, PROMPT, name)[-1]
        assert (item["stop"], item["judge"], item["labels"]) == ("answered", judge, LABELS[judge])
    assert (
        client(server).predict(*files, prompt=PROMPT, judge="second", api_name="/compare")["judge"]
        == "second"
    )
    check_refused(
        answers(server, *files, PROMPT, "oracle")[-1],
        "There is no judge 'oracle' here. Choose script, second, missing",
    )
    check_refused(answers(server, *files, PROMPT, ["second"])[-1], "There is no judge")
    check_refused(answers(server, *files, PROMPT, "missing")[-1], "There is no folder missing.")


def test_a_browser_cannot_choose_a_judge_that_is_not_offered(server: Server, clips: Clips) -> None:
    event, inputs = comparing(server)
    values = [*uploaded(server, clips), PROMPT, "oracle", *[None] * (inputs - 4)]
    assert "oracle" in act(server, event, values)["error"]
    page = config(server)
    (judge,) = (
        part["id"] for part in page["components"] if part["props"].get("elem_id") == "judge"
    )
    (choosing,) = (event for event in page["dependencies"] if event["inputs"] == [judge])
    assert "oracle" in act(server, choosing["id"], ["oracle"])["error"]


def test_the_config_contains_no_path_of_a_judge(server: Server) -> None:
    text = json.dumps(config(server))
    assert all(name in text for name in JUDGES)
    assert "/missing" not in text
    assert ".jsonl" not in text
