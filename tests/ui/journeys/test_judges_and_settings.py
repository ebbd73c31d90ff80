"""Choosing a judge and its settings, and the help on what it said."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.ui.conftest import write_script
from tests.ui.support import handmade_runs, steps
from tests.ui.support.browsing import PHONE, Clips, Locator, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import ANSWER, ENDLESS

SECOND = {"reply": "<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>", "protocol": "paired"}


@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of a judge, which is not read before it is written."""
    os.mkfifo(path := tmp_path_factory.mktemp("pipe") / "slow.jsonl")
    return path


@pytest.fixture(scope="module")
def server(serve: Serve, pipe: Path) -> Server:
    """Three judges, one that cannot be opened, and the one behind the pipe."""
    folder, judges = pipe.with_name("judges"), [("second", SECOND["reply"]), ("endless", ENDLESS)]
    folder.mkdir()
    second, endless = (
        write_script(folder / f"{name}.jsonl", [reply], protocol="paired", pause=0.02)
        for name, reply in judges
    )
    offered = (second, f"hf:{folder}/missing", endless, f"scripted:{pipe}")
    options = [option for judge in offered for option in ("--judge", judge)]
    return serve([ANSWER], *options, protocol="paired", pause=0.005)


@pytest.fixture
def form(page: Page) -> Page:
    steps.wait_for_judge(page)
    steps.open_settings(page, more=True)
    return page


def choose(page: Page, name: str, state: str = "", ran: str = "") -> None:
    """Choose a judge, whose state the chip tells; the run that is shown was judged by `ran`."""
    steps.choose_judge(page, name)
    chip = f"Judge: {name}, {state}" if state else f"Judge: {name}"
    expect(page.locator(".vrt-judge-chip span").first).to_have_text(chip)
    expect(page.locator(".vrt-judge")).to_have_text(ran and f"Judge: {ran}")


def expect_finished(page: Page, headline: str, name: str) -> None:
    expect(steps.headline(page)).to_have_text(headline)
    steps.wait_until_over(page)
    expect(page.locator(".vrt-judge")).to_have_text(f"Judge: {name}")


def test_the_chosen_judge_runs_and_is_named(form: Page, clips: Clips) -> None:
    page, go = form, form.locator("#go")
    choose(page, "second")
    steps.start(page, clips)
    expect_finished(page, "Video 2 is better overall", "second")
    choose(page, "script", ran="second")  # the run stays
    assert steps.stays(page, lambda: steps.trace_text(page))
    go.click()
    expect_finished(page, "Video 1 is better overall", "script")
    choose(page, "endless", ran="script")
    steps.button(page, "Swap sides").click()
    steps.wait_for(page, "^Sides swapped")
    go.click()
    steps.wait_for(page, "writing")
    choose(page, "second", ran="endless")  # for the next run
    steps.wait_until_written(page)
    steps.stop(page)
    go.click()
    expect_finished(page, "Video 2 is better overall", "second")


def test_a_judge_that_is_missing_or_late(form: Page, clips: Clips, pipe: Path) -> None:
    page, ending = form, form.locator(".vrt-ending")
    choose(page, "missing", "cannot be opened")
    expect(ending).to_contain_text("There is no folder missing. Choose another judge")
    choose(page, "second")
    expect(ending).to_be_hidden()
    choose(page, "slow", "loading")
    choose(page, "missing", "cannot be opened")
    steps.start(page, clips)
    steps.wait_for(page, "^Failed before the first turn")
    expect(ending).to_have_text("There is no folder missing.")
    chip = page.locator(".vrt-judge-chip")
    chip.focus()
    page.keyboard.press("Enter")  # the keyboard is enough
    use = steps.button(steps.judge_row(page, "second"), "second")
    expect(use).to_be_visible()
    while use.evaluate("node => node !== document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(chip).to_be_focused()
    page.locator("#go").click()
    expect_finished(page, "Video 2 is better overall", "second")
    steps.choose_judge(page, "slow")
    page.locator("#go").click()
    steps.wait_for(page, "^Loading the judge")
    pipe.write_text(json.dumps(SECOND))
    expect_finished(page, "Video 2 is better overall", "slow")


@opened(low={"viewport": {"width": 1280, "height": 720}})
def test_settings_reach_the_run(form: Page, clips: Clips, tmp_path: Path) -> None:
    page, written = form, {"seed": "2", "max_new_tokens": "409", "window": "Keep everything"}
    assert page.locator("#bench").evaluate("node => node.scrollWidth === node.clientWidth")
    for part in ("#players", "#more-settings > :last-child", "#swap input"):
        page.locator(part).scroll_into_view_if_needed()
        expect(page.locator(part)).to_be_in_viewport()
    steps.write_setting(page, "temperature", "2.5")
    steps.start(page, clips)
    steps.wait_for(page, '^Not started. The setting "Temperature" must lie between 0 and 2')
    expect(page.locator(".vrt-intro")).to_be_visible()
    steps.choose(page, "temperature", "0.7")
    for name, value in written.items():
        steps.write_setting(page, name, value)
    steps.choose(page, "fit", "Letterboxed")
    steps.compare_again(page)
    found = steps.saved_trace(page, tmp_path).started.settings
    assert (found.temperature, found.seed, found.max_new_tokens) == (0.7, 2, 409)
    assert (found.window, found.fit, found.protocol) == ("all", "letterbox", "paired")
    expect(page.locator("#protocol")).to_have_count(0)  # this judge knows only one


HELPS = (
    "All things weighed together.* finds video 1 better",
    "what the prompt says.* finds video 1 better",
    "of the picture.* A missing label is not a tie",
    "natural motion.* sees no difference.* 50 % likely to write this label",
)
"""Of the four dimensions as they stand in a verdict."""
THOUGHT = "<img src=x onerror=alert(1)> I wonder."


def expect_help(page: Page, text: str = "") -> Locator:
    """This help is shown, inside the window, and no other; or none is."""
    shown = page.locator("[role=tooltip]:visible")
    expect(shown).to_have_text([re.compile(text)] if text else [])
    for each in shown.all():
        box = each.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= page.viewport_size["width"]
    return shown


@opened(desktop={}, phone=PHONE)
def test_what_a_judge_said_explains_itself(page: Page, tmp_path: Path) -> None:
    """To a hover and to the focus, or to a tap, until Escape or a second press."""
    steps.replay(page, tmp_path / "trace.json", handmade_runs.doubtful(THOUGHT))
    expect_help(page)
    assert "%" not in page.locator(".vrt-chips").inner_text()
    thought = page.locator(".vrt-aside .vrt-passage p")
    expect(thought).to_be_hidden()
    page.locator(".vrt-aside summary").click()
    expect(thought).to_have_text(THOUGHT)
    buttons = page.locator(".vrt-chip > button").all()
    narrow, explained = steps.is_narrow(page), list(zip(buttons, HELPS, strict=True))
    for button, text in explained:
        button.tap() if narrow else button.hover()
        shown = expect_help(page, text)
        expect(button).to_have_attribute("aria-expanded", str(narrow).lower())
        if narrow:
            steps.headline(page).tap()
            expect_help(page)
    if narrow:
        return
    box = shown.bounding_box()
    over = box["x"] + 9, box["y"] + box["height"] / 2
    page.mouse.move(*over, steps=40)  # over all that lies between
    expect_help(page, text)
    page.keyboard.press("Escape")
    expect_help(page)
    page.get_by_role("tab", name="Thinking").first.focus()
    for button, text in explained:
        while button.evaluate("node => node !== document.activeElement"):
            page.keyboard.press("Tab")  # frame numbers lie between
        expect(expect_help(page, text)).to_have_id(button.get_attribute("aria-describedby"))
    for key, seen in (("Enter", text), ("Enter", ""), ("Enter", text), ("Escape", "")):
        page.keyboard.press(key)
        expect_help(page, seen)
