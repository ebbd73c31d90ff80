"""What if: the form on a turn's card, the strip above the verdict, and the way back to the origin."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.conftest import write_script
from tests.ui.support import steps
from tests.ui.support.browsing import Locator, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import ANSWER, PROMPT, ask, write_example
from vrthinker_core.traces import load, to_json

OTHER = ANSWER.replace("VQ=2", "VQ=1")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved run of the judge that the server offers first, which is called after its file."""
    folder = write_example(tmp_path_factory.mktemp("examples") / "a-block", [ask(10, 30), ANSWER])
    trace = load(folder / "trace.json")
    by_script = replace(trace, started=replace(trace.started, judge="script"))
    (folder / "trace.json").write_bytes(to_json(by_script))
    return folder


@pytest.fixture(scope="module")
def server(serve: Serve, example: Path) -> Server:
    other = write_script(example.parent.parent / "other.jsonl", [OTHER], protocol="paired")
    options = ("--judge", other, "--examples", str(example.parent))
    return serve([ask(60, 90), OTHER], *options, protocol="paired", pause=0.01)


@pytest.fixture
def shown(page: Page) -> Page:
    steps.show_example(page)
    steps.wait_until_playable(page, "second")
    return page


def ask_at(page: Page, turn: int) -> Locator:
    steps.button(page, f"What if from turn {turn}").click()
    return page.get_by_role("form", name="What if")


def expect_strip(page: Page, shown: int, *names: str) -> Locator:
    """These runs are in the strip, and which is shown. Returns the button of the first."""
    expect(page.locator(".vrt-strip thead button b")).to_have_text(list(names))
    expect(page.locator(".vrt-strip thead [aria-pressed=true] b")).to_have_text(names[shown])
    return page.locator(".vrt-strip thead button").first


@opened(**steps.SCHEMES)
def test_a_branch_with_frames_of_the_players_stands_beside_its_origin(
    shown: Page, axe: str
) -> None:
    page, parts = shown, [shown.locator(".vrt-turns"), shown.locator(".vrt-verdict")]
    check, origin = steps.button(page, "Swap test"), [part.inner_text() for part in parts]
    form = ask_at(page, 2)
    box = page.locator(".vrt-track").bounding_box()
    for share in (0.3, 0.7):
        page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] * 0.8)
        steps.button(form, "Use the frame in the players").click()
    frames = form.get_by_label("with these frames").input_value()
    assert re.fullmatch(r"(38|39), (89|90)", frames)
    steps.button(form, "Run").click()
    expect(page.locator(".vrt-strip td .vrt-differs")).to_have_count(1)
    names = ("Origin", f"From turn 2, with frames {frames}")
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
    assert [part.inner_text() for part in parts] == origin
    expect_strip(page, 0, *names)  # nothing is lost by going back
    steps.tab(page, "History")
    expect(page.locator(".vrt-run-branch")).to_have_text(names[1])


def test_another_judge_compares_the_same_pair(shown: Page) -> None:
    page, files = shown, steps.video_files(shown)
    steps.button(page, "Another judge").click()
    steps.button(steps.judge_row(page, "other"), "other").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator(".vrt-judge-chip")).to_contain_text("Judge: other")
    expect(page.locator("#go")).to_be_focused()
    assert steps.video_files(page) == files
    page.keyboard.press("Enter")
    steps.wait_until_over(page)
    expect(page.locator(".vrt-header .vrt-judge")).to_have_text("Judge: other")


def test_a_branch_of_another_judge_and_what_cannot_be(
    shown: Page, example: Path, tmp_path: Path
) -> None:
    """The one is compared from turn 1; the other is said in the form."""
    page, form = shown, ask_at(shown, 1)
    form.get_by_label("Judge").select_option("other")
    form.get_by_label("Prompt").fill("A grey block.")
    steps.button(form, "Run").press("Enter")
    expect(page.locator(".vrt-strip td .vrt-differs")).to_have_count(1)
    back = expect_strip(page, 1, "Origin", "Judge other, another prompt")
    steps.wait_for(page, "^Finished")
    expect(page.locator("#prompt textarea")).to_have_value("A grey block.")
    back.click()
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    frames, said = ask_at(page, 2).get_by_label("with these frames"), form.get_by_role("alert")
    frames.fill("4, 200")
    frames.press("Enter")
    expect(said).to_contain_text("numbers 0 to 127")
    steps.expect_idle(page)
    frames.press("Escape")
    expect(form).to_have_count(0)
    text = (example / "trace.json").read_text()
    elsewhere = re.sub(r'("digest": ")(\w+)', lambda found: found[1] + found[2][::-1], text)
    (tmp_path / "elsewhere.json").write_text(elsewhere)
    steps.replay(page, tmp_path / "elsewhere.json")
    expect(page.locator("#first video")).to_have_count(0)
    steps.button(ask_at(page, 2), "Run").click()
    expect(said).to_contain_text("videos of this run are not here")
