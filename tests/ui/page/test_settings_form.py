"""The settings on the page: every row of the table is there, and what is chosen or typed reaches the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Serve, Server
from tests.ui.support.api import uploaded
from tests.ui.support.browsing import Clips, Open, Page, expect
from tests.ui.support.page_events import act, comparing, config
from tests.ui.support.saved_examples import PROMPT
from tests.ui.support.steps import choose, saved, start, status, tab, wait_for
from vrthinker_core.traces import from_json
from vrthinker_core.types.settings import SETTINGS
from vrthinker_core.ui.settings_form import choices, default_value, help_text


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve(
        ["<Think>It glides.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"], protocol="paired"
    )


def compare_inputs(server: Server) -> list[dict[str, Any]]:
    """The components whose values a comparison takes."""
    parts = {part["id"]: part["props"] for part in config(server)["components"]}
    event, _ = comparing(server)
    (inputs,) = (
        found["inputs"] for found in config(server)["dependencies"] if found["id"] == event
    )
    return [parts[part] for part in inputs]


def open_settings(page: Page) -> None:
    for part, field in (("#settings", "#window"), ("#more-settings", "#temperature")):
        page.locator(f"{part} button").first.click()
        expect(page.locator(f"{field} input")).to_be_visible()


def write(page: Page, name: str, text: str) -> None:
    """Type a value. Gradio lays a part that was just opened out once more, and then forgets what was typed into it before."""
    field = page.locator(f"#{name} input")

    def stays() -> bool:
        field.fill(text)
        field.press("Tab")
        page.wait_for_timeout(100)
        return not text or field.input_value() == text

    until(stays)


# -- in the browser ------------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_settings_that_are_chosen_or_typed_reach_the_run(
    server: Server, open_page: Open, clips: Clips, tmp_path: Path
) -> None:
    page = open_page(server.url)
    open_settings(page)
    write(page, "temperature", "2.5")
    start(page, clips)
    wait_for(page, "Temperature")
    assert status(page) == 'The setting "Temperature" must lie between 0 and 2; it is 2.5.'
    expect(page.locator(".vrt-intro")).to_have_count(1)
    choose(page, "temperature", "0.7")
    write(page, "seed", "2")
    write(page, "max_new_tokens", "409")
    write(page, "window", "Keep everything")
    choose(page, "fit", "Letterboxed")
    page.locator("#go").click()
    wait_for(page, "Finished")
    found = from_json(saved(page, tmp_path / "trace.json").read_bytes()).started.settings
    assert (found.temperature, found.seed, found.max_new_tokens) == (0.7, 2, 409)
    assert (found.window, found.fit, found.protocol) == ("all", "letterbox", "paired")
    choose(page, "protocol", "concat")
    page.locator("#go").click()
    wait_for(page, "Failed")
    tab(page, "Trace")
    ending = page.locator(".vrt-ending")
    expect(ending).to_contain_text("trained for the protocol paired, not for concat")


@pytest.mark.browser
def test_open_settings_stand_below_the_players_and_can_be_reached(
    server: Server, open_page: Open
) -> None:
    page = open_page(server.url, viewport={"width": 1280, "height": 720})
    open_settings(page)
    bench = page.locator("#bench")
    assert bench.evaluate("node => node.scrollWidth === node.clientWidth")
    left = "node => node.getBoundingClientRect().left"
    assert page.locator("#settings").evaluate(left) == pytest.approx(bench.evaluate(left), abs=16)
    for part in ("#players", "#more-settings > :last-child", "#judge input"):
        page.locator(part).scroll_into_view_if_needed()
        expect(page.locator(part)).to_be_in_viewport()


# -- from a program ------------------------------------------------------------------------------------------------------


def test_a_comparison_takes_videos_prompt_judge_and_every_setting(server: Server) -> None:
    parts = compare_inputs(server)
    names = [part.get("elem_id") for part in parts]
    assert names == ["first", "second", "prompt", "judge", *(row.name for row in SETTINGS)]
    for part, row in zip(parts[4:], SETTINGS, strict=True):
        told = (part["label"], part["info"], part["value"])
        assert told == (row.label, help_text(row), default_value(row))
        assert [tuple(choice) for choice in part["choices"]] == choices(row)
        assert part["allow_custom_value"] == (row.number is not None)


@pytest.mark.parametrize("value", ["hot", ["0.7"], {"a": 1}, True, -1, 1e300, "9" * 400])
def test_what_a_browser_cannot_send_is_one_sentence(
    server: Server, clips: Clips, value: object
) -> None:
    event, inputs = comparing(server)
    values = [*uploaded(server, clips), PROMPT, *[None] * (inputs - 3)]
    position = [part.get("elem_id") for part in compare_inputs(server)].index("temperature")
    values[position] = value
    found = act(server, event, values)
    assert "error" not in found
    assert found["data"][0].startswith('The setting "Temperature" must ')
    assert "ending" not in found["data"][1], "what is shown stays as it is"
