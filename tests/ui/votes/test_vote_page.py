"""Voting in a real browser: after the verdict, before it, and what stays hidden until then."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.test_votes import VOTE
from tests.ui.conftest import PHONE, OpenReport, Serve, Server
from tests.ui.support import handmade_runs
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.saved_examples import ask, write_example
from tests.ui.support.steps import saved, serious_violations, show_example, start, tab, wait_for
from vrthinker_core.traces import load
from vrthinker_core.ui import words

pytestmark = pytest.mark.browser


THINK = "TELLTALE: video 1 is the better one, see frame 60."
ANSWER = (
    f"<Snapshot>TELLTALE</Snapshot><Think>{THINK}</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
)
TELLS = ("TELLTALE", "is better", "you agree", "final answer", words.CHECK_ORDER)
TABS = (words.TAB_FRAMES, words.TAB_TRANSCRIPT, words.TAB_SAVE, words.TAB_TRACE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block", [ask(10, 30, 60, 90), ANSWER])
    return folder


@pytest.fixture(scope="module")
def server(serve: Serve, folder: Path) -> Server:
    return serve(
        [ask(10, 30, 60, 90).replace("The block", "TELLTALE"), ANSWER],
        "--examples",
        str(folder),
        protocol="paired",
    )


def choose(page: Page, dimension: str, position: int) -> None:
    """A label by the keyboard alone: from "Not said" (the last choice), arrow keys lead round the others."""
    page.locator(f"input[name=vrt-vote-{dimension}]:checked").focus()
    for _ in range(position + 1):
        page.keyboard.press("ArrowRight")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save vote").click()
    expect(page.locator(".vrt-voted")).to_be_visible()


def vote_first(page: Page) -> None:
    page.get_by_label("Vote first").check()


def check_nothing_tells(page: Page) -> None:
    """No tab, and nothing that the page's scripts were given, says what the judge said."""
    data = page.evaluate("JSON.stringify([VRThinker.trace, VRThinker.shown])")
    for name in TABS:
        tab(page, name)
        seen = page.locator("body").inner_text() + data
        assert [word for word in TELLS if word in seen] == []
    assert '"verdict"' not in data


@pytest.mark.parametrize("screen", [{}, PHONE], ids=["desktop", "phone"])
def test_a_vote_after_the_verdict_is_kept_and_can_be_changed(
    server: Server, open_page: Open, folder: Path, screen: dict[str, Any], tmp_path: Path
) -> None:
    page = open_page(server.url, **screen)
    show_example(page)
    page.locator(".vrt-ballot summary").click()
    page.get_by_role("button", name="Save vote").click()
    expect(page.locator(".vrt-vote-said")).to_contain_text("before you save")
    choose(page, "OA", 0)
    choose(page, "MQ", 2)
    page.locator("input[name=vrt-vote-agrees][value=false]").check(force=True)
    page.get_by_label("Deciding pair").select_option(label="#60")
    page.get_by_label("Note").fill("<b>A jump</b>")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    save(page)
    assert page.locator(".vrt-own li").all_inner_texts() == [
        "Overall Video 1 · you agree",
        "Motion quality Video 2 · you differ",
    ]
    assert "<b>A jump</b>" in page.locator(".vrt-voted").inner_text()
    page.locator(".vrt-voted .vrt-ref").click()
    assert page.locator(".vrt-tile[aria-current]").get_attribute("data-frames") == "60"
    page.get_by_role("button", name="Change").click()
    choose(page, "OA", 0)
    save(page)
    assert (
        page.locator(".vrt-own li").first.inner_text() == "Overall No difference found · you differ"
    )
    vote = load(saved(page, tmp_path / "trace.json")).vote
    assert (vote.labels.labels, vote.agrees, vote.slots, vote.blind) == (
        {"MQ": 2, "OA": 0},
        False,
        (60,),
        False,
    )
    assert load(folder / "a-block" / "trace.json").vote is None


def test_vote_first_hides_a_run_until_the_person_has_voted(
    server: Server, open_page: Open, clips: Clips, axe: str, tmp_path: Path
) -> None:
    page = open_page(server.url, bypass_csp=True)
    vote_first(page)
    start(page, clips)
    wait_for(page, "^Finished")
    expect(page.locator(".vrt-hidden")).to_be_visible()
    assert page.locator(".vrt-turn").count() == 2
    check_nothing_tells(page)
    tab(page, words.TAB_SAVE)
    assert page.locator(".vrt-takes a[href]").count() == 0
    tab(page, words.TAB_TRACE)
    assert serious_violations(page, axe) == []
    choose(page, "VQ", 2)
    save(page)
    expect(page.locator(".vrt-headline")).to_have_text("Video 1 is better overall")
    assert page.locator(".vrt-own li").all_inner_texts() == ["Visual quality Video 2 · you agree"]
    assert "before the verdict was seen" in page.locator(".vrt-voted").inner_text()
    assert serious_violations(page, axe) == []
    vote = load(saved(page, tmp_path / "trace.json")).vote
    assert vote.blind
    assert vote.labels.labels == {"VQ": 2}


def test_vote_first_holds_for_links_and_the_verdict_can_be_shown_without_a_vote(
    server: Server, open_page: Open, axe: str, tmp_path: Path
) -> None:
    page = open_page(server.url, color_scheme="dark", bypass_csp=True)
    vote_first(page)
    page.goto(f"{server.url}?trace=a-block")
    expect(page.locator(".vrt-hidden")).to_be_visible()
    assert page.get_by_label("Vote first").is_checked()
    assert "is better" not in json.dumps(
        page.locator("meta").evaluate_all("nodes => nodes.map((node) => node.content)")
    )
    check_nothing_tells(page)
    assert serious_violations(page, axe) == []
    page.get_by_role("button", name="Show the verdict without voting").click()
    expect(page.locator(".vrt-headline")).to_be_visible()
    expect(page.locator(".vrt-hidden")).to_be_hidden()
    assert "TELLTALE" in page.locator(".vrt-turns").inner_text()
    page.locator(".vrt-ballot summary").click()
    choose(page, "OA", 1)
    save(page)
    assert serious_violations(page, axe) == []
    vote = load(saved(page, tmp_path / "trace.json")).vote
    assert not vote.blind


def test_a_saved_report_shows_the_vote_and_no_form(open_report: OpenReport) -> None:
    page = open_report(replace(handmade_runs.three_turns(), vote=VOTE))
    assert "A person’s vote" in page.locator(".vrt-voted").inner_text()
    said = ["Text alignment Video 1 · they agree", "Motion quality Video 2 · they differ"]
    assert page.locator(".vrt-own li").all_inner_texts() == said
    assert VOTE.note in page.locator(".vrt-voted").inner_text()
    assert page.locator("form, .vrt-hidden, .vrt-voted .vrt-pill").count() == 0
