"""What if, in a real browser: the form on a card, the strip above the verdict, and the way back to the origin."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ui.conftest import PHONE, Serve, Server, write_script
from tests.ui.support.browsing import Locator, Open, Page, expect
from tests.ui.support.saved_examples import ANSWER, PROMPT, ask, write_example
from tests.ui.support.steps import open_trace, serious_violations, tab, wait_for
from vrthinker_core.traces import load, to_json
from vrthinker_core.ui import history_words, words

pytestmark = pytest.mark.browser

OTHER = ANSWER.replace("VQ=2", "VQ=1")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved run of the judge that the server offers first, which is called after its file."""
    folder = write_example(tmp_path_factory.mktemp("examples") / "a-block", [ask(10, 30), ANSWER])
    trace = load(folder / "trace.json")
    (folder / "trace.json").write_bytes(
        to_json(replace(trace, started=replace(trace.started, judge="script")))
    )
    return folder


@pytest.fixture(scope="module")
def server(serve: Serve, example: Path) -> Server:
    other = write_script(example.parent.parent / "other.jsonl", [OTHER], protocol="paired")
    return serve(
        [ask(60, 90), OTHER],
        "--judge",
        other,
        "--examples",
        str(example.parent),
        protocol="paired",
        pause=0.01,
    )


def opened(open_page: Open, server: Server, **options: Any) -> Page:
    page = open_page(f"{server.url}?trace=a-block", **options)
    expect(page.locator(".vrt-turn .vrt-ask-branch").nth(1)).to_be_visible()
    page.wait_for_function("document.querySelector('#first video')?.readyState >= 1")
    return page


def ask_at(page: Page, turn: int) -> Locator:
    page.locator(".vrt-turn .vrt-ask-branch").nth(turn - 1).click()
    return page.locator(".vrt-whatif")


def columns(page: Page) -> list[str]:
    return page.locator(".vrt-strip thead button b").all_inner_texts()


@pytest.mark.parametrize(
    "screen", [{}, {**PHONE, "color_scheme": "dark"}], ids=["desktop", "phone"]
)
def test_a_branch_with_frames_from_the_rail_stands_beside_its_origin(
    server: Server, open_page: Open, axe: str, screen: dict[str, Any]
) -> None:
    page = opened(open_page, server, bypass_csp=True, **screen)
    origin, verdict = (
        page.locator(".vrt-turns").inner_text(),
        page.locator(".vrt-verdict").inner_text(),
    )
    form = ask_at(page, 2)
    form.get_by_role("button", name="Take from the rail").click()
    box = page.locator(".vrt-track").bounding_box()
    for share in (0.3, 0.7):
        page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] * 0.8)
    frames = form.locator("input[name=frames]").input_value()
    assert re.fullmatch(r"(38|39), (89|90)", frames)
    form.get_by_role("button", name="Start the branch").click()
    expect(page.locator(".vrt-strip td .vrt-differs")).to_have_count(1)
    name = f"From turn 2, with frames {frames}"
    assert columns(page) == ["Origin", name]
    expect(page.locator(".vrt-strip thead [aria-pressed=true] b")).to_have_text(name)
    assert page.locator(".vrt-turn.taken").count() == 1
    expect(page.get_by_role("button", name=words.CHECK_ORDER)).to_be_disabled()
    expect(page.locator(".vrt-check")).to_contain_text(words.CHECK_BRANCH)
    assert [
        tile.split("\n")[0]
        for tile in page.locator(".vrt-turn").nth(1).locator(".vrt-caption").all_inner_texts()
    ] == [f"#{number}" for number in frames.split(", ")]
    ask_at(page, 3)
    assert serious_violations(page, axe) == []
    form.get_by_role("button", name="Close").click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        "the strip widens nothing"
    )
    page.locator(".vrt-strip thead button").first.press("Enter")
    expect(page.locator(".vrt-turn.taken")).to_have_count(0)
    expect(page.get_by_role("button", name=words.CHECK_ORDER)).to_be_enabled()
    assert (page.locator(".vrt-turns").inner_text(), page.locator(".vrt-verdict").inner_text()) == (
        origin,
        verdict,
    )
    assert columns(page) == ["Origin", name], "nothing is lost by going back"
    tab(page, history_words.TAB)
    expect(page.locator(".vrt-run-branch")).to_have_text([name])


def test_another_judge_is_compared_from_turn_1(server: Server, open_page: Open) -> None:
    page = opened(open_page, server)
    page.get_by_role("button", name="Compare with another judge").click()
    form = page.locator(".vrt-whatif")
    form.locator("select[name=judge]").select_option("other")
    form.locator("textarea").fill("A grey block.")
    form.locator("textarea").press("Tab")
    form.get_by_role("button", name="Start the branch").press("Enter")
    expect(page.locator(".vrt-strip td .vrt-differs")).to_have_count(1)
    assert columns(page) == ["Origin", "Judge other, another prompt"]
    wait_for(page, "^Finished")
    assert page.locator("#prompt textarea").input_value() == "A grey block."
    page.locator(".vrt-strip thead button").first.click()
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)


def test_what_cannot_be_is_said_in_the_form(
    server: Server, open_page: Open, example: Path, tmp_path: Path
) -> None:
    page = opened(open_page, server)
    form, said = page.locator(".vrt-whatif"), page.locator(".vrt-whatif-said")
    ask_at(page, 2)
    form.locator("input[name=frames]").fill("4, 200")
    form.locator("input[name=frames]").press("Enter")
    expect(said).to_have_text(re.compile("numbers 0 to 127"))
    assert page.locator("#go").is_visible()
    form.locator("input[name=frames]").press("Escape")
    expect(form).to_have_count(0)
    trace = tmp_path / "elsewhere.json"
    digests = set(re.findall(r'"digest": "(\w+)"', (example / "trace.json").read_text()))
    text = (example / "trace.json").read_text()
    for digest in digests:
        text = text.replace(digest, digest[::-1])
    trace.write_text(text)
    open_trace(page, trace)
    expect(page.locator("#first video")).to_have_count(0)
    expect(page.locator(".vrt-ask-branch").nth(1)).to_be_visible()
    ask_at(page, 2)
    form.get_by_role("button", name="Start the branch").click()
    expect(said).to_have_text(words.NO_VIDEOS)
    assert words.BUSY not in said.inner_text()
