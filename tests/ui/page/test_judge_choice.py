"""Choosing between judges: in the browser, and from a program."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Server, write_script
from tests.ui.page.test_page import ENDLESS, start, wait_for
from tests.ui.page.test_saved_runs import choose, show_example, trace_text
from tests.ui.support.api_calls import (
    PROMPT,
    act,
    answers,
    check_refused,
    client,
    comparing,
    config,
    uploaded,
)
from tests.ui.support.saved_examples import write_example
from vrthinker_core.ui.view import words

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]

FIRST = "<Think>The first.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
SECOND = "<Think>The second.</Think><Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"
LABELS = {
    "script": {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1},
    "second": {"TA": 2, "MQ": 2, "VQ": 2, "OA": 2},
}
JUDGES = ["script", "second", "missing", "endless"]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Two judges with different verdicts, one that cannot be opened, and one that never ends."""
    folder = tmp_path_factory.mktemp("judges")
    write_example(folder / "examples" / "a-block")
    more = (
        write_script(folder / "second.jsonl", [SECOND], protocol="paired", pause=0.005),
        f"hf:{folder}/missing",
        write_script(folder / "endless.jsonl", [ENDLESS], protocol="paired", pause=0.05),
    )
    options = [word for judge in more for word in ("--judge", judge)]
    examples = str(folder / "examples")
    return serve(
        [FIRST], *options, "--examples", examples, "--at-once", "3", protocol="paired", pause=0.005
    )


def open_settings(open_page: Open, server: Server, **options: Any) -> Page:
    """The page with its settings open."""
    page = open_page(server.url, **options)
    page.locator("#settings button").first.click()
    expect(page.locator("#judge input")).to_be_visible()
    expect(page.locator(".vrt-notes li").first).to_be_visible()
    return page


def judge_options(page: Page) -> list[str]:
    """The names in the judge's open dropdown."""
    expect(page.get_by_role("option").first).to_be_visible()
    return [str(option.get_attribute("aria-label")) for option in page.get_by_role("option").all()]


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
def test_choosing_a_judge_leaves_a_saved_run_on_the_page(server: Server, open_page: Open) -> None:
    page = open_settings(open_page, server)
    show_example(page)
    shown = trace_text(page)
    expect_judge(page, "scripted")
    choose(page, "judge", "missing")
    page.wait_for_timeout(500)
    assert trace_text(page) == shown
    expect_judge(page, "scripted")


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
    start(page, clips)
    wait_for(page, "Failed before the first turn")
    expect(page.locator(".vrt-ending")).to_have_text("There is no folder missing.")
    choose(page, "judge", "second")
    page.locator("#go").click()
    expect_finished(page, "Video 2 is better overall", "second")


@pytest.mark.browser
def test_a_judges_notes_come_and_go_with_it(server: Server, open_page: Open) -> None:
    page = open_settings(open_page, server)
    choose(page, "judge", "missing")
    expect(page.locator(".vrt-ending")).to_be_visible()
    choose(page, "judge", "second")
    expect(page.locator(".vrt-notes li")).to_have_text(["A script replies, not a model."])
    expect(page.locator(".vrt-ending")).to_be_hidden()


@pytest.mark.browser
def test_a_judge_can_be_chosen_by_keyboard_alone(server: Server, open_page: Open) -> None:
    page = open_settings(open_page, server)
    page.locator("#settings button").first.focus()
    page.keyboard.press("Tab")
    expect(page.locator("#judge input")).to_be_focused()
    assert judge_options(page) == JUDGES
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect_judge(page, "second")


@pytest.mark.browser
def test_two_visitors_choose_for_themselves(server: Server, open_page: Open, clips: Clips) -> None:
    anna, bert = open_settings(open_page, server), open_settings(open_page, server)
    choose(anna, "judge", "second")
    expect_judge(anna, "second")
    expect_judge(bert, "script")
    start(bert, clips)
    start(anna, clips)
    expect_finished(anna, "Video 2 is better overall", "second")
    expect_finished(bert, "Video 1 is better overall", "script")


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A script (a named pipe) that cannot be read before it is written, and the function that writes it."""
    path = tmp_path / "slow.jsonl"
    os.mkfifo(path)
    writer = threading.Thread(
        target=lambda: path.write_text(json.dumps({"reply": SECOND, "protocol": "paired"})),
        daemon=True,
    )
    yield path, writer.start
    if not writer.ident:
        os.close(os.open(path, os.O_RDWR))


@pytest.mark.browser
def test_a_judge_that_is_still_being_loaded_can_be_chosen_and_run(
    serve: Callable[..., Server],
    open_page: Open,
    clips: Clips,
    pipe: tuple[Path, Callable[[], None]],
) -> None:
    path, write = pipe
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
    write()
    expect_finished(page, "Video 2 is better overall", "slow")


@pytest.mark.browser
def test_a_single_judge_is_listed_too(answering: Server, open_page: Open) -> None:
    page = open_settings(open_page, answering)
    assert page.locator("#judge input").input_value() == "script"
    page.locator("#judge input").click()
    assert judge_options(page) == ["script"]
    assert page.locator("#settings input").first.get_attribute("aria-label") == "Judge"
    assert words.JUDGE_HELP in page.locator("#judge").inner_text()


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


def test_programs_with_different_judges_never_mix(server: Server, clips: Clips) -> None:
    files = uploaded(server, clips)
    found: dict[str, dict[str, Any]] = {}

    def call(prompt: str, name: str) -> None:
        found[prompt] = answers(server, *files, prompt, name)[-1]

    asked = {f"Prompt number {number}.": ("script", "second")[number % 2] for number in range(6)}
    calling = [threading.Thread(target=call, args=words) for words in asked.items()]
    for thread in calling:
        thread.start()
    for thread in calling:
        thread.join(PATIENCE_S)
    assert {
        prompt: (item["prompt"], item["judge"], item["labels"]) for prompt, item in found.items()
    } == {prompt: (prompt, name, LABELS[name]) for prompt, name in asked.items()}


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
