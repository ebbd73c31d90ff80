"""An evaluation on the page: filters, rows, a folder that grows, and rollouts side by side."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.support import drawn_results, steps
from tests.ui.support.browsing import Locator, Page, Serve, Server, expect, opened
from tests.ui.support.drawn_results import SECOND, result
from tests.ui.support.handmade_runs import THINK, WHOLE, three_turns
from tests.ui.support.saved_examples import write_example
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import TRACES, result_of
from vrthinker_core.results.trace_files import CONFIG, STATE, add_labels
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import StopReason, Verdict
from vrthinker_core.types.events import Finished

HOSTILE = "<img src=x onerror=alert(1)> ${alert(2)} {{value}}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """50 rows of which the first has its videos at hand, and the seventh was never judged."""
    folder, file = tmp_path_factory.mktemp("evaluation"), f"{TRACES}/judged.json"
    trace = load(write_example(folder / "clips") / "trace.json")
    clips = [str(folder / "clips" / f"{side}.mp4") for side in steps.SIDES]
    told = trace.started.prompt, *clips, Verdict(OA=SECOND), "Left", "Right"
    rows = [*drawn_results.kinds()[1:], result(8, prompt=HOSTILE), *map(result, range(9, 51))]
    rows.append(result_of(EvaluationPair("first", 1, *told), trace, file))
    drawn_results.write_results(folder, rows)
    (folder / "clips" / "trace.json").rename(folder / file)
    return folder


@pytest.fixture(scope="module")
def server(serve: Serve, folder: Path) -> Server:
    return serve([], "--runs", str(folder), protocol="paired")


@pytest.fixture(scope="module")
def training(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The folder of a training whose rollouts are six of one prompt, right from step 3 on, and two of others."""
    folder, run = tmp_path_factory.mktemp("grpo"), three_turns(prompt=HOSTILE)
    for name in (CONFIG, STATE):
        (folder / name).write_text("{}")
    first = replace(run.turns[0], reply=replace(run.turns[0].reply, think=HOSTILE))
    hostile = replace(run, turns=(first, *run.turns[1:]))
    files = {"other.json": hostile, "outside.json": drawn_results.outside(prompt="Rain.")}
    for step in range(6):
        run = three_turns(judge=f"by hand, grpo, step {step}")
        if step == 1:
            run = replace(run, turns=run.turns[:2], finished=Finished(StopReason.TOKEN_LIMIT))
        elif step < 3:
            run = replace(run, finished=replace(run.finished, verdict=replace(WHOLE, OA=SECOND)))
        files[f"grpo-step-{step:05d}-sample-0.json"] = run
    (folder / "rollouts").mkdir()
    add_labels(folder / "rollouts", dict.fromkeys(files, WHOLE))
    for name, trace in files.items():
        (folder / "rollouts" / name).write_bytes(to_json(trace))
    return serve([], "--runs", str(folder))


@pytest.fixture
def listed(page: Page) -> Page:
    steps.tab(page, "Evaluation")
    expect(page.locator(".vrt-open-row").first).to_be_visible()
    return page


def press(page: Page, name: str) -> Locator:
    button = steps.button(page, name)
    button.press("Enter")
    return button


def expect_rows(page: Page, summary: str, *numbers: int) -> None:
    expect(page.locator(".vrt-row-number")).to_have_text([str(number) for number in numbers])
    expect(page.locator(".vrt-row-line [role=status]")).to_have_text(summary)


def expect_row(page: Page, place: str) -> None:
    expect(page.locator(".vrt-row-place")).to_contain_text(place)
    expect(steps.headline(page)).to_be_visible()


@opened(dark={"color_scheme": "dark"})
def test_filters_search_and_pages(listed: Page, axe: str) -> None:
    page, row = listed, listed.locator(".vrt-rows > li").nth(5)
    labels = row.locator(".vrt-row-labels tr").nth(1).locator("td")
    expect(labels).to_have_text(["flips", "1", "2", "tie"])  # a label that flips is no winner
    expect(row.locator(".vrt-row-facts")).to_contain_text("flips when swapped: OA")
    expect(page.locator(".vrt-row-read")).not_to_contain_text("one order only")
    expect_rows(page, "50 rows", *range(1, 41))
    assert steps.serious_violations(page, axe) == []
    further = press(page, "Next ")
    expect_rows(page, "50 rows", *range(41, 51))
    expect(further).to_be_focused()  # though there is no further page
    chip = press(page, "Failed")
    expect_rows(page, "1 of 50 rows", 7)
    expect(page.locator(".vrt-row-error")).to_have_text("There is no file a.mp4.")
    page.get_by_role("searchbox").fill("onerror")
    expect(chip).to_contain_text("0")
    chip.press("Enter")
    expect_rows(page, "1 of 50 rows", 8)
    expect(chip).to_be_focused()
    expect(page.locator(".vrt-open-row [dir=auto]")).to_have_text(HOSTILE)
    page.locator(".vrt-open-row").click()
    expect_row(page, "Row 8 · 1 of 1")
    steps.tab(page, "Evaluation")
    page.get_by_role("searchbox").fill("")
    row = page.locator(".vrt-rows > li").nth(29)
    row.locator(".vrt-open-row").click()
    expect_row(page, "Row 30 · 30 of ")
    expect(steps.headline(page)).to_be_in_viewport()
    steps.tab(page, "Evaluation")
    expect(row).to_be_in_viewport(ratio=0.9)
    expect(row.locator("[aria-current=true]")).to_have_count(1)


def test_a_row_opens_with_its_videos_and_leads_on(listed: Page) -> None:
    page, differing = listed, listed.locator(".vrt-run-bar .vrt-label-differs")
    page.locator(".vrt-open-row").first.click()
    expect_row(page, "Row 1 · 1 of 50 · Left · Right")
    expect(page).to_have_url(re.compile(r"\?trace=row-first$"))
    expect(differing).to_have_text(["1", "2"])
    expect(differing.first).to_have_css("outline-style", "solid")  # seen in forced colours, too
    press(page, "Next row")
    expect_row(page, "Row 2 · 2 of 50")
    expect(page.locator("#first .vrt-still img")).to_be_visible()
    assert steps.video_files(page) == ["", ""]
    page.go_back()
    expect_row(page, "Row 1 · 1 of 50")
    expect(page.locator("#second video")).to_be_visible()
    assert [Path(file).name for file in steps.video_files(page)] == ["first.mp4", "second.mp4"]
    page.go_back()
    expect(page.locator(".vrt-run-bar")).to_be_hidden()


@opened(phone=steps.PHONE)
def test_new_rows_come_with_a_refresh_and_fit_a_phone(listed: Page, folder: Path) -> None:
    page, line = listed, listed.locator(".vrt-row-line [role=status]")
    new = int(line.inner_text().removesuffix(" rows")) + 1
    drawn_results.write_results(folder, [result(new, prompt="W" * 300)])
    press(page, "Refresh")
    expect_rows(page, f"{new} rows", *range(1, 41))
    page.get_by_label("Sort by").select_option("Least confident first")
    expect(page.locator(".vrt-row-number").first).to_have_text("4")
    page.get_by_role("searchbox").fill("WWWW")
    expect_rows(page, f"1 of {new} rows", new)
    assert steps.fits(page)
    page.locator(".vrt-open-row").click()
    expect_row(page, f"Row {new} · 1 of 1")
    page.set_viewport_size({"width": 320, "height": 640})
    assert steps.fits(page)


def pick(page: Page, *rows: int) -> None:
    for row in rows:
        box(page, row).check()


def box(page: Page, row: int) -> Locator:
    return page.get_by_role("checkbox", name=f"Pick row {row} for side by side")


def side_by_side(page: Page, *rows: int, by: Locator | None = None) -> list[Locator]:
    (by or steps.button(page, "Side by side")).press("Enter")
    expect(page.locator(".vrt-column h2")).to_have_text([f"Row {row}" for row in rows])
    expect(page.locator(".vrt-column:has(.vrt-turn)")).to_have_count(len(rows))
    return page.locator(".vrt-column").all()


@opened("training")
def test_rows_of_one_prompt_stand_side_by_side(listed: Page) -> None:
    page, opener = listed, steps.button(listed, "Side by side")
    expect(page.locator(".vrt-rows > li")).to_have_count(8)
    expect(page.locator(".vrt-row-read")).to_contain_text("one order only")
    expect(opener).to_have_count(0)
    pick(page, 4)
    expect(opener).to_be_disabled()
    press(page, "4 of 6 of this prompt")
    assert [row for row in range(1, 9) if box(page, row).is_checked()] == [1, 3, 4, 6]
    first, *_, last = side_by_side(page, 1, 3, 4, 6)
    expect(first.get_by_role("img", name="wrong")).to_have_count(1)
    expect(last.get_by_role("img", name="right", exact=True)).to_have_count(4)
    expect(last).to_contain_text("4 of 4 labels right")
    for part in ("rollouts/grpo-step-00000-sample-0.json", THINK.strip(), "#10 #30 #60 #90"):
        expect(first).to_contain_text(part)
    expect(first.locator(".vrt-tile")).to_have_count(14)
    tops = "all => new Set(all.map((node) => node.getBoundingClientRect().top)).size"
    assert page.locator(".vrt-column .vrt-turn:nth-child(3)").evaluate_all(tops) == 1
    page.keyboard.press("Escape")
    press(page, "Clear")
    pick(page, 8, 2)
    first, last = side_by_side(page, 2, 8)  # in the order of the list
    expect(first).to_contain_text("token limit")
    expect(last).not_to_contain_text("labels right")
    page.keyboard.press("Escape")
    press(page, "Clear")
    pick_and_open_by_keyboard(page)


def pick_and_open_by_keyboard(page: Page) -> None:
    """Space picks a row and Enter opens; Escape gives the focus back, from a closer look first."""
    rows = (1, 2, 3, 4)
    for row in (1, 5):
        box(page, row).press("Space")
    tile = side_by_side(page, 1, 5, by=box(page, 5))[1].locator(".vrt-tile").nth(1)
    tile.press("Enter")
    expect(page.locator(".vrt-closer h2")).to_have_text("#48 · turn 1")
    page.keyboard.press("Escape")
    expect(tile).to_be_focused()
    page.keyboard.press("Escape")
    expect(box(page, 5)).to_be_focused()
    press(page, "Clear")
    pick(page, *rows)
    box(page, 5).click()
    expect(box(page, 5)).not_to_be_checked()
    expect(page.locator(".vrt-picked [role=status]")).to_contain_text("4 rows are picked")
    side_by_side(page, *rows)
    press(page, "Open alone: Row 3")
    expect_row(page, "Row 3 · 3 of 8")
    steps.tab(page, "Evaluation")
    side_by_side(page, *rows)
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)


@opened("training", phone=steps.PHONE, also={"dark": {"color_scheme": "dark"}})
def test_text_stays_text_and_everybody_can_read_it(listed: Page, axe: str) -> None:
    page = listed
    pick(page, 1, 7)
    assert steps.serious_violations(page, axe) == []
    assert steps.fits(page)
    last = side_by_side(page, 1, 7)[1]
    expect(last.get_by_text(HOSTILE)).to_have_count(2)  # its prompt, and what the judge wrote
    assert steps.serious_violations(page, axe) == []
    wider = page.locator(".vrt-columns").evaluate("node => node.scrollWidth > node.clientWidth")
    assert wider == steps.is_narrow(page), "without room for both they are a strip"
    assert steps.fits(page)
