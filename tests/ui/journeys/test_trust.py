"""A verdict that can be trusted: a judge outside its scope, before a run and after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ui.support import steps
from tests.ui.support.browsing import (
    Clips,
    Locator,
    Page,
    Server,
    expect,
    opened,
    write_script,
)
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


SCREENS = {name: steps.SCREENS[name] for name in ("1440", "390")}
CANNOT = "The demo judge cannot judge real videos."


def add_real_videos(page: Page, clips: Clips) -> Locator:
    """Add them with a prompt; return the notice below Compare."""
    for side, clip in zip(steps.SIDES, REAL if REAL[0].is_file() else clips, strict=True):
        steps.upload(page, side, clip)
    expect(page.locator(".vrt-cannot")).to_contain_text(CANNOT)
    steps.write_prompt(page, "A red cube moves left across the grass.")
    return page.locator(".vrt-cannot")


@opened("demo", **SCREENS)
def test_the_first_compare_asks_for_a_judge_that_can(page: Page, clips: Clips, axe: str) -> None:
    compare, dialog = page.locator("#go"), page.get_by_role("dialog")
    for side in steps.SIDES:
        steps.upload(page, side, DRAWN / f"{side}.mp4")
    expect(page.locator(".vrt-cannot")).to_be_hidden()
    for side in steps.SIDES:
        steps.clear(page, side)
    notice = add_real_videos(page, clips)
    assert steps.fits(page)
    compare.click()
    expect(dialog.get_by_role("alert")).to_have_text(CANNOT)
    assert steps.serious_violations(page, axe) == []
    page.keyboard.press("Escape")
    expect(compare).to_be_focused()
    steps.button(notice, "Choose a judge that can").click()
    steps.button(steps.judge_row(page, "other"), "other").click()
    expect(compare).to_be_focused()
    expect(notice).to_be_hidden()
    steps.choose_judge(page, "Demo judge")
    expect(notice).to_be_visible()
    compare.click()  # once was enough
    steps.expect_running(page)
    expect(dialog).to_be_hidden()
    expect(notice).to_be_hidden()


@opened("demo", **SCREENS)
def test_the_demo_judge_has_no_verdict_on_real_videos_and_shows_the_way_on(
    page: Page, clips: Clips, axe: str, tmp_path: Path
) -> None:
    notice = add_real_videos(page, clips)
    steps.button(notice, "Run the demo anyway").click()
    steps.expect_running(page)
    expect(page.get_by_role("dialog")).to_be_hidden()
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
    expect(steps.button(page, "Video 1", exact=True).last).to_be_focused()
    report = steps.saved(page, tmp_path / "report.html", "Report (.html)").read_text("utf-8")
    assert "No verdict: this judge cannot judge real videos" in report
    steps.button(verdict, "Compare with a judge that can").click()
    steps.button(steps.judge_row(page, "other"), "other").click()
    steps.wait_until_over(page)
    expect(page.locator(".vrt-judge-chip")).to_contain_text("Judge: other")
    expect(page.locator(".vrt-header .vrt-judge")).to_have_text("Judge: other")
    expect(steps.headline(page)).to_have_text("Video 1 is better overall")
