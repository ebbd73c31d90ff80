"""Choosing between judges: in the browser, and from a program."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.conftest import Server, write_script
from tests.ui.page.test_page import ENDLESS, start, wait_for
from tests.ui.page.test_saved_runs import LONG, choose, show_example
from tests.ui.sessions.test_background_run import until
from tests.ui.support.api_calls import PROMPT, act, answers, check_refused, client, comparing, config, uploaded
from tests.ui.support.saved_examples import write_example
from vrthinker_core.ui.view import words

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

Clips = tuple[Path, Path]
Open = Callable[..., "Page"]

FIRST = "<Think>The first.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
SECOND = "<Think>The second.</Think><Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"
LABELS = {"script": {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}, "second": {"TA": 2, "MQ": 2, "VQ": 2, "OA": 2}}
NAMES = ["script", "second", "missing", "endless"]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Two judges of different opinions, one that cannot be opened, and one that never ends."""
    folder = tmp_path_factory.mktemp("judges")
    write_example(folder / "examples" / "a-block")
    more = (
        write_script(folder / "second.jsonl", [SECOND], protocol="paired", pause=0.005),
        f"hf:{folder}/missing",
        write_script(folder / "endless.jsonl", [ENDLESS], protocol="paired", pause=0.01),
    )
    options = [word for judge in more for word in ("--judge", judge)]
    examples = str(folder / "examples")
    return serve([FIRST], *options, "--examples", examples, "--at-once", "3", protocol="paired", pause=0.005)


def opened(open_page: Open, server: Server, **options: Any) -> Page:
    """The page with its settings open."""
    page = open_page(server.url, **options)
    page.locator("#settings button").first.click()
    expect(page.locator("#judge input")).to_be_visible(timeout=LONG)
    expect(page.locator(".vrt-notes li").first).to_be_visible(timeout=LONG)
    return page


def choices(page: Page) -> list[str]:
    """What the judge can be chosen from."""
    expect(page.get_by_role("option").first).to_be_visible(timeout=LONG)
    return [str(option.get_attribute("aria-label")) for option in page.get_by_role("option").all()]


def judged_by(page: Page, name: str) -> None:
    """Who is named as the judge."""
    expect(page.locator(".vrt-judge")).to_have_text(f"Judge: {name}", timeout=LONG)


def finished(page: Page, headline: str, name: str) -> None:
    expect(page.locator(".vrt-headline")).to_have_text(headline, timeout=LONG)
    wait_for(page, "Finished")
    judged_by(page, name)


# -- in the browser ------------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_chosen_judge_speaks_and_is_named(server: Server, open_page: Open, clips: Clips) -> None:
    page = opened(open_page, server)
    judged_by(page, "script")
    choose(page, "judge", "second")
    judged_by(page, "second")
    start(page, clips)
    finished(page, "Video 2 is better overall", "second")
    choose(page, "judge", "script")
    page.wait_for_timeout(500)
    finished(page, "Video 2 is better overall", "second")
    assert page.locator(".vrt-turn").count() == 1, "what is being read stays"
    page.locator("#go").click()
    finished(page, "Video 1 is better overall", "script")
    choose(page, "judge", "second")
    page.get_by_role("button", name="swap").click()
    wait_for(page, "Sides swapped")
    judged_by(page, "second")


@pytest.mark.browser
def test_a_choice_during_a_run_is_for_the_next_one(server: Server, open_page: Open, clips: Clips) -> None:
    page = opened(open_page, server)
    choose(page, "judge", "endless")
    start(page, clips)
    page.wait_for_selector(".vrt-text p")
    choose(page, "judge", "second")
    before = len(page.locator(".vrt-text").first.inner_text())
    until(lambda: page.wait_for_timeout(30) or len(page.locator(".vrt-text").first.inner_text()) > before)
    judged_by(page, "endless")
    page.locator("#stop").click()
    wait_for(page, "Stopped")
    judged_by(page, "endless")
    page.locator("#go").click()
    finished(page, "Video 2 is better overall", "second")


@pytest.mark.browser
def test_a_saved_run_that_is_read_stays(server: Server, open_page: Open) -> None:
    page = opened(open_page, server)
    show_example(page)
    shown = page.locator("#trace").inner_text()
    judged_by(page, "scripted")
    choose(page, "judge", "missing")
    page.wait_for_timeout(500)
    assert page.locator("#trace").inner_text() == shown
    judged_by(page, "scripted")


@pytest.mark.browser
def test_one_that_cannot_be_opened_says_why_and_spoils_no_other(server: Server, open_page: Open, clips: Clips) -> None:
    page = opened(open_page, server)
    choose(page, "judge", "missing")
    expect(page.locator(".vrt-judge")).to_have_text(words.unopened_line("missing"), timeout=LONG)
    expect(page.locator(".vrt-ending")).to_have_text("There is no folder missing.")
    assert page.locator(".vrt-notes li").count() == 0
    start(page, clips)
    wait_for(page, "Failed before the first turn")
    expect(page.locator(".vrt-ending")).to_have_text("There is no folder missing.")
    choose(page, "judge", "second")
    page.locator("#go").click()
    finished(page, "Video 2 is better overall", "second")


@pytest.mark.browser
def test_what_must_be_known_of_a_judge_comes_and_goes_with_it(server: Server, open_page: Open) -> None:
    page = opened(open_page, server)
    choose(page, "judge", "missing")
    expect(page.locator(".vrt-ending")).to_be_visible(timeout=LONG)
    choose(page, "judge", "second")
    expect(page.locator(".vrt-notes li")).to_have_text(["A script speaks, not a model."], timeout=LONG)
    expect(page.locator(".vrt-ending")).to_be_hidden()


@pytest.mark.browser
def test_a_judge_is_chosen_by_keys_alone(server: Server, open_page: Open) -> None:
    page = opened(open_page, server)
    page.locator("#settings button").first.focus()
    page.keyboard.press("Tab")
    expect(page.locator("#judge input")).to_be_focused()
    assert choices(page) == NAMES
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    judged_by(page, "second")


@pytest.mark.browser
def test_two_visitors_choose_for_themselves(server: Server, open_page: Open, clips: Clips) -> None:
    anna, bert = opened(open_page, server), opened(open_page, server)
    choose(anna, "judge", "second")
    judged_by(anna, "second")
    judged_by(bert, "script")
    start(bert, clips)
    start(anna, clips)
    finished(anna, "Video 2 is better overall", "second")
    finished(bert, "Video 1 is better overall", "script")


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A script that cannot be read before it is written, and what writes it."""
    path = tmp_path / "slow.jsonl"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_text(json.dumps({"reply": SECOND, "protocol": "paired"})), daemon=True)
    yield path, writer.start
    if not writer.ident:
        os.close(os.open(path, os.O_RDWR))


@pytest.mark.browser
def test_a_judge_that_is_still_being_loaded(
    serve: Callable[..., Server], open_page: Open, clips: Clips, pipe: tuple[Path, Callable[[], None]]
) -> None:
    path, write = pipe
    page = opened(open_page, server := serve([FIRST], "--judge", f"scripted:{path}", protocol="paired"))
    found = client(server).predict(api_name="/health")
    assert (found["status"], [judge["status"] for judge in found["judges"]]) == ("ready", ["ready", "loading"])
    choose(page, "judge", "slow")
    expect(page.locator(".vrt-judge")).to_have_text(words.LOADING, timeout=LONG)
    choose(page, "judge", "script")
    judged_by(page, "script")
    choose(page, "judge", "slow")
    expect(page.locator(".vrt-judge")).to_have_text(words.LOADING, timeout=LONG)
    start(page, clips)
    wait_for(page, words.LOADING)
    write()
    finished(page, "Video 2 is better overall", "slow")


@pytest.mark.browser
def test_a_single_judge_can_be_read_too(answering: Server, open_page: Open) -> None:
    page = opened(open_page, answering)
    assert page.locator("#judge input").input_value() == "script"
    page.locator("#judge input").click()
    assert choices(page) == ["script"]
    assert page.locator("#settings input").first.get_attribute("aria-label") == "Judge"
    assert words.JUDGE_HELP in page.locator("#judge").inner_text()


# -- from a program ------------------------------------------------------------------------------------------------------


def test_health_tells_of_each(server: Server) -> None:
    until(lambda: all(judge["status"] != "loading" for judge in client(server).predict(api_name="/health")["judges"]), 60)
    found = client(server).predict(api_name="/health")
    assert (found["status"], found["judge"], found["error"]) == ("ready", "script", "")
    assert found["judges"] == [
        {"name": "script", "status": "ready", "error": ""},
        {"name": "second", "status": "ready", "error": ""},
        {"name": "missing", "status": "no judge", "error": "There is no folder missing."},
        {"name": "endless", "status": "ready", "error": ""},
    ]


def test_a_program_chooses_by_name(server: Server, clips: Clips) -> None:
    files = uploaded(server, clips)
    for name, said in (("", "script"), (None, "script"), ("script", "script"), ("second", "second")):
        told = answers(server, *files, PROMPT, name)[-1]
        assert (told["stop"], told["judge"], told["labels"]) == ("answered", said, LABELS[said])
    assert client(server).predict(*files, prompt=PROMPT, judge="second", api_name="/compare")["judge"] == "second"
    check_refused(answers(server, *files, PROMPT, "oracle")[-1], "There is no judge 'oracle' here. Choose script, second, missing")
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
        thread.join(60)
    assert {prompt: (told["prompt"], told["judge"], told["labels"]) for prompt, told in found.items()} == {
        prompt: (prompt, name, LABELS[name]) for prompt, name in asked.items()
    }


def test_a_browser_cannot_name_another_one(server: Server, clips: Clips) -> None:
    event, inputs = comparing(server)
    values = [*uploaded(server, clips), PROMPT, "oracle", *[None] * (inputs - 4)]
    assert "oracle" in act(server, event, values)["error"]
    (choosing,) = (event for event in config(server)["dependencies"] if event["targets"] and event["targets"][0][1] == "input")
    assert "oracle" in act(server, choosing["id"], ["oracle"])["error"]


def test_nothing_tells_where_judges_lie(server: Server) -> None:
    told = json.dumps(config(server))
    assert all(name in told for name in NAMES)
    assert "/missing" not in told
    assert ".jsonl" not in told
