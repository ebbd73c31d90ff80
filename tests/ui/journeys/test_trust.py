"""A verdict that can be trusted: a judge outside its scope, before a run and after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Page, Server, expect, opened, write_script
from vrthinker_core.__about__ import ASSETS

REAL = [Path(os.environ.get("VRT_CLIPS", "")) / f"pair04_girl_dragon_{side}.mp4" for side in "ab"]
DRAWN = ASSETS / "examples" / "think-1-what-four-frames-do-not-show"
ANSWER = "<Think>Well.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the demo judge, and with one for all videos."""
    folder = tmp_path_factory.mktemp("demo")
    other = write_script(folder / "other.jsonl", [ANSWER])
    server = Server(folder, "nano", "--judge", other, forked=True)
    yield server
    server.stop()


@opened("demo", **{name: steps.SCREENS[name] for name in ("1440", "390")})
def test_the_demo_judge_has_no_verdict_on_real_videos_and_shows_the_way_on(
    page: Page, clips: Clips, axe: str, tmp_path: Path
) -> None:
    real = REAL if REAL[0].is_file() else clips
    notice = page.locator(".vrt-cannot")
    for side in steps.SIDES:
        steps.put(page, side, DRAWN / f"{side}.mp4")
        steps.wait_until_playable(page, side)
    expect(notice).to_be_hidden()
    for side, clip in zip(steps.SIDES, real, strict=True):
        steps.clear(page, side)
        steps.put(page, side, clip)
        steps.wait_until_playable(page, side)
    expect(notice).to_contain_text("The demo judge cannot judge real videos.")
    assert steps.fits(page)
    steps.button(notice, "Choose a judge that can").click()
    expect(page.locator("#judge input")).to_be_focused()
    for judge, seen in (("other", False), ("nano (built in)", True)):
        steps.choose(page, "judge", judge)
        expect(notice).to_be_visible(visible=seen)
    steps.write_prompt(page, "A red cube moves left across the grass.")
    steps.button(notice, "Run the demo anyway").click()
    expect(page.locator("#stop")).to_be_visible()
    expect(notice).to_be_hidden()
    steps.wait_for(page, "^Demo run, no verdict")
    verdict = page.locator(".vrt-verdict")
    expect(steps.headline(page)).to_have_text("No verdict: this judge cannot judge real videos")
    expect(verdict.locator(".vrt-told")).to_contain_text("it looked at 4 pairs")
    expect(page.locator(".vrt-chip, .vrt-course li, .vrt-turn .vrt-text h4")).to_have_count(0)
    expect(notice).to_be_hidden()
    wrote = verdict.locator(".vrt-wrote")
    expect(wrote.locator("h3").first).to_be_hidden()
    wrote.locator("summary").click()
    expect(wrote.locator("h3").first).to_be_visible()
    assert steps.serious_violations(page, axe) == []
    assert steps.fits(page)
    steps.button(verdict, "Vote yourself").click()
    expect(page.locator(".vrt-vote input").first).to_be_focused()
    steps.button(verdict, "Compare with a judge that can").click()
    expect(page.locator("#judge input")).to_be_focused()
    report = steps.saved(page, tmp_path / "report.html", "Report (.html)").read_text("utf-8")
    assert "No verdict: this judge cannot judge real videos" in report
