"""Rollouts of a training side by side, in a real browser: rows are picked in the list, and each is a column of a dialog."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

import pytest

from tests.ui.conftest import PHONE, Server
from tests.ui.page.test_accessibility import serious_violations
from tests.ui.page.test_saved_runs import tab
from tests.ui.runs.drawn_results import outside
from tests.ui.runs.test_runs_page import HOSTILE, open_list, shown_row
from tests.ui.support.handmade_runs import THINK, WHOLE, three_turns
from vrthinker_core.results.known_labels import add_labels
from vrthinker_core.results.trace_files import CONFIG, STATE
from vrthinker_core.traces import to_json
from vrthinker_core.types import Preference, StopReason
from vrthinker_core.types.events import Finished, Trace
from vrthinker_core.types.wording import DEMO_RUN, NOT_SWAP_TESTED

expect = pytest.importorskip("playwright.sync_api").expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser

Open = Callable[..., "Page"]
STEPS = 6
WRONG = replace(WHOLE, OA=Preference.SECOND)


def rollout(step: int) -> Trace:
    """A judge that is right in all labels from step 3 on; in step 1 it gives no answer."""
    run = three_turns(judge=f"by hand, grpo, step {step}")
    if step == 1:
        return replace(run, turns=run.turns[:2], finished=Finished(StopReason.TOKEN_LIMIT))
    return replace(run, finished=replace(run.finished, verdict=WHOLE if step >= 3 else WRONG))


def hostile() -> Trace:
    run = three_turns(prompt=HOSTILE)
    first, *others = run.turns
    return replace(run, turns=(replace(first, reply=replace(first.reply, think=HOSTILE)), *others))


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The folder of a training whose rollouts are six of one prompt and two of others."""
    folder = tmp_path_factory.mktemp("grpo")
    (folder / "rollouts").mkdir()
    for name in (CONFIG, STATE):
        (folder / name).write_text("{}")
    files = {f"grpo-step-{step:05d}-sample-0.json": rollout(step) for step in range(STEPS)} | {
        "other.json": hostile()
    }
    files["outside.json"] = outside(prompt="Rain.")
    add_labels(folder / "rollouts", dict.fromkeys(files, WHOLE))
    for name, trace in files.items():
        (folder / "rollouts" / name).write_bytes(to_json(trace))
    return serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"], "--runs", str(folder))


def box(page: Page, row: int) -> Locator:
    return page.get_by_role("checkbox", name=f"Pick row {row} for side by side")


def opener(page: Page) -> Locator:
    return page.get_by_role("button", name="Side by side")


def columns(page: Page, names: list[str]) -> Locator:
    """The columns of these names, once each has its run."""
    expect(page.locator(".vrt-column h2")).to_have_text(names)
    expect(page.locator(".vrt-column:has(.vrt-turn)")).to_have_count(len(names))
    return page.locator(".vrt-column")


def test_rows_of_one_prompt_from_the_first_to_the_last(server: Server, open_page: Open) -> None:
    """Each column says which rollout it is, which labels are right, and all that the judge saw and wrote, turn beside turn."""
    page = open_list(open_page, server)
    expect(page.locator(".vrt-rows > li")).to_have_count(STEPS + 2)
    expect(page.locator(".vrt-row-read")).to_contain_text(NOT_SWAP_TESTED)
    expect(opener(page)).to_be_hidden()
    box(page, 4).check()
    expect(opener(page)).to_be_disabled()
    page.get_by_role("button", name="4 of 6 of this prompt").click()
    assert [row for row in range(1, STEPS + 2) if box(page, row).is_checked()] == [1, 3, 4, 6]
    opener(page).click()
    shown = columns(page, ["Row 1", "Row 3", "Row 4", "Row 6"])
    expect(page.locator(".vrt-side-prompt")).to_have_text("A ball pans steadily.")
    first, last = shown.first, shown.last
    expect(first).to_contain_text("rollouts/grpo-step-00000-sample-0.json")
    expect(last).to_contain_text("by hand, grpo, step 5")
    expect(first.get_by_role("img", name="wrong")).to_have_count(1)
    expect(last.get_by_role("img", name="right", exact=True)).to_have_count(4)
    expect(last).to_contain_text("4 of 4 labels right")
    for part in (
        "What stood out in turn 1.",
        THINK.strip(),
        "select_frames([10, 30, 60, 90])",
        "What stood out in turn 3.",
    ):
        expect(first).to_contain_text(part)
    picture = "nodes => nodes.every(node => node.complete && node.naturalWidth > 0)"
    expect(first.locator(".vrt-tile")).to_have_count(14)
    page.wait_for_function(f"({picture})([...document.querySelectorAll('.vrt-column img')])")
    heights = page.locator(".vrt-column .vrt-turn:nth-child(3)").evaluate_all(
        "nodes => nodes.map(n => n.getBoundingClientRect().top)"
    )
    assert len(heights) == 4
    assert len(set(heights)) == 1, "the same turn stands at the same height"
    expect(page.locator(".vrt-side-by-side [id]")).to_have_count(
        1
    )  # its title: in columns any other would be there several times


def test_a_run_without_an_answer_says_why_beside_the_others(
    server: Server, open_page: Open
) -> None:
    page = open_list(open_page, server)
    for row in (3, 2):
        box(page, row).check()
    opener(page).click()
    shown = columns(page, ["Row 2", "Row 3"])  # in the order of the list
    expect(shown.first).to_contain_text("token limit")
    expect(shown.first.locator(".vrt-turn")).to_have_count(2)


def test_a_run_outside_the_judges_scope_has_no_label_beside_the_others(
    server: Server, open_page: Open
) -> None:
    page = open_list(open_page, server)
    listed = page.locator(".vrt-rows > li").nth(STEPS + 1)
    for row in (1, STEPS + 2):
        box(page, row).check()
    opener(page).click()
    shown = columns(page, ["Row 1", f"Row {STEPS + 2}"])
    for place in (listed, shown.last):
        expect(place).to_contain_text(DEMO_RUN)
        expect(place).not_to_contain_text("labels right")
        expect(place.get_by_role("img", name=re.compile("right|wrong"))).to_have_count(0)
        expect(place.locator(".vrt-row-labels tr").nth(1).locator("td")).to_have_text(["–"] * 4)


def test_the_keyboard_is_enough(server: Server, open_page: Open) -> None:
    """Space picks a row and Enter opens; Escape gives the focus back, from a closer look first."""
    page = open_list(open_page, server)
    box(page, 1).press("Space")
    box(page, 1).press("Enter")
    expect(page.locator(".vrt-side-by-side")).to_be_hidden()
    box(page, 5).press("Space")
    box(page, 5).press("Enter")
    shown = columns(page, ["Row 1", "Row 5"])
    tile = shown.last.locator(".vrt-tile").nth(1)
    tile.press("Enter")
    expect(page.locator(".vrt-closer h2")).to_have_text("#48 · turn 1")
    expect(page.locator(".vrt-closer .vrt-note")).to_contain_text("open this row alone")
    page.keyboard.press("Escape")
    expect(tile).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".vrt-side-by-side")).to_be_hidden()
    expect(box(page, 5)).to_be_focused()
    page.get_by_role("button", name="Clear", exact=True).click()
    expect(box(page, 1)).to_be_focused()
    expect(box(page, 5)).not_to_be_checked()


def test_no_fifth_row_is_picked_and_close_gives_the_focus_back(
    server: Server, open_page: Open
) -> None:
    page = open_list(open_page, server)
    for row in (1, 2, 3, 4):
        box(page, row).check()
    box(page, 5).click()
    expect(box(page, 5)).not_to_be_checked()
    expect(page.locator(".vrt-picked [role=status]")).to_have_text(
        "4 rows are picked, which is the most."
    )
    opener(page).click()
    columns(page, ["Row 1", "Row 2", "Row 3", "Row 4"])
    page.get_by_role("button", name="Close", exact=True).click()
    expect(opener(page)).to_be_focused()
    opener(page).click()
    page.get_by_role("button", name="Open alone: Row 3").click()
    expect(page.locator(".vrt-side-by-side")).to_be_hidden()
    shown_row(page, "Row 3 · 3 of 8")
    tab(page, "Evaluation")
    opener(page).click()
    columns(page, ["Row 1", "Row 2", "Row 3", "Row 4"])
    page.go_back()
    expect(page.locator(".vrt-side-by-side")).to_be_hidden()


@pytest.mark.parametrize(("scheme", "size"), [("dark", {}), ("light", PHONE)])
def test_text_stays_text_and_everybody_can_read_it(
    server: Server, open_page: Open, scheme: str, size: dict[str, object]
) -> None:
    page = open_list(open_page, server, color_scheme=scheme, bypass_csp=True, **size)
    axe = (
        resources.files(pytest.importorskip("axe_playwright_python"))
        .joinpath("axe.min.js")
        .read_text("utf-8")
    )
    for row in (1, 7):
        box(page, row).check()
    assert serious_violations(page, axe) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opener(page).click()
    shown = columns(page, ["Row 1", "Row 7"])
    expect(shown.last.get_by_text(HOSTILE)).to_have_count(2)  # its prompt, and what the judge wrote
    assert serious_violations(page, axe) == []
    width = "node => node.scrollWidth > node.clientWidth"
    assert page.locator(".vrt-columns").evaluate(width) == bool(size), (
        "where there is no room for both, they are a strip"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_whoever_votes_first_sees_the_frames_alone(server: Server, open_page: Open) -> None:
    page = open_list(open_page, server)
    page.get_by_label("Vote first").check()
    expect(page.locator(".vrt-row-said")).to_contain_text("Vote first")
    for row in (1, 5):
        box(page, row).check()
    opener(page).click()
    shown = columns(page, ["Row 1", "Row 5"])
    expect(shown.first.locator(".vrt-column-said")).to_contain_text("hidden here")
    expect(shown.first.locator(".vrt-tile")).to_have_count(14)
    for part in ("What stood out", "right", "Data set", "select_frames"):
        expect(shown.first).not_to_contain_text(part)
