"""A comparison: what is in sight while the judge writes and after it, Stop, the queue, refusals."""

import pytest

from tests.support.slow import slow
from tests.support.waiting import until
from tests.ui.support import steps
from tests.ui.support.browsing import Clips, Open, Page, Route, Serve, Server, expect, opened
from tests.ui.support.held_stream import hold_when, open_held, release, wait_until_held
from tests.ui.support.saved_examples import PROMPT, THINK, ask
from vrthinker_core.protocols.base import MAX_PROMPT

WORDS = f"{THINK} Frames 16 and 80 show video 1 as a whole (frame 80); so it goes on. {THINK}"
REASONS = "TA: alike. VQ: video 2 is sharper at frame 30. Overall video 1 is better at frame 60."
ANSWER = f"<Think>{REASONS}</Think><Answer>TA=0, VQ=2, MQ=0, OA=1</Answer>"
ASKED = ([10, 11, 12, 30, 60, 90, 140], [16, 20])
SOME_WORDS = "document.querySelector('.vrt-turn:nth-child({}) .vrt-text')?.textContent.length > 200"
MANY_EMPTY = "document.querySelectorAll('.vrt-empty-tile').length > 2"
WANTS_MORE = (
    "document.querySelector('.vrt-turn:nth-child(2) .vrt-wants')?.textContent.includes('#20')"
)
COVERED = """(it) => { it.scrollIntoView(); const { x, y } = it.getBoundingClientRect();
    return !document.elementFromPoint(x + 4, y + 4).closest("#prompt"); }"""  # by what stays
FIRST = "Video 1 is better"


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    asked = (ask(*frames).replace(THINK, WORDS) for frames in ASKED)
    return serve([*asked, ANSWER], protocol="paired", pause=0.02)


SMALLER = [pytest.param(screen, id=name, marks=slow) for name, screen in steps.SMALLER.items()]


@pytest.mark.parametrize("screen", [*steps.WIDE.values(), *SMALLER])
def test_the_first_screen_holds_the_newest_words_then_the_verdict(
    server: Server, new_page: Open, clips: Clips, screen: dict[str, object]
) -> None:
    page = open_held(new_page, server.url, **screen)
    players, (first, second) = page.locator("#players"), [steps.turns(page).nth(n) for n in (0, 1)]
    empty, marks = page.locator("#trace .vrt-empty-tile"), page.locator(".vrt-mark")
    hold_when(page, SOME_WORDS.format(1))
    steps.start(page, clips)
    wait_until_held(page)
    steps.wait_until_in_view(first.locator(".vrt-tile").first)
    steps.wait_until_last_word(page)
    expect(first.locator(".vrt-state")).to_contain_text("4 pairs to begin with")
    hold_when(page, MANY_EMPTY)
    wait_until_held(page)
    many, asked = empty.count(), first.locator(".vrt-wants")
    expect(asked).to_contain_text(f"It wants {many} more pairs: #10 #11 #12")
    expect(page.locator(".vrt-mark.asked")).to_have_count(many)
    hold_when(page, SOME_WORDS.format(2))
    wait_until_held(page)
    steps.wait_until_in_view(second.locator(".vrt-tile").last)
    expect(players).to_be_in_viewport(ratio=0.99)
    steps.wait_until_last_word(page)
    expect(second.locator(".vrt-state")).to_contain_text("6 pairs it asked for")
    expect(second.locator(".vrt-tile.stack b")).to_have_text("#11 = #12")
    hold_when(page, WANTS_MORE)
    wait_until_held(page)
    expect(second.locator(".vrt-wants")).to_contain_text("It wants 1 more pair: #20")
    expect(second.locator(".vrt-wants")).to_contain_text("Already shown: 16.")
    assert empty.count() == page.locator(".vrt-mark.asked").count() == 1
    release(page)
    steps.wait_for(page, "^Finished after 3 turns")
    steps.wait_until_in_view(steps.headline(page), *page.locator(".vrt-reason").all())
    expect(players).to_be_in_viewport(ratio=0.99)
    assert page.locator("#trace .vrt-tile").count() + 1 == marks.count() == 11
    assert empty.count() == page.locator(".vrt-mark.asked").count() == 0
    assert steps.fits(page)
    assert screen is steps.SCREENS["1440"] or page.locator("#prompt label").evaluate(COVERED)
    steps.button(asked, "#12", exact=True).click()
    assert "#12 (of 0–127)" in steps.moment(page)
    assert steps.chosen(page) == "11 · 12"


KEEP_REQUESTS = """() => {
    const all = (look) => [...document.querySelectorAll(look)];
    const look = () => seen.push({
        time: performance.now(),
        turns: all("#trace .vrt-turn:not(.coming)").length,
        asked: all("#trace .vrt-empty-tile").length > 0,
        inView: all("#trace .vrt-empty-tile").some(%s),
    });
    window.seen = [];
    addEventListener("scroll", look);
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
}"""
"""Looks at what is asked for whenever the page changes."""


def test_a_request_that_is_written_at_once_stands(
    serve: Serve, open_page: Open, clips: Clips
) -> None:
    short = ask(20, 40).replace(THINK, "Well.")
    at_once = serve([ask(10, 30, 60, 90), short, ANSWER], protocol="paired", pause=0.02)
    page = open_page(at_once.url, reduced_motion="no-preference")
    page.evaluate(KEEP_REQUESTS % steps.IN_VIEW)
    steps.compare(page, clips)
    expect(page.locator(".vrt-chip").first).to_be_visible()
    seen = page.evaluate("seen")
    assert seen[-1]["turns"] == 3
    for turn in (2, 3):
        came = next(each["time"] for each in seen if each["turns"] == turn)
        asked = [each for each in seen if each["turns"] == turn - 1 and each["asked"]]
        assert came - asked[0]["time"] >= 800
        assert all(each["asked"] for each in seen if asked[0]["time"] <= each["time"] < came)
        assert any(each["inView"] for each in asked)
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true }); seen.length = 0")
    page.evaluate("document.addEventListener('vrt:trace', () => seen.push(VRThinker.trace))")
    steps.compare_again(page)
    assert not page.evaluate("seen.some(({ held }) => held)"), "nobody would see it"


def test_a_verdict_gives_reasons_and_a_screen_reader_tells_it(page: Page, clips: Clips) -> None:
    long, notice, chips = "A red ball. " * (MAX_PROMPT // 12), steps.changed(page), ".vrt-chip"
    page.locator("#go").click()
    page.wait_for_function("announced.some((text) => text.includes('Not started'))")
    steps.compare(page, clips, long)
    for end in ("/^Finished after 3 turns in [^·]+$/", f"/^{FIRST}$/"):
        page.wait_for_function(f"announced.filter((text) => {end}.test(text)).length === 1")
    labels = ["Video 1", "No difference", "Video 2", "No difference"]
    expect(page.locator(f"{chips} summary b")).to_have_text(labels)
    overall, _, quality, _ = page.locator(chips).all()
    expect(overall).to_contain_text("Overall video 1 is better at frame 60.")
    expect(overall.locator(".vrt-deciding-pair")).to_have_text(["#60"])
    quality.locator(".vrt-deciding-pair").click()
    assert "#30 (of 0–127)" in steps.moment(page)
    assert steps.chosen(page) == "30"
    link = steps.turns(page).first.locator(".vrt-ref", has_text="80").last
    link.hover()
    for part in (".vrt-tile.lit", ".vrt-mark.lit"):
        expect(page.locator(part)).to_have_attribute("data-frames", "80")
    expect(steps.turns(page).first.locator("summary").first).to_have_text("Details · 1 note")
    expect(steps.turns(page).first.locator(".vrt-remarks")).to_contain_text("140")
    expect(notice).to_be_hidden()
    steps.write_prompt(page, "Something else.")
    expect(notice).to_contain_text("This run judged the prompt “A red ball. A red ball.")
    steps.write_prompt(page, long)
    expect(notice).to_be_hidden()


@opened("endless", low={"viewport": {"width": 1280, "height": 500}})
def test_who_reads_on_is_left_alone_and_changes_what_comes_next(page: Page, clips: Clips) -> None:
    line, notice = page.locator("#status"), steps.changed(page)
    steps.start(page, clips)
    steps.wait_until_said(page, "^Turn 1 of 6")
    height = line.bounding_box()["height"]
    steps.wait_for(page, r"^Turn 2 of 6 · writing · .* at most \d+ s left")
    assert line.bounding_box()["height"] == height, "a longer line moves nothing below it"
    steps.wait_until_last_word(page)
    page.mouse.move(900, 250)
    page.mouse.wheel(0, -250)
    steps.place_while_the_judge_writes(page)
    follow = steps.button(page, "↓ Live")
    expect(follow).to_be_in_viewport()
    follow.dispatch_event("click")
    expect(follow).to_be_hidden()
    steps.wait_until_last_word(page)
    page.mouse.down()  # what is pressed stays under the pointer
    before = steps.place_while_the_judge_writes(page)
    page.mouse.up()
    page.wait_for_function("before => window.scrollY > before", arg=before)
    steps.wait_until_last_word(page)
    steps.clear(page, "second")
    steps.put(page, "second", clips[0])
    expect(notice).to_contain_text(f"judged another video 2: {clips[1].name}.")
    steps.write_prompt(page, "Something else.")
    expect(notice).to_contain_text(f"judged the prompt “{PROMPT}”")
    expect(page.locator("#stop")).to_be_in_viewport()
    page.locator("#stop").click()
    page.wait_for_function("announced.some((text) => text.startsWith('Stopped after 2 turns'))")
    assert page.evaluate("announced").count("Turn 1 of 6") == 1, "not every second"
    expect(notice).to_contain_text("another video 2")


@pytest.mark.parametrize("anchoring", [pytest.param("auto", marks=slow), "none"])
@opened(low={"viewport": {"width": 1280, "height": 400}})
def test_what_is_read_stays_in_its_place(page: Page, clips: Clips, anchoring: str) -> None:
    """Both where the browser keeps it, and where it does not."""
    page.evaluate("value => document.documentElement.style.overflowAnchor = value", anchoring)
    steps.start(page, clips)
    words = steps.turns(page).first.locator(".vrt-text p").first
    expect(words).to_be_visible()
    header = steps.turns(page).first.locator("header")
    until(lambda: header.bounding_box()["y"] < 0)
    header.evaluate("node => node.scrollIntoView()")
    expect(page.locator(".vrt-follow")).to_be_visible()  # it is followed no longer
    before = words.bounding_box()["y"]
    steps.wait_until_over(page)  # two turns have come below it, and the verdict above
    until(lambda: words.bounding_box()["y"] == pytest.approx(before, abs=1))


@opened("endless", phone=steps.PHONE)
def test_on_a_small_screen_stop_stays_in_sight(page: Page, clips: Clips) -> None:
    bar = page.get_by_role("group", name="The run that goes on")
    stop = steps.button(bar, "Stop")
    steps.start(page, clips)
    expect(stop).to_be_in_viewport(ratio=1)
    expect(page.locator("#stop")).not_to_be_in_viewport()
    until(lambda: bar.locator("span").inner_text() == steps.status(page) != "")
    steps.wait_until_last_word(page)
    assert min(stop.bounding_box()["width"], stop.bounding_box()["height"]) >= 44
    assert bar.locator("[role=status], [aria-live]").count() == 0, "the status is announced once"
    stop.press("Enter")
    steps.wait_for(page, "^Stopped")
    expect(bar).to_have_count(0)
    expect(page.locator("#go")).to_be_focused()


# -- presses and refusals -------------------------------------------------------------------------


@opened("answering")
def test_compare_waits_for_no_upload_and_begins_one_run(page: Page, clips: Clips) -> None:
    uploads, go = list[Route](), page.locator("#go")
    page.route("**/gradio_api/upload?*", lambda route: uploads.append(route))
    for side, clip in zip(steps.SIDES, clips, strict=True):
        steps.put(page, side, clip)
    steps.write_prompt(page, PROMPT)
    until(lambda: page.wait_for_timeout(20) or len(uploads) == 2)
    for _ in range(3):
        go.click()
    steps.wait_for(page, "still being uploaded")
    for each in uploads:
        each.continue_()
    steps.wait_for(page, "^Ready to compare")
    assert steps.stays(page, go.is_visible)
    failed = {"status": 500, "json": {"error": "It failed."}}
    page.route("**/run/predict*", lambda route: route.fulfill(**failed), times=1)
    go.click()
    steps.wait_for(page, "no longer has these videos")
    steps.expect_idle(page)
    page.evaluate("() => { for (const _ of '123') document.querySelector('#go').click(); }")
    steps.wait_until_over(page)
    assert steps.stays(page, go.is_visible)
    steps.expect_runs(page, FIRST)


@opened("endless")
def test_the_second_of_two_presses_does_not_count_elsewhere(page: Page, clips: Clips) -> None:
    running, idle = page.locator("#stop"), page.locator("#go")
    steps.fill(page, clips)
    for pressed, other in ((idle, running), (running, idle)):
        box = pressed.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for count in (1, 2):
            page.mouse.down(click_count=count)
            page.mouse.up(click_count=count)
            expect(other).to_be_visible()
        assert steps.stays(page, other.is_visible)
    steps.expect_runs(page, "Stopped")
