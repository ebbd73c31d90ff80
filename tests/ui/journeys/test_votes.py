"""Voting: after the verdict, before it, and what stays hidden until then."""

from pathlib import Path

import pytest

from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import ask, write_example

THINK = "<Think>TELLTALE: video 1 is the better one, see frame 60.</Think>"
ANSWER = f"<Snapshot>TELLTALE</Snapshot>{THINK}<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
ASK = ask(10, 30, 60, 90).replace("The block", "TELLTALE")
TELLS = ("TELLTALE", "ideo 1 is better", "you agree", "final answer", "Swap test")


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block", [ASK, ANSWER])
    return serve([ASK, ANSWER], "--examples", str(folder), protocol="paired", pause=0.01)


def say(page: Page, dimension: str, position: int) -> None:
    """More of a vote: a label by the keyboard: from "Not said", the last one, arrow keys lead round the others."""
    page.get_by_role("group", name=dimension).get_by_role("radio", checked=True).focus()
    for _ in range(position + 1):
        page.keyboard.press("ArrowRight")


def vote(page: Page, side: str) -> None:
    """Which video is better; one press, unless more is open."""
    steps.button(page.get_by_role("group", name="Which video is better?"), side).click()


def expect_voted(page: Page, *labels: str) -> None:
    expect(page.locator(".vrt-own li")).to_have_text(list(labels), use_inner_text=True)


def test_a_vote_is_kept_and_can_be_changed(page: Page, tmp_path: Path) -> None:
    steps.show_example(page)
    steps.button(page, "Vote", exact=True).click()
    expect(page.locator(".vrt-sides [aria-pressed=true]")).to_have_count(0)
    page.locator(".vrt-ballot summary").click()
    steps.button(page, "Save vote").click()
    expect(page.locator(".vrt-vote-said")).to_contain_text("before you save")
    vote(page, "Video 1")
    say(page, "Motion quality", 2)
    page.get_by_role("radio", name="Disagree").check(force=True)
    page.get_by_label("Deciding pair").select_option(label="#60")
    page.get_by_label("Note").fill("<b>A jump</b>")
    assert steps.fits_a_phone(page)
    steps.button(page, "Save vote").click()
    expect_voted(page, "Overall Video 1 · you agree", "Motion quality Video 2 · you differ")
    expect(page.locator(".vrt-voted")).to_contain_text("<b>A jump</b>")
    page.locator(".vrt-voted .vrt-ref").click()
    assert steps.chosen(page) == "60"
    steps.button(page, "Change").click()
    vote(page, "No difference")
    steps.button(page, "Save vote").click()
    tie = "Overall No difference · you differ"
    expect_voted(page, tie, "Motion quality Video 2 · you differ")
    kept = steps.saved_trace(page, tmp_path).vote
    assert kept.labels.labels == {"MQ": 2, "OA": 0}
    assert (kept.agrees, kept.slots, kept.blind) == (False, (60,), False)


def test_pair_after_pair_is_voted_on_blind_by_keys_alone(page: Page, axe: str) -> None:
    """Without names or colours, and the sides shuffled. A tally counts."""
    tally, wanted = page.locator(".vrt-next"), ["1 of 1", "0 of 1"]
    steps.button(page, "Vote blind").press("Enter")
    expect(page.locator(".vrt-hidden")).to_be_visible()
    expect(page.locator("#players label").first).to_be_hidden()
    shuffled = page.locator("body.vrt-shuffled").count()
    steps.wait_until_playable(page, "first")
    lefts = [page.locator(f"#{side} video").bounding_box()["x"] for side in steps.SIDES]
    assert (lefts[0] > lefts[1]) == bool(shuffled)
    assert steps.serious_violations(page, axe) == []
    page.keyboard.press("a")
    expect(tally).to_contain_text(f"agree on {wanted[shuffled]}; left won 1 of 1.")
    expect_voted(page, f"Overall Video {1 + shuffled} · you {('agree', 'differ')[shuffled]}")
    expect(page.locator("#players label").first).to_be_visible()
    assert steps.serious_violations(page, axe) == []
    page.keyboard.press("Enter")
    expect(tally).to_contain_text("That was the last pair.")
    page.reload()  # the mode lasts, and says so
    expect(page.locator(".vrt-hidden")).to_be_visible()
    for told in ("#players label", ".vrt-measured", ".vrt-walk", ".vrt-turns"):
        expect(page.locator(told).first).to_be_hidden()
    page.goto(page.url.partition("?")[0])
    expect(tally).to_contain_text("You vote blind")


@opened(phone=steps.SCREENS["390"])
def test_vote_first_hides_a_run(page: Page, clips: Clips, axe: str, tmp_path: Path) -> None:
    """Nothing is followed while nothing can be read."""
    steps.fill(page, clips)
    page.evaluate("VRThinker.remember('vote_first', 'on')")
    page.locator("#go").click()
    before = page.evaluate("scrollY")
    expect(steps.turns(page)).to_have_count(2)
    assert page.evaluate("scrollY") <= before
    expect(page.locator(".vrt-follow")).to_be_hidden()
    expect(page.locator(".vrt-wants:visible")).to_have_count(0)
    steps.wait_until_over(page)
    expect(page.locator(".vrt-hidden")).to_be_visible()
    for name in ("All frames", "History", "Thinking"):
        steps.tab(page, name)
        seen = page.locator("body").inner_text()
        assert [word for word in TELLS if word in seen] == []
    expect(page.locator(".vrt-send")).to_be_hidden()
    assert steps.serious_violations(page, axe) == []
    vote(page, "Both bad")
    expect_voted(page, "Overall No difference")
    expect(page.locator(".vrt-voted")).to_contain_text("Both are bad.")
    expect(steps.headline(page)).to_have_text("Video 1 is better")
    expect(page.locator(".vrt-voted")).to_contain_text("before the verdict was seen")
    assert steps.serious_violations(page, axe) == []
    assert steps.saved_trace(page, tmp_path).vote.blind
