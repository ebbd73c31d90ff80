"""Answers of the server that come late, or in another order than what they answer: the page shows what was wanted last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Serve, Server
from tests.ui.support.browsing import APIResponse, Clips, Open, Page, Route, expect
from tests.ui.support.held_stream import hold_when, open_held, release, wait_until_held
from tests.ui.support.saved_examples import ENDLESS
from tests.ui.support.steps import fill, open_trace, show_example, start, status, wait_for

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(serve: Serve, examples: Path) -> Server:
    options = ("--examples", str(examples), "--after-leaving", "300")
    return serve([ENDLESS], *options, protocol="paired", pause=0.05)


class HeldAnswers:
    """Answers that the server has given to one page, and that are kept from it until `release`."""

    def __init__(self, page: Page, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """`wanted`: whether the answer to a request with that body is to be held; only the first one is."""
        self._wanted = wanted
        self._held: list[tuple[Route, APIResponse]] = []
        self.asked: list[dict[str, Any]] = []
        page.route("**/gradio_api/**", self._on_request)

    def _on_request(self, route: Route) -> None:
        body = (
            route.request.post_data_json
            if route.request.method == "POST" and "upload" not in route.request.url
            else None
        )
        if isinstance(body, dict):
            self.asked.append(body)
            if not self._held and self._wanted(body):
                self._held.append((route, route.fetch()))
                return
        route.continue_()

    def wait(self, page: Page) -> None:
        """Until the server has given the answer that is held."""
        until(lambda: page.wait_for_timeout(20) or self._held)

    @property
    def response(self) -> APIResponse:
        """The answer that is held."""
        return self._held[0][1]

    def release(self) -> None:
        """Let the page have it."""
        self._held[0][0].fulfill(response=self.response)


def example_of(body: dict[str, Any]) -> str | None:
    """The saved run that a request asks for; "" for the page as it opens."""
    event = body.get("event_data")
    return event.get("example") if isinstance(event, dict) else None


def test_of_two_steps_back_the_second_one_is_shown(open_page: Open, server: Server) -> None:
    page, going_back = open_page(server.url), list[bool]()
    answers = HeldAnswers(page, lambda body: bool(going_back) and example_of(body) == "a-block")
    show_example(page, 0)
    expect(page).to_have_url(f"{server.url}?trace=a-block")
    show_example(page, 1)
    expect(page).to_have_url(f"{server.url}?trace=b-block")
    going_back.append(True)
    answers.asked.clear()
    page.go_back()
    answers.wait(page)
    page.go_back()
    expect(page).to_have_url(server.url)
    wanted = [example_of(body) for body in answers.asked]
    assert wanted == ["a-block"], "one at a time, so that no answer can overtake another"
    answers.release()
    expect(page.locator(".vrt-turn")).to_have_count(0)
    expect(page.locator("#second video")).to_have_count(0)
    expect(page).to_have_url(server.url)
    assert [example_of(body) for body in answers.asked if example_of(body) is not None] == [
        "a-block",
        "",
    ]
    page.go_forward()
    expect(page.locator(".vrt-turn")).to_have_count(2)
    expect(page).to_have_url(f"{server.url}?trace=a-block")


def test_the_end_of_what_follows_a_run_that_is_shown_is_not_the_answer_to_the_next(
    server: Server, new_page: Open
) -> None:
    page = open_held(new_page, server.url)
    hold_when(page, "location.search === '?trace=a-block'")
    show_example(page, 0)
    wait_until_held(page)
    answers = HeldAnswers(page, lambda body: example_of(body) == "")
    page.go_back()
    answers.wait(page)
    release(page)
    page.wait_for_function("heldStream.held.length === 0")
    page.wait_for_timeout(200)
    page.go_forward()
    page.wait_for_timeout(200)
    assert [example_of(body) for body in answers.asked if example_of(body) is not None] == [""]
    answers.release()
    expect(page.locator(".vrt-turn")).to_have_count(2)
    expect(page).to_have_url(f"{server.url}?trace=a-block")


def test_videos_that_are_still_on_their_way_do_not_take_the_place_of_those_of_an_opened_run(
    server: Server, open_page: Open, clips: Clips
) -> None:
    page, uploads = open_page(server.url), list[Any]()
    page.route("**/gradio_api/upload?*", lambda route: uploads.append(route))
    page.locator("#first input[type=file]").set_input_files(str(clips[0]))
    until(lambda: page.wait_for_timeout(20) or uploads)
    show_example(page, 1)
    before = page.locator("#first video").get_attribute("src")
    with suppress(Exception):  # the page has left it
        uploads[0].continue_()
    page.wait_for_timeout(1000)
    assert page.locator("#first video").get_attribute("src") == before
    assert status(page).startswith("Replaying")
    expect(page.locator(".vrt-changed")).to_be_hidden()


def is_stop(body: dict[str, Any]) -> bool:
    """The request of the Stop button, which alone names a run."""
    return any(isinstance(value, dict) and "number" in value for value in body.get("data") or ())


def test_what_is_said_of_an_earlier_run_stops_no_later_one(
    open_page: Open, clips: Clips, server: Server
) -> None:
    page = open_page(server.url)
    answers = HeldAnswers(page, is_stop)
    fill(page, clips)
    page.locator("#prompt textarea").press("Control+Enter")
    wait_for(page, "writing")
    page.locator("#stop").focus()
    page.keyboard.press("Enter")
    answers.wait(page)
    answers.release()
    expect(page.locator("#go")).to_be_focused()
    wait_for(page, "Stopped")
    former = page.evaluate("VRThinker.trace.run")
    page.keyboard.press("Enter")
    expect(page.locator("#stop")).to_be_focused()
    page.wait_for_function(
        "former => VRThinker.trace.run && VRThinker.trace.run !== former", arg=former
    )
    wait_for(page, "writing")
    stop = next(body for body in answers.asked if is_stop(body))
    late = page.request.post(f"{server.url}gradio_api/run/predict", data=stop)
    assert late.ok
    written = status(page)
    page.wait_for_function(
        "old => !document.querySelector('#status textarea').value.includes(old)", arg=written
    )
    assert "writing" in status(page), (
        "the Stop of the first run, as it comes late, does not stop the second one"
    )
    page.locator("#prompt textarea").press("Control+Enter")  # there is no Compare to press
    page.unroute_all()
    page.route("**/run/predict*", lambda route: route.fulfill(response=answers.response))
    page.evaluate("""() => {
        window.said = [];
        const show = VRThinker.buttons.show.bind(VRThinker.buttons);
        VRThinker.buttons.show = (value) => { show(value); said.push(value.number); };
    }""")
    page.locator("#stop").click()
    page.wait_for_function("first => said.includes(first)", arg=stop["data"][0]["number"])
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator("#go")).to_be_hidden()
    page.unroute_all()
    page.locator("#stop").click()
    expect(page.locator("#go")).to_be_visible()
    wait_for(page, "Stopped")


def test_a_run_that_is_begun_while_the_end_of_a_stream_is_on_its_way_is_seen(
    server: Server, new_page: Open, clips: Clips
) -> None:
    page = open_held(new_page, server.url)
    hold_when(page)  # from the first word on the first upload on
    fill(page, clips)
    page.wait_for_function("heldStream.held.some(([text]) => text.includes('close_stream'))")
    with page.expect_response("**/queue/join*") as joined:
        page.locator("#go").click()
    assert joined.value.ok
    release(page)
    wait_for(page, "writing")
    page.locator("#stop").click()
    wait_for(page, "Stopped")


def open_writing(new_page: Open, server: Server, clips: Clips) -> Page:
    """A page whose run goes on, and whose stream can be held."""
    page = open_held(new_page, server.url)
    start(page, clips)
    wait_for(page, "writing")
    return page


def test_what_was_said_of_a_run_before_stop_and_comes_after_it_is_not_the_last_word(
    server: Server, new_page: Open, clips: Clips
) -> None:
    page = open_writing(new_page, server, clips)
    hold_when(page)
    wait_until_held(page, 2)
    page.locator("#stop").click()
    wait_for(page, "Stopped")
    page.evaluate(
        "() => { window.over = []; document.addEventListener('vrt:trace', (event) => over.push(event.detail.over)); }"
    )
    release(page)
    page.wait_for_function("heldStream.held.length === 0")
    page.wait_for_timeout(500)
    assert False not in page.evaluate("over")
    wait_for(page, "Stopped")
    expect(page.locator(".vrt-ending")).to_contain_text("Stopped")
    expect(page.locator("#go")).to_be_visible()


def test_what_is_said_of_a_run_that_is_followed_does_not_come_after_what_is_shown_next(
    server: Server, new_page: Open, clips: Clips
) -> None:
    page = open_writing(new_page, server, clips)
    page.reload()
    wait_for(page, "writing")
    hold_when(page)
    wait_until_held(page, 3)
    page.locator(".vrt-card").first.click()
    page.wait_for_function("heldStream.held.some(([text]) => text.includes('Replaying'))")
    release(page)
    page.wait_for_function("heldStream.held.length === 0")
    page.wait_for_timeout(500)
    wait_for(page, "^Replaying")
    expect(page.locator(".vrt-headline")).to_be_attached()
    expect(page).to_have_url(f"{server.url}?trace=a-block")


def test_a_file_that_is_no_trace_leaves_a_stopped_run_and_its_turns(
    server: Server, new_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_writing(new_page, server, clips)
    (tmp_path / "other.json").write_text("{}")
    hold_when(page)
    open_trace(page, tmp_path / "other.json")
    said = "document.querySelector('#status textarea').value"
    page.wait_for_function(
        f"[{said}, ...heldStream.held.map(([text]) => text)].join().includes('not a VR-Thinker trace')"
    )
    release(page)
    page.wait_for_function("heldStream.held.length === 0 && VRThinker.trace.over")
    wait_for(page, "not a VR-Thinker trace")
    expect(page.locator("#go")).to_be_visible()
    page.get_by_role("tab", name="Trace").click()
    expect(page.locator(".vrt-ending")).to_contain_text("Stopped")
    expect(page.locator(".vrt-turn")).to_have_count(1)
