"""What tests do on the page, step by step."""

import re
import time
from pathlib import Path

from tests.support.waiting import PATIENCE_S, until
from tests.ui.support.browsing import Clips, Page, expect
from tests.ui.support.saved_examples import PROMPT

PLAYABLE = "name => document.querySelector(`#${name} video`)?.readyState >= 1"


def fill(page: Page, clips: Clips, prompt: str = PROMPT) -> None:
    for name, clip in zip(("first", "second"), clips, strict=True):
        page.locator(f"#{name} input[type=file]").set_input_files(str(clip))
    for name in ("first", "second"):
        page.wait_for_function(PLAYABLE, arg=name)
    page.locator("#prompt textarea").fill(prompt)


def status(page: Page) -> str:
    return page.locator("#status textarea").input_value()


def wait_for(page: Page, pattern: str) -> None:
    """Until the page's status line says that."""
    end = time.monotonic() + PATIENCE_S
    while not re.search(pattern, said := status(page)):
        assert time.monotonic() < end, f"not {pattern!r} in time; the page says {said!r}"
        page.wait_for_timeout(30)


def wait_until_said(page: Page, pattern: str) -> None:
    """Until the status line has said that, be it gone again since."""
    said = "pattern => window.statusSaid.some(text => RegExp(pattern).test(text))"
    page.wait_for_function(said, arg=pattern)


def start(page: Page, clips: Clips) -> None:
    fill(page, clips)
    page.locator("#go").click()


def tab(page: Page, name: str) -> None:
    """Open a tab: Gradio lays its tabs out again soon after drawing, and then takes no click."""
    button = page.get_by_role("tab", name=name).first

    def opened() -> bool:
        button.click()
        page.wait_for_timeout(50)
        return button.get_attribute("aria-selected") == "true"

    until(opened)


def video_files(page: Page) -> list[str]:
    source = "(document.querySelector(`#${name} video`)?.src || '').split('/').slice(-2).join('/')"
    return page.evaluate(f"['first', 'second'].map(name => {source})")


def trace_text(page: Page) -> str:
    """The text of the trace, without the progress that Gradio lays over it, unseen."""
    return page.locator("#trace .html-container").inner_text()


def show_example(page: Page, number: int = 0) -> None:
    page.locator(".vrt-card").nth(number).click()
    expect(page.locator(".vrt-headline")).to_be_attached()
    expect(page.locator("#status textarea")).to_have_value(re.compile("^Replaying a saved trace"))


def link(page: Page) -> str:
    tab(page, "Save and share")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".vrt-link")).to_have_value(re.compile("trace="))
    return page.locator(".vrt-link").input_value()


def saved(page: Page, path: Path, what: str = "Trace (.json)") -> Path:
    tab(page, "Save and share")
    with page.expect_download() as download:
        page.get_by_role("link", name=what).click()
    download.value.save_as(path)
    return path


def open_trace(page: Page, path: Path) -> None:
    tab(page, "Save and share")
    with page.expect_file_chooser() as chooser:
        page.locator("#open").click()
    chooser.value.set_files(str(path))


def choose(page: Page, name: str, value: str) -> None:
    page.locator(f"#{name} input").click()
    page.get_by_role("option", name=value, exact=True).click()


def serious_violations(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {node['html'][:200]}" for each in serious for node in each["nodes"]]
