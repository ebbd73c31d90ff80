"""Both players as one, at exactly the frames that the judge saw, and the videos that come and go."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.support.loopback_server import serving_files
from tests.support.small_clips import write_clip
from tests.support.waiting import until, until_equal
from tests.ui.support import handmade_runs, steps
from tests.ui.support.barcode_clips import READ, steady, uneven, write_bars
from tests.ui.support.browsing import PHONE, Clips, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import ANSWER, PROMPT, ask, write_old
from vrthinker_core.video.files import file_digest

CLIPS: dict[str, Callable[[Path], Path]] = {
    "h264": lambda folder: write_bars(folder / "clip.mp4", "libx264", steady(97, 24)),
    "vp9": lambda folder: write_bars(folder / "clip.webm", "libvpx-vp9", steady(61, 30)),
    "uneven": lambda folder: write_bars(folder / "uneven.mp4", "libx264", uneven(83)),
}
PLACES = "({ currentTime, duration }) => currentTime / duration"


@pytest.fixture(scope="module")
def asking(serve: Serve) -> Server:
    late = ask(1, 2, 3, 63, 64, 65, 124, 125, 126, 127)
    return serve([ask(*range(0, 128, 11)), late, ANSWER], protocol="paired", pause=0.005)


def write_clips(folder: Path, *frames: int) -> Clips:
    first, second = (write_clip(folder / f"{number}.mp4", number) for number in frames)
    return first, second


def are_at(page: Page, place: float) -> bool:
    return steps.both(page, PLACES) == [pytest.approx(place, abs=0.02)] * 2


@pytest.mark.parametrize("name", CLIPS)
@opened("asking")
def test_every_pair_seeks_to_its_frames_and_times(page: Page, tmp_path: Path, name: str) -> None:
    """Each frame carries its number as bars."""
    second = write_bars(tmp_path / "second.mp4", "libx264", steady(40, 25))
    steps.compare(page, (CLIPS[name](tmp_path), second), "Bars.")
    pairs, rail = dict[tuple[int, int], list[int]](), page.locator(".vrt-time")
    for number, turn in enumerate(steps.saved_trace(page, tmp_path).turns):
        for frame in turn.frames:
            pairs.setdefault((number, frame.ref.slot), []).append(frame.index)
    steps.tab(page, "Thinking")

    def shown() -> list[int]:
        return [page.evaluate(READ, [f"#{side} video", None]) for side in steps.SIDES]

    steps.look(page)
    for position, frames in enumerate(pairs.values()):
        until_equal(shown, frames)  # a busy machine paints a frame later than it reports it
        if position <= 10:  # before any stack of equal pictures
            times = page.locator("#trace .vrt-caption span").nth(position).inner_text().split(" | ")
            assert f"Video 1 {times[0]} · Video 2 {times[1]}" in rail.inner_text()
        page.keyboard.press("ArrowRight")
    assert len(pairs) > 20
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    for key, number in ((".", 1), (".", 2), (",", 1)) if name != "uneven" else ():
        page.keyboard.press(key)
        until_equal(shown, [number, number])
        rate = 24 if name == "h264" else 30
        expect(rail).to_contain_text(f"Video 1 {number / rate:.2f} s · Video 2 {number / 25:.2f} s")


def test_the_rail_moves_both_players_and_says_which_keys_do(page: Page, tmp_path: Path) -> None:
    track = page.get_by_role("slider", name="Moment in both videos")
    steps.fill(page, write_clips(tmp_path, 97, 145))
    told = "all => all.map((each) => each.title && each.ariaKeyShortcuts)"
    keys = page.locator("#rail [aria-keyshortcuts]").evaluate_all(told)
    assert keys == [", . Home End", "Space", "ArrowLeft", "ArrowRight"]
    box = track.bounding_box()
    track.click(position={"x": 0.5 * box["width"], "y": box["height"] / 2})
    until(lambda: are_at(page, 0.5))
    steps.button(page, "Swap sides").click()
    page.wait_for_function("document.querySelector('#first video')?.duration > 5")
    until(lambda: are_at(page, 0.5))
    for side in steps.SIDES:  # a player that is paused by itself pauses the other
        for paused, live in ((False, "off"), (True, "polite")):  # for a screen reader
            if paused:
                page.locator(f"#{side} video").evaluate("video => video.pause()")
            else:
                steps.button(page, "Play both").click()
            until(lambda paused=paused: steps.both(page, "video => video.paused") == [paused] * 2)
            expect(page.locator(".vrt-time")).to_have_attribute("aria-live", live)
    old = page.query_selector("#first video")
    steps.clear(page, "first")
    kept = "video => video.isConnected || video.hasAttribute('src') || video.children.length"
    until(lambda: not old.evaluate(kept))  # its video stays in nobody's memory


def space_plays(page: Page) -> None:
    for name in ("Pause both", "Play both"):
        page.keyboard.press("Space")
        expect(steps.button(page, name)).to_be_visible()


def test_space_plays_after_a_pointer_has_pressed_a_button(page: Page, tmp_path: Path) -> None:
    go, frames = page.locator("#go"), page.get_by_role("tab", name="All frames").first
    steps.fill(page, write_clips(tmp_path, 97, 145))
    for pressed in (steps.button(page, "Later frame that the judge saw"), frames):
        pressed.click()
        space_plays(page)
    steps.button(page, "Speed").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # keys have led to Loop
    expect(steps.button(page, "Loop")).to_have_attribute("aria-pressed", "false")
    expect(steps.button(page, "Play both")).to_be_visible()
    go.click()
    expect(page.locator("#stop")).to_be_visible()
    assert page.evaluate("document.activeElement === document.body")
    steps.wait_until_over(page)
    space_plays(page)  # it presses neither Stop nor Compare
    assert steps.stays(page, go.is_visible)
    steps.expect_runs(page, "Video 1 is better overall")
    page.locator("h1").click()
    for key, number in {"Home": 0, "ArrowRight": 10, "ArrowLeft": 10, "End": 127}.items():
        page.keyboard.press(key)
        assert steps.moment(page).startswith(f"index {number} of 127 ·")


@opened(narrow={"viewport": {"width": 320, "height": 700}, "is_mobile": True})
def test_videos_of_any_length_keep_together(page: Page, tmp_path: Path) -> None:
    """At speeds that browsers have, and after one has run ahead."""
    steps.fill(page, write_clips(tmp_path, 24, 720))
    assert steps.fits(page), "the controls have room"
    steps.button(page, "Play both").click()
    for drift in (0, 6):  # seconds of the longer one
        page.locator("#second video").evaluate("(it, more) => { it.currentTime += more; }", drift)
        until(lambda: (place := steps.both(page, PLACES)[0]) > 0.2 and are_at(page, place))
        slow, fast = steps.both(page, "video => video.playbackRate")
        assert 1 / 16 <= slow < 1 < fast <= 16


@opened(**steps.SCHEMES)
def test_the_rail_shows_by_colour_which_turn_saw_a_frame(page: Page, tmp_path: Path) -> None:
    steps.replay(page, tmp_path / "t.json", handmade_runs.many_turns(12))
    colour = "all => all.map((mark) => getComputedStyle(mark, '::after').backgroundColor)"
    marks = page.locator(".vrt-mark").evaluate_all(colour)
    assert (len(marks), len(set(marks))) == (24, 12)
    expect(steps.turns(page).first).to_have_css("border-left-color", marks[0])


# -- videos that come and go ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A web server with three clips, one of which no browser plays."""
    folder = tmp_path_factory.mktemp("web")
    for name in ("one.mp4", "two.mp4", "odd.mkv"):
        write_clip(folder / name, 24)
    with serving_files(folder) as address:
        yield address


def get(page: Page, number: int, address: str) -> None:
    field = page.locator(f"#address-{number} input")
    if not field.is_visible():  # it is in an empty box only
        steps.clear(page, steps.SIDES[number - 1])
    page.evaluate("statusSaid.length = 0")
    field.fill(address)
    field.press("Enter")


def test_web_addresses_replace_uploads_and_a_run_says_what_it_judged(page: Page, web: str) -> None:
    notice = steps.changed(page)
    get(page, 1, f"{web}/one.mp4")
    steps.wait_until_playable(page, "first")
    steps.wait_for(page, "^One video is here")
    get(page, 2, f"{web}/odd.mkv")
    steps.wait_until_playable(page, "second")
    steps.wait_for(page, "a copy is shown.*Both videos are here")
    steps.write_prompt(page, PROMPT)
    steps.compare_again(page)
    wrong = {f"{web}/none.mp4": "404", "file:///etc/passwd": "http:", "": "https:", web: "web page"}
    for address, sentence in wrong.items():
        get(page, 1, address)
        steps.wait_until_said(page, sentence)
    expect(notice).to_contain_text("another video 1:")
    get(page, 1, f"{web}/one.mp4")
    expect(notice).to_be_hidden()
    get(page, 2, f"{web}/two.mp4")
    steps.wait_until_playable(page, "second")
    expect(notice).to_contain_text("This run judged another video 2:")
    expect(steps.headline(page)).to_be_visible()
    steps.compare_again(page)
    expect(notice).to_be_hidden()
    steps.clear(page, "first")
    steps.wait_for(page, "Video 1 was removed")
    expect(page.locator("#first .vrt-emptied")).to_be_visible()
    expect(notice).to_contain_text("another video 1:")
    expect(steps.headline(page)).to_be_visible()


DROP = """(bytes) => {
    const dataTransfer = new DataTransfer(), how = { bubbles: true, cancelable: true, dataTransfer };
    dataTransfer.items.add(new File([new Uint8Array(bytes)], "b.gif", { type: "image/gif" }));
    document.querySelector("#second button").dispatchEvent(new DragEvent("drop", how));
}"""


def test_unplayable_videos_are_shown_as_copies_and_judged(page: Page, tmp_path: Path) -> None:
    old, gif = write_old(tmp_path / "old.avi"), tmp_path / "square.gif"
    pictures = [Image.new("RGB", (96, 64), (20 * number, 0, 99)) for number in range(12)]
    pictures[0].save(gif, save_all=True, append_images=pictures[1:], duration=80, loop=0)
    steps.put(page, "first", old)
    steps.wait_for(page, "a copy is shown")
    steps.wait_until_playable(page, "first")
    page.evaluate(DROP, list(gif.read_bytes()))
    steps.wait_until_playable(page, "second")
    steps.write_prompt(page, "A square.")
    steps.compare_again(page)
    first, second = steps.saved_trace(page, tmp_path).started.clips
    assert (first.digest, second.digest, second.frames) == (file_digest(old), file_digest(gif), 12)
    steps.replay(page, tmp_path / "trace.json")
    steps.wait_until_playable(page, "first")


@pytest.fixture
def gone(page: Page, server: Server) -> Page:
    page.goto(f"{server.url}?trace=f-gone")
    expect(page.locator("#second .vrt-still")).to_be_visible()
    return page


def test_every_way_to_a_frame_of_a_run_without_videos_leads_to_its_stills(gone: Page) -> None:
    page, seen = gone, steps.tile_pictures(gone)
    expect(page.locator(".vrt-lost")).to_contain_text("videos of this run are not kept here")
    expect(steps.button(page, "Swap sides")).to_be_disabled()
    assert steps.stills(page) == seen[min(seen)], "a run begins with its first frames"
    for position, number in enumerate(seen):
        expect(steps.look(page, position)).to_contain_text("Thumbnail: the videos are gone")
        page.keyboard.press("Escape")
        assert steps.stills(page) == seen[number]
        assert steps.moment(page).startswith(f"index {number} of ")
        page.locator(".vrt-mark").nth(-1 - position).click()
        assert steps.stills(page) == list(seen.values())[-1 - position]
    page.keyboard.press("Home")
    for key, numbers in (("ArrowRight", sorted(seen)), (",", sorted(seen)[-2::-1])):
        for number in numbers:
            page.keyboard.press(key)
            assert (steps.stills(page), steps.chosen(page)) == (seen[number], str(number))
    link = page.locator(".vrt-ref:enabled").first
    link.click()
    assert steps.stills(page) == seen[int(link.get_attribute("data-frame"))]
    box = page.locator(".vrt-track").bounding_box()
    for fraction in (0.02, 0.2, 0.33, 0.55, 0.71, 0.98):
        page.mouse.click(box["x"] + fraction * box["width"], box["y"] + 4)
        away = {pictures[0]: abs(number - fraction * 127) for number, pictures in seen.items()}
        assert away[steps.stills(page)[0]] <= min(away.values()) + 3, (
            "the nearest, but for rounding"
        )
        for still in page.locator(".vrt-still img").all():
            assert still.get_attribute("alt").rpartition(", ")[2] in steps.moment(page)


def test_stills_play_and_videos_take_their_place(gone: Page, clips: Clips) -> None:
    page, seen, lost = gone, steps.tile_pictures(gone), gone.locator(".vrt-lost")
    still = page.locator("#first .vrt-still")
    steps.button(page, "Loop").click()
    steps.button(page, "Play both").click()
    expect(still.locator("img")).to_have_attribute("src", seen[max(seen)][0])
    expect(steps.button(page, "Play both")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        steps.button(page, "Upload video 1").click()
    chooser.value.set_files(str(clips[0]))
    steps.wait_until_playable(page, "first")
    expect(lost).to_contain_text("Video 2 ")
    steps.look(page, 2)
    page.keyboard.press("Escape")
    assert steps.stills(page) == [None, list(seen.values())[2][1]]
    at = float(page.locator("#trace .vrt-caption span").nth(2).inner_text().split(" s")[0])
    assert at <= steps.both(page, "video => video.currentTime")[0] < at + 0.05
    steps.clear(page, "first")
    expect(still).to_be_visible()
    steps.fill(page, clips)
    expect(lost).to_be_hidden()
    steps.compare_again(page)
    steps.clear(page, "second")
    expect(page.locator("#second video")).to_have_count(0)
    assert steps.stills(page) == [None, None], "a live run has no stills"


@opened(phone=PHONE)
def test_only_what_is_not_at_hand_is_a_still(page: Page, server: Server) -> None:
    for name, whole in (("a-block", steps.SIDES), ("e-half", ["first"]), ("f-gone", [])):
        page.goto(f"{server.url}?trace={name}")
        for side in steps.SIDES:
            shown = "video" if side in whole else ".vrt-still"
            expect(page.locator(f"#{side} {shown}")).to_be_visible()
        kept = [still is None for still in steps.stills(page)]
        assert kept == [side in whole for side in steps.SIDES]
        assert page.locator(".vrt-lost").is_hidden() == all(kept)
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight / 2)")
    expect(page.locator("#first .vrt-still")).to_be_in_viewport()
