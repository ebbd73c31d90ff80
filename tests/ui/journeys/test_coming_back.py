"""Leaving and coming back, and answers that come late: the page shows what was wanted last."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Open, Page, Route, Serve, Server, expect
from tests.ui.support.held_stream import HeldAnswer, hold_when, open_held, release, wait_until_held
from tests.ui.support.saved_examples import ENDLESS


@pytest.fixture(scope="module")
def server(serve: Serve, examples: Path) -> Server:
    options = ("--examples", str(examples), "--after-leaving", "300")
    return serve([ENDLESS], *options, protocol="paired", pause=0.05)


def test_leaving_stops_the_judge(endless: Server, open_page: Open, clips: Clips) -> None:
    """And six pages of one browser, which keeps six connections, leave room for requests."""
    for leave in (Page.reload, Page.close, steps.stop):
        page = open_page(endless.url)
        steps.begin(page, clips)  # nobody waits for a run that was left
        leave(page)
    more = [page.context.new_page() for _ in range(5)]
    for each in more:
        each.goto(endless.url)
        each.wait_for_selector("#rail .vrt-track", state="attached")
    assert more[-1].evaluate("fetch('/gradio_api/info').then((answer) => answer.ok)")
    for each in more:
        each.close()


def test_the_last_of_the_browsers_steps_counts(page: Page, server: Server) -> None:
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


def test_videos_on_their_way_take_no_place_of_an_opened_run(page: Page, clips: Clips) -> None:
    uploads = list[Route]()
    page.route("**/gradio_api/upload?*", lambda route: uploads.append(route))
    steps.put(page, "first", clips[0])
    until(lambda: page.wait_for_timeout(20) or uploads)
    steps.show_example(page, 1)
    with suppress(Exception):  # the page has left it
        uploads[0].continue_()
    assert steps.stays(page, lambda: [steps.video_files(page), steps.status(page)], 1000)
    assert steps.status(page).startswith("Recorded run")
    expect(steps.changed(page)).to_be_hidden()


def test_an_earlier_stop_stops_no_later_run(page: Page, clips: Clips) -> None:
    go, running = page.locator("#go"), page.locator("#stop")
    steps.fill(page, clips)
    page.locator("#prompt textarea").press("Control+Enter")
    steps.wait_for(page, "writing")
    answer = HeldAnswer(page)
    running.press("Enter")
    pressed, late = answer.wait()
    answer.release()
    expect(go).to_be_focused()
    steps.wait_for(page, "^Stopped")
    page.keyboard.press("Enter")
    expect(running).to_be_focused()
    steps.wait_for(page, "writing")
    again, kind = pressed.request, {"Content-Type": "application/json"}
    assert page.request.post(again.url, data=again.post_data, headers=kind).ok
    steps.wait_until_written(page)
    page.locator("#prompt textarea").press("Control+Enter")  # there is no Compare to press
    page.unroute_all()
    page.route("**/run/predict*", lambda route: route.fulfill(response=late))
    with page.expect_response("**/run/predict*"):
        running.click()
    assert steps.stays(page, running.is_visible)
    page.unroute_all()
    steps.stop(page)


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
    steps.stop(page)
    release(page)
    steps.wait_for(page, "^Stopped")
    assert steps.stays(page, lambda: steps.status(page))
    expect(page.locator(".vrt-ending")).to_contain_text("The run was stopped")
    steps.expect_idle(page)
