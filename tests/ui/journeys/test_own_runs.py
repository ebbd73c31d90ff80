"""Your runs: left and come back to, after a restart, deleted; answers that come late are not the last."""

import re
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.ui.conftest import write_script
from tests.ui.support import handmade_runs, steps
from tests.ui.support.browsing import Clips, Open, Page, Route, Serve, Server, expect
from tests.ui.support.held_stream import HeldAnswer, hold_when, open_held, release, wait_until_held
from tests.ui.support.saved_examples import ENDLESS, PROMPT


@pytest.fixture(scope="module")
def server(serve: Serve, examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with two judges, of which one writes without end and the other takes its time."""
    file = tmp_path_factory.mktemp("judges") / "slow.jsonl"
    long = f"<Think>{'on and on ' * 40}</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
    options = ("--judge", write_script(file, [long], protocol="paired", pause=0.03))
    options += ("--examples", str(examples), "--after-leaving", "300")
    return serve([ENDLESS], *options, protocol="paired", pause=0.05)


# -- runs of a visitor ----------------------------------------------------------------------------


def open_run(page: Page, outcome: str) -> None:
    steps.expect_runs(page, outcome)
    page.locator(".vrt-open-run").click()


def test_no_run_is_lost(page: Page, open_page: Open, server: Server, clips: Clips) -> None:
    """A run goes on after a reload; the list and the way back from an example lead to it."""
    steps.begin(page, clips)
    expect(page).to_have_url(re.compile(r"\?run=[0-9a-f]{24}$"))
    address, trace = page.url, page.get_by_role("tab", name="Thinking").first
    page.reload()
    steps.expect_running(page)
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    for _ in ("the run is shown", "an example is shown"):
        open_run(page, "Goes on")
        expect(trace).to_have_attribute("aria-selected", "true")
        steps.expect_running(page)
        expect(page.locator(".vrt-text p").last).to_be_in_viewport()
        steps.show_example(page)
    page.go_back()
    steps.expect_running(page)
    steps.stop(page)
    expect(page).to_have_url(address)
    steps.clear(page, "second")
    steps.write_prompt(page, "Another prompt.")
    open_run(page, "Stopped")  # as it was, whatever has become of the inputs
    expect(page.locator("#prompt textarea")).to_have_value(PROMPT)
    expect(page.locator("#second video")).to_be_visible()
    shared, before = steps.link(page), server.url
    server.restart()
    page.goto(address.replace(before, server.url))
    stranger = open_page(shared.replace(before, server.url))  # in a browser of its own
    for visitor in (page, stranger):
        expect(steps.headline(visitor)).to_contain_text("the run was stopped")
        expect(visitor.locator(".vrt-tile")).to_have_count(4)
        assert all(steps.video_files(visitor))
    steps.tab(page, "History")
    page.locator(".vrt-open-run").focus()
    for key in ("Tab", "Enter", "Enter", "Enter", "Tab"):  # at first it is kept
        page.keyboard.press(key)
    expect(steps.button(page, "Delete it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".vrt-none")).to_be_visible()
    expect(page.locator("#history").get_by_text("Deleted.")).to_be_focused()
    expect(page).to_have_url(server.url)  # which a reload shows
    stranger.reload()  # the link has ended, too
    steps.wait_for(stranger, "was deleted")


def test_a_run_that_was_followed_goes_on(page: Page, clips: Clips, tmp_path: Path) -> None:
    home = page.url
    steps.wait_for_judge(page)
    steps.open_settings(page, more=True)
    steps.choose_judge(page, "slow")
    steps.choose(page, "max_turns", "3")
    steps.begin(page, clips)
    page.reload()
    steps.open_settings(page, more=True)
    expect(page.locator("#max_turns input")).to_have_value("3")
    expect(page.locator(".vrt-judge-chip")).to_contain_text("Judge: slow")
    page.goto(home)
    open_run(page, "Video 1 is better")
    steps.wait_for(page, steps.RECORDED)
    steps.tab(page, "Thinking")
    steps.button(page, "Swap test").click()
    steps.wait_for(page, "^Sides swapped: Turn 1")
    page.locator("#stop").click()
    page.locator("#go").click()
    steps.wait_for(page, "^Turn 1 of 3 · writing")
    (tmp_path / "none.json").write_text("{}")
    steps.open_trace(page, tmp_path / "none.json")
    fault = page.locator("#opening .vrt-fault")
    expect(fault).to_contain_text("not a VR-Thinker trace")
    steps.wait_until_over(page)  # it has gone on
    expect(fault).to_be_visible()  # until the person acts
    steps.expect_idle(page)
    steps.replay(page, tmp_path / "t.json", handmade_runs.three_turns(prompt=" \n "))
    steps.tab(page, "History")
    expect(fault).to_have_count(0)
    expect(page.locator(".vrt-run-prompt[dir=auto]").first).to_have_text("No prompt")
    expect(steps.button(page, "Delete this run: No prompt")).to_be_visible()


def test_leaving_stops_the_judge(endless: Server, open_page: Open, clips: Clips) -> None:
    for leave in (Page.close, steps.stop):
        page = open_page(endless.url)
        steps.begin(page, clips)  # nobody waits for a run that was left
        leave(page)


# -- what comes late ------------------------------------------------------------------------------


def test_the_last_of_the_browsers_steps_counts(page: Page, server: Server, clips: Clips) -> None:
    """Videos on their way take no place of an opened run either."""
    for number, name in enumerate(("a-block", "b-block")):
        steps.show_example(page, number)
        expect(page).to_have_url(f"{server.url}?trace={name}")
    answer = HeldAnswer(page, "a-block")
    page.go_back()
    answer.wait()
    page.go_back()
    expect(page).to_have_url(server.url)
    answer.release()
    expect(steps.turns(page)).to_have_count(0)
    expect(page.locator("#second video")).to_have_count(0)
    expect(page).to_have_url(server.url)
    page.unroute_all()
    answer = HeldAnswer(page, "a-block")
    page.go_forward()
    answer.wait()
    page.go_back()
    page.go_forward()
    answer.release()
    expect(steps.turns(page)).to_have_count(2)
    expect(page).to_have_url(f"{server.url}?trace=a-block")
    page.unroute_all()
    uploads = list[Route]()
    page.route("**/gradio_api/upload?*", lambda route: uploads.append(route))
    steps.clear(page, "first")
    steps.put(page, "first", clips[0])
    until(lambda: page.wait_for_timeout(20) or uploads)
    steps.show_example(page, 1)
    with suppress(Exception):  # the page has left it
        uploads[0].continue_()
    assert steps.stays(page, lambda: [steps.video_files(page), steps.status(page)], 1000)
    assert steps.status(page).startswith("Recorded run")
    expect(steps.changed(page)).not_to_contain_text("changed")


def test_late_words_are_not_the_last(server: Server, new_page: Open, clips: Clips) -> None:
    page, ends = open_held(new_page, server.url), "text.includes('close_stream')"
    hold_when(page)  # from the first word on the first upload on
    steps.fill(page, clips)
    page.wait_for_function(f"heldStream.held.some(([text]) => {ends})")
    with page.expect_response("**/queue/join*"):
        page.locator("#go").click()
    release(page)
    steps.wait_for(page, "writing")
    hold_when(page)
    wait_until_held(page, 2)
    page.locator("#stop").press("Enter")
    steps.wait_for(page, "^Stopped")
    release(page)
    until(lambda: steps.stays(page, lambda: steps.status(page)))
    assert steps.status(page).startswith("Stopped"), "late words are gone again"
    expect(steps.headline(page)).to_contain_text("the run was stopped")
    expect(page.locator("#go")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#stop")).to_be_focused()
    steps.stop(page)
