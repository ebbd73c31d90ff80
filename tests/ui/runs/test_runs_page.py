"""An evaluation on the page, in a real browser: filters, rows, a folder that grows, and rollouts of a training side by side."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.conftest import PHONE, Serve, Server
from tests.ui.runs.drawn_results import append_result, kinds, outside, result, write_results
from tests.ui.support.browsing import Locator, Open, Page, expect
from tests.ui.support.handmade_runs import THINK, WHOLE, three_turns
from tests.ui.support.saved_examples import SCRIPT, write_example
from tests.ui.support.steps import serious_violations, tab, video_files
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import TRACES, result_of
from vrthinker_core.results.trace_files import CONFIG, STATE, add_labels
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import Preference, StopReason, Verdict
from vrthinker_core.types.events import Finished, Trace
from vrthinker_core.types.wording import DEMO_RUN, NOT_SWAP_TESTED

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)> ${alert(2)} {{value}}"
ROWS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty rows: the first with its videos at hand, the seventh never judged, the eighth with a hostile prompt."""
    folder = tmp_path_factory.mktemp("evaluation")
    rows = [*kinds(), result(8, prompt=HOSTILE), *(result(row) for row in range(9, ROWS + 1))]
    write_results(folder, rows[1:])
    example = write_example(folder / "clips")
    file, trace = f"{TRACES}/judged.json", load(example / "trace.json")
    pair = EvaluationPair(
        "first", 1, trace.started.prompt, str(example / "first.mp4"), str(example / "second.mp4")
    )
    pair = replace(
        pair, labels=Verdict(OA=Preference.SECOND), first_generator="Left", second_generator="Right"
    )
    (example / "trace.json").rename(folder / file)
    append_result(folder, result_of(pair, trace, file))
    return folder


@pytest.fixture(scope="module")
def server(serve: Serve, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Server:
    examples = tmp_path_factory.mktemp("examples")
    return serve(SCRIPT, "--examples", str(examples), "--runs", str(folder), protocol="paired")


def open_list(open_page: Open, server: Server, **options: object) -> Page:
    page = open_page(server.url, **options)
    tab(page, "Evaluation")
    expect(page.locator(".vrt-open-row").first).to_be_visible()
    return page


def expect_rows(page: Page, summary: str, numbers: list[str]) -> None:
    """The list comes to say this of itself, and to show the rows of these numbers."""
    expect(page.locator(".vrt-row-number")).to_have_text(numbers)
    expect(page.locator(".vrt-row-line [role=status]")).to_have_text(summary)


def shown_row(page: Page, place: str) -> None:
    expect(page.locator(".vrt-row-place")).to_contain_text(place)
    expect(page.locator(".vrt-headline")).to_be_visible()


def test_filters_search_and_pages(server: Server, open_page: Open, axe: str) -> None:
    page = open_list(open_page, server, color_scheme="dark", bypass_csp=True)
    row = page.locator(".vrt-rows > li").nth(5)  # its label flips, and shows no winner
    labels = row.locator(".vrt-row-labels tr").nth(1).locator("td")
    expect(labels).to_have_text(["flips", "1", "2", "tie"])
    expect(row.locator(".vrt-v1, .vrt-v2")).to_have_text(["1", "2"])
    expect(row.locator(".vrt-row-facts")).to_contain_text("flips when swapped: OA")
    expect(row.locator(".vrt-row-facts")).not_to_contain_text("probability")
    expect(page.locator(".vrt-row-read")).not_to_contain_text("swap")
    expect_rows(page, "50 rows", [str(row) for row in range(1, 41)])
    assert serious_violations(page, axe) == []
    page.get_by_role("button", name="Next", exact=True).click()
    expect(page.locator(".vrt-row-pages")).to_contain_text("Page 2 of 2")
    expect_rows(page, "50 rows", [str(row) for row in range(41, 51)])
    expect(
        page.get_by_role("button", name="Next", exact=True)
    ).to_be_focused()  # though there is no further page
    page.get_by_role("button", name="Disagrees overall").click()
    expect_rows(page, "2 of 50 rows", ["1", "2"])
    expect(page.get_by_role("button", name="Flips when swapped")).to_be_disabled()
    assert serious_violations(page, axe) == []
    page.get_by_role("button", name="Disagrees overall").click()
    chip = page.get_by_role("button", name="Failed")
    chip.click()
    expect_rows(page, "1 of 50 rows", ["7"])
    expect(page.locator(".vrt-row-error")).to_have_text("There is no file a.mp4.")
    expect(page.locator(".vrt-open-row")).to_have_count(0)
    page.get_by_role("searchbox").fill("onerror")
    expect(chip).to_contain_text("0")
    chip.press("Enter")
    expect_rows(page, "1 of 50 rows", ["8"])
    expect(chip).to_be_focused()
    chip.press("Enter")
    expect(chip).to_have_attribute("aria-pressed", "false")
    assert page.locator(".vrt-open-row [dir=auto]").count() == 1
    expect(page.locator(".vrt-open-row")).to_contain_text(HOSTILE)
    page.locator(".vrt-open-row").click()
    shown_row(page, "Row 8 · 1 of 1")


def test_a_row_opens_with_its_videos_and_leads_on(server: Server, open_page: Open) -> None:
    page = open_list(open_page, server)
    page.locator(".vrt-open-row").first.click()
    shown_row(page, "Row 1 · 1 of 50 · Left · Right")
    expect(page).to_have_url(f"{server.url}?trace=row-first")
    expect(page.locator("#second video")).to_be_visible()
    assert [Path(file).name for file in video_files(page)] == ["first.mp4", "second.mp4"]
    differing = page.locator(".vrt-run-bar .vrt-label-differs")
    expect(differing).to_have_text(["1", "2"])
    expect(differing.first).to_have_css(
        "outline-style", "solid"
    )  # where colours are forced, no shadow and no ground is drawn
    page.get_by_role("button", name="Next row").click()
    shown_row(page, "Row 2 · 2 of 50")
    expect(page.locator("#first .vrt-still img")).to_be_visible()
    assert video_files(page) == ["", ""]
    page.go_back()
    shown_row(page, "Row 1 · 1 of 50")
    expect(page.locator("#first video")).to_be_visible()
    page.go_back()
    expect(page.locator(".vrt-run-bar")).to_be_hidden()
    page.go_forward()
    shown_row(page, "Row 1 · 1 of 50")
    visitor = open_page(page.url)
    shown_row(visitor, "Row 1 · 1 of 50")
    expect(visitor.locator("#second video")).to_be_visible()


def test_new_rows_come_with_a_refresh_and_fit_a_phone(
    server: Server, open_page: Open, folder: Path
) -> None:
    page = open_list(open_page, server, **PHONE)
    before = int(re.sub(r"\D", "", page.locator(".vrt-row-line [role=status]").inner_text()))
    write_results(folder, [result(before + 1, prompt="W" * 300)])
    page.get_by_role("button", name="Refresh").click()
    expect_rows(page, f"{before + 1} rows", [str(row) for row in range(1, 41)])
    page.locator("#evaluation select").select_option("unsure")
    expect(page.locator(".vrt-row-number").first).to_have_text("4")
    page.get_by_role("searchbox").fill("WWWW")
    expect_rows(page, f"1 of {before + 1} rows", [str(before + 1)])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".vrt-open-row").click()
    shown_row(page, f"Row {before + 1} · 1 of 1")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 320, "height": 640})
    right = "node => node.getBoundingClientRect().right"
    assert page.locator("#run").evaluate(right) <= page.locator("#stage").evaluate(right)
    for name in ("Trace", "Evaluation"):
        tabs = page.get_by_role("tab", name=name).first
        expect(tabs).to_be_in_viewport(ratio=0.98)  # but for a part of a pixel


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
def training(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
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


def test_rows_of_one_prompt_from_the_first_to_the_last(training: Server, open_page: Open) -> None:
    """Each column says which rollout it is, which labels are right, and all that the judge saw and wrote, turn beside turn."""
    page = open_list(open_page, training)
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


def test_a_run_without_an_answer_says_why_and_one_outside_the_judges_scope_has_no_label(
    training: Server, open_page: Open
) -> None:
    page = open_list(open_page, training)
    listed = page.locator(".vrt-rows > li").nth(STEPS + 1)
    for row in (STEPS + 2, 3, 2):
        box(page, row).check()
    opener(page).click()
    shown = columns(page, ["Row 2", "Row 3", f"Row {STEPS + 2}"])  # in the order of the list
    expect(shown.first).to_contain_text("token limit")
    expect(shown.first.locator(".vrt-turn")).to_have_count(2)
    for place in (listed, shown.last):
        expect(place).to_contain_text(DEMO_RUN)
        expect(place).not_to_contain_text("labels right")
        expect(place.get_by_role("img", name=re.compile("right|wrong"))).to_have_count(0)
        expect(place.locator(".vrt-row-labels tr").nth(1).locator("td")).to_have_text(["–"] * 4)


def test_the_keyboard_is_enough(training: Server, open_page: Open) -> None:
    """Space picks a row and Enter opens; Escape gives the focus back, from a closer look first."""
    page = open_list(open_page, training)
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
    training: Server, open_page: Open
) -> None:
    page = open_list(open_page, training)
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
    training: Server, open_page: Open, axe: str, scheme: str, size: dict[str, object]
) -> None:
    page = open_list(open_page, training, color_scheme=scheme, bypass_csp=True, **size)
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


def test_whoever_votes_first_sees_the_frames_alone(training: Server, open_page: Open) -> None:
    page = open_list(open_page, training)
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
