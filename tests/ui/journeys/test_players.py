"""Both players as one, at exactly the frames that the judge saw, and the videos that come and go."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from PIL import Image

from tests.support.loopback_server import serving_files
from tests.support.slow import slow
from tests.support.small_clips import write_clip
from tests.support.waiting import until, until_equal
from tests.ui.support import steps
from tests.ui.support.barcode_clips import READ, steady, uneven, write_bars
from tests.ui.support.browsing import Clips, Page, Serve, Server, expect, opened
from tests.ui.support.saved_examples import ANSWER, ask, write_old
from vrthinker_core.types import Thumbnail
from vrthinker_core.video.files import file_digest

PLACES = "({ currentTime, duration }) => currentTime / duration"


@pytest.fixture(scope="module")
def asking(serve: Serve) -> Server:
    script = [ask(*range(0, 128, 21)), ask(1, 2, 3, 64, 65, 126, 127), ANSWER]
    return serve(script, protocol="paired")


CLIPS = {
    "h264": ("clip.mp4", "libx264", steady(97, 25)),
    "vp9": ("clip.webm", "libvpx-vp9", steady(61, 25)),
    "uneven": ("uneven.mp4", "libx264", uneven(83)),
    "paused": ("paused.mp4", "libx264", [*steady(60, 30), Fraction(62)]),
    "held": ("held.gif", "gif", [*steady(11, 10), Fraction(30), Fraction(31)]),
}


@opened("asking", moving={"reduced_motion": "no-preference"})
def test_a_pair_plays_once_and_is_measured_and_seen_large(
    page: Page, clips: Clips, axe: str
) -> None:
    steps.fill(page, clips)
    playing = "VRThinker.rail.players.playing"
    page.wait_for_function(playing)
    page.wait_for_function(f"!{playing} && VRThinker.rail.players.place > 0.99")
    measured = page.get_by_role("region", name="Measured")
    points = "all => all.every((curve) => curve.points.length > 2)"
    until(lambda: measured.locator("polyline").evaluate_all(points))
    expect(measured).not_to_contain_text("Measuring")
    assert steps.serious_violations(page, axe) == []
    page.locator("#first video").click()
    page.wait_for_function(playing)
    page.keyboard.press("f")
    dialog = page.get_by_role("dialog", name="Both videos")
    page.wait_for_function("VRThinker.closer.players.playing")
    page.keyboard.press("Space")
    page.evaluate("VRThinker.closer.players.stand(0.5)")
    for mode in ("Wipe", "Flicker", "Difference"):
        steps.button(dialog, mode, exact=True).click()
    assert steps.serious_violations(page, axe) == []
    dialog.locator(".vrt-lenses").focus()
    read = "all => all.map((video) => Math.round(video.currentTime / video.duration * 1000))"
    first, second = dialog.locator("video").evaluate_all(read)
    assert abs(first - second) <= 2
    page.keyboard.press("ArrowLeft")
    until(lambda: dialog.locator("video").evaluate_all(read)[0] < first)
    place = page.evaluate("VRThinker.closer.players.place")
    page.keyboard.press("Escape")
    page.wait_for_function(f"VRThinker.rail.players.place === {place}")
    expect(page.locator("[data-action=closer]")).to_be_focused()


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=slow) for name in ("h264", "vp9")), "uneven", "paused", "held"],
)
@opened("asking")
def test_every_pair_seeks_to_its_frames_and_times(page: Page, tmp_path: Path, name: str) -> None:
    """Each frame carries its number as bars."""
    file, codec, frame_times = CLIPS[name]
    first = write_bars(tmp_path / file, codec, frame_times)
    second = write_bars(tmp_path / "second.mp4", "libx264", steady(40, 20))
    steps.compare(page, (first, second), "Bars.")
    pairs, rail = dict[tuple[int, int], list[Thumbnail]](), page.locator(".vrt-time")
    for number, turn in enumerate(steps.saved_trace(page, tmp_path).turns):
        for frame in turn.frames:
            pairs.setdefault((number, frame.ref.slot), []).append(frame)
    assert len(pairs) > 15

    def shown() -> list[int]:
        return [page.evaluate(READ, [f"#{side} video", None]) for side in steps.SIDES]

    steps.look(page)
    for frames in pairs.values():
        # A busy machine paints a frame later than it reports it
        until_equal(shown, [frame.index for frame in frames])
        times = [f"Video {side} {frame.seconds:.2f} s" for side, frame in enumerate(frames, 1)]
        assert " · ".join(times) in rail.inner_text()
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    for key, number in ((".", 1), (".", 2), (",", 1)) if name in ("h264", "vp9") else ():
        page.keyboard.press(key)
        until_equal(shown, [number, number])
        expect(rail).to_contain_text(f"Video 1 {number / 25:.2f} s · Video 2 {number / 20:.2f} s")


def are_at(page: Page, place: float) -> bool:
    return steps.both(page, PLACES) == [pytest.approx(place, abs=0.02)] * 2


def test_the_rail_keeps_videos_of_any_length_together(page: Page, tmp_path: Path) -> None:
    """At speeds that browsers have, and after one has run ahead."""
    lengths = {"short.mp4": 24, "long.mp4": 720}
    steps.fill(page, [write_clip(tmp_path / name, frames) for name, frames in lengths.items()])
    steps.button(page, "Play both").click()
    for drift in (0, 6):  # seconds of the longer one
        page.locator("#second video").evaluate("(it, more) => { it.currentTime += more; }", drift)
        until(lambda: (place := steps.both(page, PLACES)[0]) > 0.2 and are_at(page, place))
        slow_one, fast = steps.both(page, "video => video.playbackRate")
        assert 1 / 16 <= slow_one < 1 < fast <= 16
    steps.button(page, "Pause both").click()
    track = page.get_by_role("slider", name="Moment in both videos")
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
    press_space_after_a_pointer_has_pressed(page)
    page.set_viewport_size({"width": 320, "height": 700})
    assert steps.fits(page), "the controls have room"


def space_plays(page: Page) -> None:
    for name in ("Pause both", "Play both"):
        page.keyboard.press("Space")
        expect(steps.button(page, name)).to_be_visible()


def press_space_after_a_pointer_has_pressed(page: Page) -> None:
    go, frames = page.locator("#go"), page.get_by_role("tab", name="All frames").first
    for pressed in (steps.button(page, "Later frame that the judge saw"), frames):
        pressed.click()
        space_plays(page)
    steps.button(page, "Speed").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # keys have led to Loop
    expect(steps.button(page, "Loop")).to_have_attribute("aria-pressed", "true")
    expect(steps.button(page, "Play both")).to_be_visible()
    go.click()
    expect(page.locator("#stop")).to_be_visible()
    assert page.evaluate("document.activeElement === document.body")
    steps.wait_until_over(page)
    space_plays(page)  # it presses neither Stop nor Compare
    assert steps.stays(page, go.is_visible)
    steps.expect_runs(page, "Video 1 is better")


# -- videos that come and go ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A web server with a clip that browsers play, and one that none plays."""
    folder = tmp_path_factory.mktemp("web")
    for name in ("one.mp4", "odd.mkv"):
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


DROP = """(bytes) => {
    const dataTransfer = new DataTransfer(), how = { bubbles: true, cancelable: true, dataTransfer };
    dataTransfer.items.add(new File([new Uint8Array(bytes)], "b.gif", { type: "image/gif" }));
    document.querySelector("#second button").dispatchEvent(new DragEvent("drop", how));
}"""


def test_files_and_addresses_replace_each_other_and_a_run_says_what_it_judged(
    page: Page, web: str, tmp_path: Path
) -> None:
    """What no browser plays is shown as a copy, and judged."""
    notice, gif = steps.changed(page), tmp_path / "square.gif"
    pictures = [Image.new("RGB", (96, 64), (20 * number, 0, 99)) for number in range(12)]
    pictures[0].save(gif, save_all=True, append_images=pictures[1:], duration=80, loop=0)
    old = write_old(tmp_path / "old.avi")
    steps.put(page, "first", old)
    steps.wait_for(page, "a copy is shown")
    steps.wait_until_playable(page, "first")
    page.evaluate(DROP, list(gif.read_bytes()))
    steps.wait_until_playable(page, "second")
    steps.write_prompt(page, "A square.")
    steps.compare_again(page)
    first, second = steps.saved_trace(page, tmp_path).started.clips
    assert (first.digest, second.digest, second.frames) == (file_digest(old), file_digest(gif), 12)
    for address, sentence in {f"{web}/none.mp4": "404", "": "https:", web: "web page"}.items():
        get(page, 1, address)
        steps.wait_until_said(page, sentence)
    expect(notice).to_contain_text("another video 1:")
    steps.upload(page, "first", old)
    expect(notice).to_be_hidden()
    get(page, 2, f"{web}/odd.mkv")
    steps.wait_for(page, "a copy is shown.*Compare again")
    steps.wait_until_playable(page, "second")
    expect(notice).to_contain_text("This run judged another video 2:")
    get(page, 1, f"{web}/one.mp4")
    steps.wait_until_playable(page, "first")
    expect(steps.headline(page)).to_be_visible()
    steps.compare_again(page)
    expect(notice).to_be_hidden()
    steps.clear(page, "first")
    steps.wait_for(page, "Video 1 was removed")
    expect(notice).to_contain_text("another video 1:")


PICTURES = """(all) => all.map((tile) => [Number(tile.dataset.frames),
    [...tile.querySelectorAll("img")].map((image) => image.getAttribute("src"))])"""
"""The pictures of each frame that the judge saw, by its number, in the order of the turns."""


def test_every_way_to_a_frame_of_a_run_without_videos_leads_to_its_stills(
    page: Page, clips: Clips
) -> None:
    steps.show_example(page, 5)
    expect(page.locator("#second .vrt-still")).to_be_visible()
    seen = dict(page.locator("#trace .vrt-tile").evaluate_all(PICTURES))
    expect(page.locator(".vrt-lost")).to_contain_text("videos of this run are not kept here")
    expect(steps.button(page, "Swap sides")).to_be_disabled()
    assert steps.stills(page) == seen[min(seen)], "a run begins with its first frames"
    for position, number in list(enumerate(seen))[::3]:
        expect(steps.look(page, position)).to_contain_text("Thumbnail: the videos are gone")
        page.keyboard.press("Escape")
        assert steps.stills(page) == seen[number]
        assert f"#{number} (of 0–" in steps.moment(page)
        page.locator(".vrt-mark").nth(-1 - position).click()
        assert steps.stills(page) == list(seen.values())[-1 - position]
    page.keyboard.press("Home")
    for key, numbers in (("ArrowRight", sorted(seen)), (",", sorted(seen)[-2::-1])):
        for number in numbers:
            page.keyboard.press(key)
            assert (steps.stills(page), steps.chosen(page)) == (seen[number], str(number))
    expect_videos_to_take_the_place_of_stills(page, clips, seen)


def expect_videos_to_take_the_place_of_stills(
    page: Page, clips: Clips, seen: dict[int, list[str]]
) -> None:
    still, lost = page.locator("#first .vrt-still"), page.locator(".vrt-lost")
    page.keyboard.press("Home")
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
    steps.clear(page, "first")
    expect(still).to_be_visible()
    steps.fill(page, clips)
    expect(lost).to_be_hidden()
    steps.compare_again(page)
    steps.clear(page, "second")
    expect(page.locator("#second video")).to_have_count(0)
    assert steps.stills(page) == [None, None], "a live run has no stills"


@opened(phone=steps.PHONE)
def test_on_a_phone_a_tap_plays_and_removes_nothing(page: Page) -> None:
    """Only a video that is not at hand is a still."""
    steps.show_example(page)
    steps.wait_until_playable(page, "second")
    expect(page.locator("#first button[aria-label='Clear']")).to_be_hidden()
    for paused in (False, True):
        page.locator("#first video").tap(position={"x": 40, "y": 40})
        until_equal(lambda: steps.both(page, "video => video.paused"), [paused] * 2)
    steps.show_example(page, 4)
    expect(page.locator("#first video")).to_be_visible()
    expect(page.locator("#second .vrt-still")).to_be_visible()
    expect(page.locator(".vrt-lost")).to_be_visible()
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight / 2)")
    expect(page.locator("#second .vrt-still")).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 500})  # or enlarged to twice the size
    expect(page.locator("#players")).not_to_have_css("position", "sticky")
