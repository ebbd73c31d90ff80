"""Which presses of Compare and Stop count; a comparison that cannot be made says why at once, and Compare can be pressed again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Server
from tests.ui.support.browsing import Clips, Open, Page, Route, expect
from tests.ui.support.steps import fill, start, wait_for
from vrthinker_core.ui import words

pytestmark = pytest.mark.browser


def check_refused(page: Page, sentence: str) -> None:
    wait_for(page, sentence)
    expect(page.locator("#go")).to_be_visible()
    expect(page.locator("#stop")).to_be_hidden()
    assert words.BUSY not in page.evaluate("window.statusSaid")


def test_whoever_forgot_a_video_does_not_wait_to_be_told_so(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    busy, page = open_page(endless.url), open_page(endless.url)
    start(busy, clips)
    wait_for(busy, "writing")
    page.locator("#go").click()
    check_refused(page, words.MISSING_VIDEOS)
    assert words.WAITING not in page.evaluate("window.statusSaid")
    fill(page, clips)
    wait_for(page, words.READY_TO_COMPARE)
    expect(page.get_by_text(words.MISSING_VIDEOS)).to_have_count(0)
    page.locator("#first button[aria-label='Clear']").click()
    wait_for(page, words.ONE_VIDEO)
    expect(busy.locator("#stop")).to_be_visible()
    busy.locator("#stop").click()
    wait_for(busy, "Stopped")


def test_videos_that_are_deleted_are_to_be_added_again(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url)
    fill(page, clips)
    for file in endless.folder.glob("vr-thinker-page-*/uploads/*/*.mp4"):
        file.unlink()
    page.locator("#go").click()
    check_refused(page, words.GONE)
    for name in ("first", "second"):
        page.locator(f"#{name} button[aria-label='Clear']").click()
    start(page, clips)
    wait_for(page, "writing")
    page.locator("#stop").click()


KEEP_RUNS = """() => {
    window.runs = new Set();
    document.addEventListener("vrt:trace", ({ detail }) => detail.run && runs.add(detail.run));
}"""


@pytest.fixture
def answered_page(answering: Server, open_page: Open) -> Page:
    """A page that keeps the names of the runs that it has shown."""
    page = open_page(answering.url)
    page.evaluate(KEEP_RUNS)
    return page


def test_compare_waits_for_no_upload_and_says_so(answered_page: Page, clips: Clips) -> None:
    page, uploads = answered_page, list[Any]()
    page.route("**/gradio_api/upload?*", lambda route: uploads.append(route))
    for name, clip in zip(("first", "second"), clips, strict=True):
        page.locator(f"#{name} input[type=file]").set_input_files(str(clip))
    page.locator("#prompt textarea").fill("A white block glides to the right.")
    until(lambda: page.wait_for_timeout(20) or len(uploads) == 2)
    for _ in range(3):
        page.locator("#go").click()
    wait_for(page, words.UPLOADING)
    page.locator("#prompt textarea").press("Control+Enter")
    page.evaluate(
        "() => new Promise((done) => setTimeout(done, 100))"
    )  # it presses Compare a moment later
    for upload in uploads:
        upload.continue_()
    wait_for(page, words.READY_TO_COMPARE)
    page.wait_for_timeout(1000)
    assert page.evaluate("runs.size") == 0
    page.locator("#go").click()
    wait_for(page, "Finished")


def test_compare_begins_one_run_however_often_it_is_pressed_and_none_without_a_prompt(
    answered_page: Page, clips: Clips
) -> None:
    page = answered_page
    fill(page, clips)
    page.route(
        "**/run/predict*",
        lambda route: route.fulfill(status=500, json={"error": "It failed."}),
        times=1,
    )
    page.locator("#go").click()
    wait_for(page, words.GONE)
    page.evaluate(
        "() => { for (let press = 0; press < 3; press += 1) document.querySelector('#go').click(); }"
    )
    wait_for(page, "Finished")
    page.wait_for_timeout(1500)
    assert page.evaluate("runs.size") == 1
    page.locator("#go").click()
    page.wait_for_function("runs.size === 2")
    wait_for(page, "Finished")
    address = page.url
    for prompt in ("", " \n ", "\u200b"):
        page.locator("#prompt textarea").fill(prompt)
        page.locator("#go").click()
        check_refused(page, "The prompt is empty. Write the text that both videos were made from.")
        expect(page.locator(".vrt-headline")).to_have_text("Video 1 is better overall")
        expect(page).to_have_url(address)


def double_click(page: Page, button: str, other: str) -> None:
    """Its second click comes when the other button has taken the place of that one."""
    box = page.locator(button).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for count in (1, 2):
        page.mouse.down(click_count=count)
        page.mouse.up(click_count=count)
        expect(page.locator(other)).to_be_visible()


def test_a_double_click_on_compare_stops_no_run_and_one_on_stop_begins_none(
    endless: Server, open_page: Open, clips: Clips
) -> None:
    page = open_page(endless.url)
    fill(page, clips)
    page.evaluate(KEEP_RUNS)
    double_click(page, "#go", "#stop")
    page.wait_for_timeout(1000)
    wait_for(page, "writing")
    double_click(page, "#stop", "#go")
    wait_for(page, "Stopped")
    page.wait_for_timeout(1000)
    assert page.evaluate("runs.size") == 1
    wait_for(page, "Stopped")


def test_the_second_tap_of_two_does_not_count_on_the_other_button(answered_page: Page) -> None:
    taps = [("go", 1, 1000), ("stop", 1, 1200), ("stop", 0, 1210), ("stop", 1, 1400)]
    taps += [("go", 1, 1500), ("go", 1, 1900)]
    counted = answered_page.evaluate(
        """([taps, pointerType]) => taps.map(([name, detail, timeStamp]) =>
            !VRThinker.buttons.isSecond(document.getElementById(name), { detail, pointerType, timeStamp }))""",
        [[list(tap) for tap in taps], "touch"],
    )
    assert counted == [True, False, True, True, False, True]


@pytest.mark.parametrize(
    "requests",
    ["**/{run/predict,queue/join}*", "**/queue/join*"],
    ids=["at once", "as it would begin"],
)
def test_so_are_those_of_an_earlier_server(
    requests: str, endless: Server, open_page: Open, clips: Clips
) -> None:
    def with_other_paths(route: Route) -> None:
        route.continue_(
            post_data=(route.request.post_data or "").replace(
                "vr-thinker-page-", "vr-thinker-earlier-"
            )
        )

    page = open_page(endless.url)
    fill(page, clips)
    page.route(requests, with_other_paths)
    page.locator("#go").click()
    check_refused(page, words.GONE)
    page.unroute_all()
    page.locator("#go").click()
    wait_for(page, "writing")
    page.locator("#stop").click()
