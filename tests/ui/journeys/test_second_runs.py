"""A second run beside the first: the sides swapped, and what if something had been different."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.conftest import write_script
from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Locator, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import PROMPT, ask, write_example
from vrthinker_core.traces import load, to_json

THINK = "VQ: video 2 is sharper. MQ: both are smooth. Overall video 1 is better at frame 60. "
ANSWER = f"<Think>{THINK * 3}</Think><Answer>TA=1, VQ=2, MQ=0, OA=1</Answer>"
CHECK = "Swap test"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved run of the judge that the server offers first, which is called after its file."""
    replies = [ask(10, 30), ANSWER.replace("VQ=2", "VQ=1")]
    folder = write_example(tmp_path_factory.mktemp("examples") / "a-block", replies)
    trace = load(folder / "trace.json")
    by_script = replace(trace, started=replace(trace.started, judge="script"))
    (folder / "trace.json").write_bytes(to_json(by_script))
    return folder


@pytest.fixture(scope="module")
def server(serve: Serve, example: Path) -> Server:
    other = write_script(example.parent.parent / "other.jsonl", [ANSWER], protocol="paired")
    options = ("--judge", other, "--examples", str(example.parent))
    return serve([ask(10, 60), ANSWER], *options, protocol="paired", pause=0.02)


# -- the sides swapped ----------------------------------------------------------------------------


def begin_check(page: Page) -> None:
    page.evaluate("window.statusSaid.length = 0")
    steps.button(page, CHECK).click()
    steps.wait_until_said(page, "^Sides swapped: Turn 1 of .* writing")


def run_and_verdict(page: Page) -> list[str]:
    return [page.locator(part).inner_text() for part in (".vrt-turns", ".vrt-verdict")]


def expect_both(page: Page) -> None:
    """What a judge that always gives the same labels says in both orders."""
    first, second = (
        f"As given: Video {one}. Sides swapped: Video {other}." for one, other in ((1, 2), (2, 1))
    )
    expect(page.locator(".vrt-both")).to_have_text([first, first, second])


@opened(**steps.WIDE)
def test_both_verdicts_stand_beside_each_other(page: Page, clips: Clips, tmp_path: Path) -> None:
    swapped, as_given = page.locator(".vrt-swapped-notice"), steps.button(page, "As given")
    expect(steps.button(page, CHECK)).to_have_count(0)
    steps.compare(page, clips)
    before = run_and_verdict(page)
    steps.write_prompt(page, "Something else.")
    steps.button(page, CHECK).click()
    expect(page.locator(".vrt-check")).to_contain_text("inputs have changed")
    steps.expect_idle(page)
    steps.write_prompt(page, PROMPT)
    begin_check(page)
    page.locator("#stop").click()
    expect(page.locator(".vrt-order-line")).to_contain_text("not checked")
    as_given.click()
    assert run_and_verdict(page) == before
    begin_check(page)  # what was stopped can be checked again
    expect(steps.button(page, CHECK)).to_be_hidden()
    expect(swapped).to_be_visible()
    steps.wait_until_over(page)
    expect_both(page)
    expect(steps.headline(page)).to_contain_text("No reliable winner")
    steps.wait_until_in_view(steps.headline(page), page.locator(".vrt-both").last)
    expect(swapped).to_be_hidden()  # the turns as given are shown again
    assert run_and_verdict(page)[0] == before[0]
    expect_each_order_to_be_shown(page)
    trace = steps.saved_trace(page, tmp_path)
    assert trace.swapped.finished.verdict == trace.finished.verdict
    steps.replay(page, tmp_path / "trace.json")
    assert all(steps.video_files(page)), "a file of one's own run finds its videos"
    expect_both(page)
    expect(swapped).to_be_hidden()


def expect_each_order_to_be_shown(page: Page) -> None:
    swapped, as_given = page.locator(".vrt-swapped-notice"), steps.button(page, "As given")
    steps.button(page, "Sides swapped", exact=True).click()
    colour = "node => getComputedStyle(node).color"
    here, own = (
        [page.locator(f"{part} .vrt-v{side}").first.evaluate(colour) for side in (1, 2)]
        for part in (".vrt-turns", ".vrt-reason")
    )
    assert here == own[::-1], "what this run calls video 1 has the colour of the person's video 2"
    as_given.click()
    expect(swapped).to_be_hidden()
    steps.button(page, "Sides swapped", exact=True).click()
    assert steps.fits_a_phone(page)
    page.locator(".vrt-chip .vrt-deciding-pair").first.click()
    expect(swapped).to_be_hidden()  # the verdict's frames are those of the first run
    assert steps.chosen(page) == "60"


# -- what if --------------------------------------------------------------------------------------


def ask_at(page: Page, turn: int) -> Locator:
    steps.button(page, f"What if from turn {turn}").click()
    return page.get_by_role("form", name="What if")


def expect_strip(page: Page, shown: int, *names: str) -> Locator:
    """These runs are in the strip, and which is shown. Returns the button of the first."""
    expect(page.locator(".vrt-strip thead button b")).to_have_text(list(names))
    expect(page.locator(".vrt-strip thead [aria-pressed=true] b")).to_have_text(names[shown])
    return page.locator(".vrt-strip thead button").first


@opened(**steps.LIGHT, also=steps.DARK)
def test_a_branch_with_frames_of_the_players_stands_beside_its_origin(page: Page, axe: str) -> None:
    steps.show_example(page)
    steps.wait_until_playable(page, "second")
    check, origin, form = steps.button(page, CHECK), run_and_verdict(page), ask_at(page, 2)
    for share in (0.3, 0.7):
        box = page.locator(".vrt-track").bounding_box()
        page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] * 0.8)
        steps.button(form, "Use the frame in the players").click()
    frames = form.get_by_label("with these frames").input_value()
    assert re.fullmatch(r"(38|39), (89|90)", frames)
    steps.button(form, "Run").click()
    expect(page.locator(".vrt-strip td .vrt-differs")).to_have_count(1)
    names = ("First run", f"From turn 2, with frames {frames}")
    back = expect_strip(page, 1, *names)
    expect(page.locator(".vrt-turn.taken")).to_have_count(1)
    expect(check).to_be_disabled()
    expect(page.locator(".vrt-check")).to_contain_text("A branch cannot be checked")
    tiles = steps.turns(page).nth(1).locator(".vrt-caption b")
    expect(tiles).to_have_text([f"#{number}" for number in frames.split(", ")])
    ask_at(page, 3)
    assert steps.serious_violations(page, axe) == []
    steps.button(form, "Close").click()
    assert steps.fits_a_phone(page), "the strip widens nothing"
    back.press("Enter")
    expect(check).to_be_enabled()
    assert run_and_verdict(page) == origin
    expect_strip(page, 0, *names)  # nothing is lost by going back
    steps.tab(page, "History")
    expect(page.locator(".vrt-run-branch")).to_have_text(names[1])


def test_another_judge_compares_the_same_pair_or_goes_on_from_a_turn(page: Page) -> None:
    """A branch from turn 1 is a whole run; what cannot be is said in the form."""
    prompt = page.locator("#prompt textarea")
    steps.show_example(page)
    steps.wait_until_playable(page, "second")
    form = ask_at(page, 1)
    form.get_by_label("Judge").select_option("other")
    form.get_by_label("Prompt").fill("A grey block.")
    steps.button(form, "Run").press("Enter")
    expect(page.locator(".vrt-strip td .vrt-differs")).to_have_count(1)
    back = expect_strip(page, 1, "First run", "Judge other, another prompt")
    steps.wait_for(page, "^Finished")
    expect(prompt).to_have_value("A grey block.")
    back.click()
    expect(prompt).to_have_value(PROMPT)
    frames, said = ask_at(page, 2).get_by_label("with these frames"), form.get_by_role("alert")
    frames.fill("4, 200")
    frames.press("Enter")
    expect(said).to_contain_text("numbers 0 to 127")
    steps.expect_idle(page)
    frames.press("Escape")
    expect(form).to_have_count(0)
    steps.button(page, "Another judge").click()
    steps.button(steps.judge_row(page, "other"), "other").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect_strip(page, 2, "First run", "Judge other, another prompt", "other")  # side by side
    expect(page.locator(".vrt-unchecked")).to_contain_text("says other")
