"""What tests do on the page, step by step, and what they see there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.waiting import PATIENCE_S, until
from tests.ui.support.browsing import Clips, Locator, Page, expect
from tests.ui.support.saved_examples import PROMPT
from vrthinker_core.traces import from_json, to_json
from vrthinker_core.types import Trace

SIDES = ("first", "second")
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SCREENS: dict[str, dict[str, Any]] = {
    "1440": {"viewport": {"width": 1440, "height": 900}},
    "1024": {"viewport": {"width": 1024, "height": 768}},
    "390": PHONE,
}
WIDE = {"1440": SCREENS["1440"]}
SMALLER = {name: screen for name, screen in SCREENS.items() if name not in WIDE}
LIGHT: dict[str, dict[str, Any]] = {"light": {"color_scheme": "light"}}
DARK: dict[str, dict[str, Any]] = {"dark": {"color_scheme": "dark"}}
IN_VIEW = """(node) => {
    const box = node.getBoundingClientRect();
    const line = document.querySelector("#rail .vrt-line");
    const sticky = getComputedStyle(line).position === "sticky";
    const top = sticky ? Math.max(0, line.getBoundingClientRect().bottom) : 0;
    return box.height > 0 && box.top >= top - 1 && box.bottom <= innerHeight + 1;
}"""
"""Whether all of a part is in the window, and none of it below the rail where that stays."""


def wait_until_playable(page: Page, side: str) -> None:
    page.wait_for_function(
        "side => document.querySelector(`#${side} video`)?.readyState >= 2", arg=side
    )


def put(page: Page, side: str, clip: Path) -> None:
    """Choose a file for a player, whatever becomes of it."""
    page.locator(f"#{side} input[type=file]").set_input_files(str(clip))


def upload(page: Page, side: str, clip: Path) -> None:
    put(page, side, clip)
    wait_until_playable(page, side)


def clear(page: Page, side: str) -> None:
    page.locator(f"#{side} button[aria-label='Clear']").click()


def write_prompt(page: Page, text: str) -> None:
    page.locator("#prompt textarea").fill(text)


def fill(page: Page, clips: Clips, prompt: str = PROMPT) -> None:
    for side, clip in zip(SIDES, clips, strict=True):
        put(page, side, clip)
    for side in SIDES:
        wait_until_playable(page, side)
    write_prompt(page, prompt)


def video_files(page: Page) -> list[str]:
    """The last two parts of the address of each player's video."""
    read = "side => document.querySelector(`#${side} video`)?.src ?? ''"
    return ["/".join(page.evaluate(read, side).split("/")[-2:]) for side in SIDES]


def both(page: Page, read: str) -> list[Any]:
    """What a script reads of each player's video."""
    return page.evaluate(
        f"[...document.querySelectorAll('#first video, #second video')].map({read})"
    )


def moment(page: Page) -> str:
    """What the rail says of the moment that both players show."""
    return page.locator(".vrt-time").inner_text()


def status(page: Page) -> str:
    return page.locator("#status textarea").input_value()


def wait_for_judge(page: Page) -> None:
    """Wait until the server has said who judges."""
    page.wait_for_function("window.VRThinker?.trace?.introduction")


def wait_for(page: Page, pattern: str) -> None:
    """Until the page's status line says that, and what it says of is shown."""
    end = time.monotonic() + PATIENCE_S
    while not re.search(pattern, said := status(page)):
        assert time.monotonic() < end, f"{pattern!r} does not come; the page says {said!r}"
        page.wait_for_timeout(30)
    page.wait_for_function("!VRThinker.trace.held")


SAID = "pattern => window.statusSaid.some(text => RegExp(pattern).test(text))"


def said(page: Page, pattern: str) -> bool:
    """Whether the status line has ever said that."""
    return bool(page.evaluate(SAID, pattern))


def wait_until_said(page: Page, pattern: str) -> None:
    """Until the status line has said that, be it gone again since."""
    page.wait_for_function(SAID, arg=pattern)


def start(page: Page, clips: Clips, prompt: str = PROMPT) -> None:
    fill(page, clips, prompt)
    page.locator("#go").click()


def begin(page: Page, clips: Clips) -> None:
    """Start a run, and wait until its judge writes."""
    start(page, clips)
    wait_for(page, "writing")


def compare(page: Page, clips: Clips, prompt: str = PROMPT) -> None:
    """Start a run, and wait for its end."""
    start(page, clips, prompt)
    wait_until_over(page)


def wait_until_over(page: Page) -> None:
    """Until the run has ended with an answer, and another one may begin."""
    wait_for(page, "^Finished")
    expect(page.locator("#go")).to_be_visible()


def compare_again(page: Page) -> None:
    """Press Compare, and wait for the end of that run."""
    page.evaluate("statusSaid.length = 0")
    page.locator("#go").click()
    wait_until_said(page, "^(Waiting|Opening|Turn 1 of)")
    wait_until_over(page)


def expect_running(page: Page) -> None:
    expect(page.locator("#stop")).to_be_visible()
    expect(page.locator("#go")).to_be_hidden()


def expect_idle(page: Page) -> None:
    expect(page.locator("#go")).to_be_visible()
    expect(page.locator("#stop")).to_be_hidden()


def stop(page: Page) -> None:
    page.locator("#stop").click()
    wait_for(page, "^Stopped")
    expect(page.locator("#go")).to_be_visible()


def changed(page: Page) -> Locator:
    """The notice that players and prompt are no longer those of the run."""
    return page.locator(".vrt-changed")


def place_while_the_judge_writes(page: Page) -> float:
    """Where the page stands, once it does, and where 200 more letters leave it."""
    until(lambda: stays(page, lambda: page.evaluate("scrollY")))
    before, text = page.evaluate("scrollY"), turns(page).last.locator(".vrt-text").last
    length = len(text.inner_text())
    until(lambda: page.wait_for_timeout(30) or len(text.inner_text()) > length + 200)
    assert page.evaluate("scrollY") == before
    return float(before)


def headline(page: Page) -> Locator:
    return page.locator(".vrt-headline")


def turns(page: Page) -> Locator:
    return page.locator("#trace .vrt-turn")


def stills(page: Page) -> list[str | None]:
    """The picture that each player shows in place of a video; None where it shows none."""
    stills = [page.locator(f"#{side} .vrt-still") for side in SIDES]
    return [one.locator("img").get_attribute("src") if one.is_visible() else None for one in stills]


def chosen(page: Page, part: str = "#trace") -> str | None:
    """The numbers of the frame whose tile is marked as the one that the players show."""
    return page.locator(f"{part} .vrt-tile[aria-current]").get_attribute("data-frames")


def look(page: Page, position: int = 0, part: str = "#trace") -> Locator:
    """A closer look at the pair on that tile."""
    page.locator(f"{part} .vrt-tile").nth(position).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    return page.get_by_role("dialog")


def trace_text(page: Page) -> str:
    """The whole text of the trace, without the progress that Gradio lays over it, unseen, while an event goes on."""
    return page.locator("#trace .html-container").inner_text()


def button(place: Page | Locator, name: str, *, exact: bool = False) -> Locator:
    return place.get_by_role("button", name=name, exact=exact)


def tab(page: Page, name: str) -> None:
    """Open a tab. Gradio lays its tabs out once more soon after the page is drawn, and then takes no click."""
    button = page.get_by_role("tab", name=name).first

    def opened() -> bool:
        button.click()
        page.wait_for_timeout(50)
        return button.get_attribute("aria-selected") == "true"

    until(opened)


def expect_runs(page: Page, *outcomes: str) -> None:
    """Open the list of own runs, and wait until it says this, of the newest first."""
    tab(page, "History")
    expect(page.locator(".vrt-runs b")).to_have_text(list(outcomes))


RECORDED = "^Recorded run"
"""What the status line says of a saved run."""


def play_example(page: Page, number: int = 0) -> Locator:
    """Click a card, and wait until its run is played; return the bar with which that is led."""
    card = page.locator(".vrt-card").nth(number)
    if not card.is_visible():  # an edge case
        page.locator(".vrt-examples summary").last.click()
    card.click()
    bar = page.get_by_role("group", name="Recorded run")
    expect(bar).to_be_visible()
    return bar


def show_example(page: Page, number: int = 0) -> None:
    """Click a card, and skip to the end of its run."""
    button(play_example(page, number), "Skip to the end").click()
    expect(headline(page)).to_be_attached()
    expect(page.locator("#status textarea")).to_have_value(re.compile(RECORDED))


def open_share(page: Page) -> None:
    """Open the menu beside the headline."""
    tab(page, "Thinking")
    if not page.get_by_role("link", name="Trace").is_visible():
        page.locator(".vrt-send summary").click()


def link(page: Page) -> str:
    open_share(page)
    page.get_by_role("button", name="Copy link").click()
    field = page.get_by_label("Link to this run")
    expect(field).to_have_value(re.compile("trace="))
    return field.input_value()


def saved(page: Page, path: Path, what: str = "Trace") -> Path:
    open_share(page)
    with page.expect_download() as download:
        page.get_by_role("link", name=what).click()
    download.value.save_as(path)
    return path


def open_trace(page: Page, path: Path) -> None:
    tab(page, "History")
    with page.expect_file_chooser() as chooser:
        page.locator("#open").click()
    chooser.value.set_files(str(path))


def saved_trace(page: Page, folder: Path) -> Trace:
    """The trace of the run that is shown, as it is saved in that folder as `trace.json`."""
    return from_json(saved(page, folder / "trace.json").read_bytes())


def replay(page: Page, path: Path, trace: Trace | None = None) -> None:
    """Open a trace, which is first written to that path where it is given, and wait until its run is shown."""
    if trace:
        path.write_bytes(to_json(trace))
    open_trace(page, path)
    wait_for(page, RECORDED)
    tab(page, "Thinking")


def exact_messages(turn: Locator) -> Locator:
    """What was sent and came back in a turn, unfolded in its place."""
    turn.locator(".vrt-exact summary").click()
    return turn.locator(".vrt-exact pre")


def open_settings(page: Page, more: bool = False) -> None:
    parts = [("#settings", "#swap"), ("#more-settings", "#temperature")]
    for part, field in parts[: 2 if more else 1]:
        page.locator(f"{part} button").first.click()
        expect(page.locator(f"{field} input")).to_be_visible()


def judge_row(page: Page, title: str) -> Locator:
    """The row of a judge in the dialog that is open."""
    heading = page.get_by_role("heading", name=title, exact=True)
    return page.get_by_role("dialog").locator("li").filter(has=heading)


def choose_judge(page: Page, title: str) -> None:
    chip = page.locator(".vrt-judge-chip")
    expect(chip).to_contain_text("Judge: ")  # the server has said which there are
    chip.click()
    button(judge_row(page, title), title).click()
    expect(page.get_by_role("dialog")).to_be_hidden()


def choose(page: Page, name: str, value: str) -> None:
    page.locator(f"#{name} input").click()
    page.get_by_role("option", name=value, exact=True).click()


def wait_until_in_view(*parts: Locator) -> None:
    """Until all of each part is in sight at the same time."""
    until(lambda: all(part.evaluate(IN_VIEW) for part in parts))


LAST_WORD = """() => {
    const range = document.createRange();
    const written = [...document.querySelectorAll("#trace .vrt-turn .vrt-text p")];
    const words = written.filter((node) => node.textContent && node.checkVisibility()).at(-1);
    if (!words) return false;
    range.selectNodeContents(words);
    const last = [...range.getClientRects()].at(-1);
    const at = document.elementFromPoint(last.right - 2, (last.top + last.bottom) / 2);
    return last.top >= 0 && last.bottom <= innerHeight && Boolean(at?.closest(".vrt-text"));
}"""


def wait_until_last_word(page: Page) -> None:
    """Until the last word that the judge wrote is in sight, and nothing lies over it."""
    until(lambda: page.evaluate(LAST_WORD))


def is_narrow(page: Page) -> bool:
    return page.viewport_size["width"] < 500


def fits(page: Page) -> bool:
    """Whether the page is no wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def fits_a_phone(page: Page) -> bool:
    """The same, once its window is that of a phone."""
    page.set_viewport_size(PHONE["viewport"])
    return fits(page)


def stays(page: Page, read: Callable[[], object], milliseconds: int = 500) -> bool:
    """Whether what is read is the same all that time: for what must not come, there is nothing to wait for."""
    before, end = read(), time.monotonic() + milliseconds / 1000
    while (same := read() == before) and time.monotonic() < end:
        page.wait_for_timeout(50)
    return same


def serious_violations(page: Page, axe: str) -> list[str]:
    page.evaluate(f"window.axe || {axe}")
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {node['html'][:200]}" for each in serious for node in each["nodes"]]
