"""Choosing a judge, with a visitor's key too, and settings; what a judge said, and what it cannot judge."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import app_process
from tests.support.fake_hosts import KEY, openai_host, put_at
from tests.support.faulty_server import FaultyServer
from tests.support.waiting import until
from tests.ui.conftest import write_script
from tests.ui.support import handmade_runs, steps
from tests.ui.support.browsing import Clips, Locator, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import ANSWER, ENDLESS
from vrthinker_core.__about__ import ASSETS
from vrthinker_core.types.events import Finished, StopReason

SECOND = {"reply": "<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>", "protocol": "paired"}
FIRST_WINS, SECOND_WINS = "Video 1 is better", "Video 2 is better"


def chip(page: Page) -> Locator:
    return page.locator(".vrt-judge-chip span").first


def use_in_dialog(page: Page, name: str) -> None:
    steps.button(steps.judge_row(page, name), name).click()
    expect(page.get_by_role("dialog")).to_be_hidden()


# -- a visitor's key ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host() -> Iterator[FaultyServer]:
    with openai_host() as server:
        yield server


def run_beside(url: str, *told: Any) -> None:
    """Run the app in a process where OpenAI is at this address."""
    with pytest.MonkeyPatch.context() as patch:
        put_at(patch, "openai", url)
        app_process._run_app(*told)


@pytest.fixture(scope="module")
def beside_host(tmp_path_factory: pytest.TempPathFactory, host: FaultyServer) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("chooser")
    script = write_script(folder / "script.jsonl", [ANSWER], protocol="paired")
    variables = {"HF_HOME": str(folder / "hub")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_process, "_run_app", partial(run_beside, host.url))
        server = Server(folder, script, "--judge", "nano", variables=variables, forked=True)
    with closing(server):
        yield server


def open_dialog(page: Page) -> Locator:
    page.locator(".vrt-judge-chip").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Host")).to_be_visible()
    dialog.get_by_label("Host").select_option("OpenAI")
    expect(dialog.get_by_text("OpenAI gets the frames")).to_be_visible()
    return dialog


def key_field(page: Page) -> Locator:
    return page.get_by_role("dialog").get_by_label("Key", exact=True)


def try_key(page: Page, key: str) -> None:
    key_field(page).fill(key)
    key_field(page).press("Enter")


def expect_facts_of_each_judge(page: Page, axe: str) -> Locator:
    """In a dialog that fits a phone and gives the focus back."""
    size, dialog = page.viewport_size, open_dialog(page)
    for row in ("Demo judge", "script"):
        expect(steps.judge_row(page, row).locator(".vrt-judge-facts li")).to_have_count(3)
    assert not steps.serious_violations(page, axe)
    assert steps.fits_a_phone(page)
    assert dialog.evaluate("node => node.scrollWidth <= node.clientWidth")
    page.set_viewport_size(size)
    page.keyboard.press("Escape")
    expect(page.locator(".vrt-judge-chip")).to_be_focused()
    return open_dialog(page)


@opened("beside_host")
def test_a_key_reaches_its_host_and_nothing_else(
    page: Page, beside_host: Server, host: FaultyServer, clips: Clips, axe: str, tmp_path: Path
) -> None:
    answers, log = list[str](), beside_host.log

    def keep(response: object) -> None:
        with suppress(Exception):  # some answers have no body, or none any more
            answers.append(response.text())  # type: ignore[attr-defined]

    page.on("requestfinished", lambda request: keep(request.response()))
    dialog = expect_facts_of_each_judge(page, axe)
    try_key(page, "sk-wrong-0123456789")
    refusal = dialog.get_by_role("alert").filter(has_text="does not accept this key")
    expect(refusal).to_be_focused()
    expect(key_field(page)).to_have_value("sk-wrong-0123456789")
    try_key(page, KEY)
    expect(dialog.get_by_text("Your key works")).to_be_visible()
    expect(key_field(page)).to_have_value("")
    assert not steps.serious_violations(page, axe)
    dialog.get_by_label("Model").select_option("gpt-5.2")
    steps.button(dialog.locator(".vrt-judge-key"), "Compare with it").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(".vrt-judge-chip")).to_be_focused()
    expect(chip(page)).to_have_text("Judge: gpt-5.2")
    steps.compare(page, clips)
    assert host.keys[-1] == f"Bearer {KEY}"
    saved = steps.saved(page, tmp_path / "trace.json").read_text()
    report = steps.saved(page, tmp_path / "report.html", "Report").read_text()
    steps.link(page)
    steps.tab(page, "History")
    expect(page.locator(".vrt-runs b").first).to_be_visible()
    kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    seen = [saved, report, page.evaluate(kept), page.content(), page.url, log.read_text(), *answers]
    assert len(answers) > 20
    assert not [each[:200] for each in seen if KEY in each]
    files = [path for path in beside_host.folder.rglob("*") if path.is_file()]
    assert any(path.name == "trace.json" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    open_dialog(page)
    steps.button(dialog, "Forget key").click()
    expect(steps.button(dialog, "Forget key")).to_be_hidden()
    expect(chip(page)).to_have_text("Judge: script")


# -- judges and settings of the server ------------------------------------------------------------


@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of a judge, which is not read before it is written."""
    os.mkfifo(path := tmp_path_factory.mktemp("pipe") / "slow.jsonl")
    return path


@pytest.fixture(scope="module")
def server(serve: Serve, pipe: Path) -> Server:
    """Three judges, one that cannot be opened, and the one behind the pipe."""
    folder = pipe.with_name("judges")
    folder.mkdir()
    judges = {"second": SECOND["reply"], "endless": ENDLESS}
    second, endless = (
        write_script(folder / f"{name}.jsonl", [reply], protocol="paired", pause=0.03)
        for name, reply in judges.items()
    )
    offered = (second, f"hf:{folder}/missing", endless, f"scripted:{pipe}")
    options = [option for judge in offered for option in ("--judge", judge)]
    return serve([ANSWER], *options, protocol="paired")


def choose(page: Page, name: str, state: str = "") -> None:
    """Choose a judge, whose state the chip tells."""
    steps.choose_judge(page, name)
    expect(chip(page)).to_have_text(f"Judge: {name}, {state}" if state else f"Judge: {name}")


def expect_finished(page: Page, headline: str, name: str) -> None:
    expect(steps.headline(page)).to_have_text(headline)
    steps.wait_until_over(page)
    expect(page.locator(".vrt-unchecked")).to_contain_text(f"says {name}")


def test_the_chosen_judge_runs_and_is_named_or_is_missing_or_late(
    page: Page, clips: Clips, pipe: Path
) -> None:
    steps.wait_for_judge(page)
    ending, go = page.locator(".vrt-ending"), page.locator("#go")
    choose(page, "missing", "cannot be opened")
    expect(ending).to_contain_text("There is no folder missing. Choose another judge")
    choose(page, "second")
    expect(ending).to_be_hidden()
    choose(page, "missing", "cannot be opened")
    steps.start(page, clips)
    steps.wait_for(page, "^Failed before the first turn")
    expect(ending).to_have_text("There is no folder missing.")
    steps.button(page.locator(".vrt-actions"), "Choose a judge…").click()
    page.keyboard.press("Escape")
    page.locator(".vrt-judge-chip").focus()
    page.keyboard.press("Enter")
    use = steps.button(steps.judge_row(page, "second"), "second")
    expect(use).to_be_visible()
    while use.evaluate("node => node !== document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # which compares at once
    expect_finished(page, SECOND_WINS, "second")
    choose(page, "endless")
    steps.wait_for(page, "writing")
    choose(page, "script")  # for the next run
    steps.choose_judge(page, "slow")
    before = steps.trace_text(page)
    until(lambda: page.wait_for_timeout(30) or steps.trace_text(page) != before)
    steps.stop(page)
    go.click()
    steps.wait_for(page, "^Loading the judge")
    pipe.write_text(json.dumps(SECOND))
    expect_finished(page, SECOND_WINS, "slow")
    page.goto(page.url.partition("?")[0])
    expect(chip(page)).to_have_text("Judge: slow")  # as it was chosen at the last visit


# -- what a judge said ----------------------------------------------------------------------------

HELPS = (
    "All things weighed together.* finds video 1 better",
    "what the prompt says.* finds video 1 better",
    "of the picture.* A missing label is not a tie",
    "natural motion.* sees no difference.* 50 % likely to write this label",
)
"""Of the four dimensions as they stand in a verdict."""
THOUGHT = "<img src=x onerror=alert(1)> I wonder."


def test_what_a_judge_said_explains_itself(page: Page, tmp_path: Path) -> None:
    """To a press, of a pointer or of a key."""
    trace = handmade_runs.telling_probabilities(THOUGHT)
    partial = replace(handmade_runs.WHOLE, VQ=None)
    last = replace(trace.turns[-1], reply=replace(trace.turns[-1].reply, verdict=partial))
    end = replace(trace.finished, verdict=partial)
    trace = replace(trace, turns=(*trace.turns[:-1], last), finished=end)
    steps.replay(page, tmp_path / "trace.json", trace)
    assert "%" not in page.locator(".vrt-chips").inner_text()
    thought = page.locator(".vrt-aside .vrt-passage p")
    expect(thought).to_be_hidden()
    page.locator(".vrt-aside summary").click()
    expect(thought).to_have_text(THOUGHT)
    for chip, text in zip(page.locator(".vrt-chip details").all(), HELPS, strict=True):
        summary = chip.locator("summary")
        expect(summary).to_have_attribute("title", re.compile(text))
        summary.click()
        expect(chip.get_by_text(re.compile(text))).to_be_visible()
        summary.press("Enter")
        expect(chip).not_to_have_attribute("open", "")


# -- videos that a judge cannot judge -------------------------------------------------------------

DRAWN = ASSETS / "examples" / "think-1-what-four-frames-do-not-show"
CANNOT = "The demo judge cannot judge real videos."


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the demo judge, and with one for all videos."""
    folder = tmp_path_factory.mktemp("demo")
    other = write_script(folder / "other.jsonl", ["<Think>Well.</Think>" + ANSWER])
    with closing(Server(folder, "nano", "--judge", other, forked=True)) as server:
        yield server


@opened("demo", **steps.WIDE, also={"390": steps.SCREENS["390"]})
def test_a_judge_that_is_ready_takes_the_place_of_the_demo_judge_once(
    page: Page, clips: Clips, axe: str
) -> None:
    compare, dialog = page.locator("#go"), page.get_by_role("dialog")
    notice = page.locator(".vrt-cannot")
    steps.fill(page, (DRAWN / "first.mp4", DRAWN / "second.mp4"))
    expect(chip(page)).to_have_text("Judge: Demo judge")
    for side in steps.SIDES:
        steps.clear(page, side)
    steps.fill(page, clips)
    expect(chip(page)).to_have_text("Judge: other")
    expect(notice).to_be_hidden()
    expect(compare).to_have_text("Compare")
    for side in steps.SIDES:
        steps.clear(page, side)
    chip(page).click()
    use_in_dialog(page, "Demo judge")
    steps.fill(page, clips)
    expect(notice).to_have_text(CANNOT)
    expect(compare).to_have_text("Choose a judge…")
    assert steps.fits(page)
    steps.write_prompt(page, "")
    compare.click()
    expect(page.locator("#prompt textarea[aria-invalid=true]")).to_be_focused()
    steps.write_prompt(page, "A cat.")
    compare.click()
    expect(dialog.get_by_role("status")).to_have_text(CANNOT)
    expect(steps.judge_row(page, "Demo judge").get_by_role("button")).to_have_count(0)
    assert steps.serious_violations(page, axe) == []
    page.keyboard.press("Escape")
    expect(compare).to_be_focused()
    compare.click()
    use_in_dialog(page, "other")
    expect_finished(page, FIRST_WINS, "other")
    expect(notice).to_be_hidden()
    expect(compare).to_have_text("Compare")


@opened("demo")
def test_a_run_without_a_verdict_shows_the_way_on(
    page: Page, clips: Clips, axe: str, tmp_path: Path
) -> None:
    """A program may let the demo judge look at real videos."""
    verdict, ended = page.locator(".vrt-verdict"), Finished(StopReason.ANSWERED, outside_scope=True)
    trace = replace(handmade_runs.three_turns(), finished=ended)
    steps.replay(page, tmp_path / "trace.json", trace)
    expect(steps.headline(page)).to_contain_text("No verdict: this judge cannot judge")
    expect(page.locator(".vrt-chip, .vrt-course li, .vrt-turn .vrt-text h4")).to_have_count(0)
    wrote = verdict.locator(".vrt-wrote")
    expect(wrote.locator("h3").first).to_be_hidden()
    wrote.locator("summary").click()
    expect(wrote.locator("h3").first).to_be_visible()
    assert steps.serious_violations(page, axe) == []
    assert steps.fits(page)
    steps.button(verdict, "Vote yourself").click()
    expect(steps.button(page, "Video 1", exact=True).last).to_be_focused()
    steps.fill(page, clips)
    expect(chip(page)).to_have_text("Judge: other")
    steps.button(verdict, "Compare with a judge that can").click()
    use_in_dialog(page, "other")
    steps.wait_until_over(page)
    expect(page.locator(".vrt-unchecked")).to_contain_text("says other")
    expect(steps.headline(page)).to_have_text(FIRST_WINS)
