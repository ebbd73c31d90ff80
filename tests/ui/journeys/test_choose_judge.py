"""The chip beside Compare and its dialog: a judge with a visitor's key, from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.fake_hosts import KEY, openai_host
from tests.support.faulty_server import FaultyServer
from tests.ui.conftest import ROOT
from tests.ui.support import steps
from tests.ui.support.browsing import (
    PHONE,
    Clips,
    Locator,
    Page,
    Server,
    expect,
    opened,
    write_script,
)
from tests.ui.support.saved_examples import ANSWER

ELSEWHERE = """
import json, os
from dataclasses import replace
from vrthinker_core.backends.hosted import HOSTS
for kind, url in json.loads(os.environ["HOSTS_OF_THIS_TEST"]).items():
    HOSTS[kind] = replace(HOSTS[kind], url=url)
"""
"""Puts the test's own host in the place of the real one, in a server of its own."""


@pytest.fixture(scope="module")
def host() -> Iterator[FaultyServer]:
    with openai_host() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, host: FaultyServer) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("chooser")
    (code := folder / "code").mkdir()
    (code / "sitecustomize.py").write_text(ELSEWHERE)
    script = write_script(folder / "script.jsonl", [ANSWER], protocol="paired")
    variables = {
        "PYTHONPATH": f"{code}:{ROOT}",
        "HOSTS_OF_THIS_TEST": json.dumps({"openai": host.url}),
        "HF_HOME": str(folder / "hub"),
    }
    running = Server(folder, script, "--judge", "nano", variables=variables)
    yield running
    running.stop()


def chip(page: Page) -> Locator:
    return page.locator(".vrt-judge-chip span").first


def open_dialog(page: Page) -> Locator:
    page.locator(".vrt-judge-chip").click()
    expect(page.get_by_role("dialog").get_by_role("heading", name="OpenAI")).to_be_visible()
    return page.get_by_role("dialog")


def use(page: Page, model: str, key: str) -> None:
    row = steps.judge_row(page, "OpenAI")
    row.get_by_label("Model, OpenAI").fill(model)
    row.get_by_label("Key, OpenAI", exact=True).fill(key)
    row.get_by_label("Key, OpenAI", exact=True).press("Enter")


def test_a_key_reaches_its_host_and_nothing_else(
    page: Page, server: Server, host: FaultyServer, clips: Clips, tmp_path: Path
) -> None:
    answers: list[str] = []

    def keep(response: object) -> None:
        with suppress(Exception):  # some answers have no body, or none any more
            answers.append(response.text())  # type: ignore[attr-defined]

    page.on("requestfinished", lambda request: keep(request.response()))
    dialog = open_dialog(page)
    use(page, "gpt-5.2", "sk-wrong-0123456789")
    expect(dialog.get_by_role("alert")).to_contain_text("does not accept the key in the field Key")
    expect(steps.judge_row(page, "OpenAI").get_by_label("Key, OpenAI", exact=True)).to_have_value(
        ""
    )
    use(page, "gpt-5.2", KEY)
    expect(dialog).to_be_hidden()
    expect(page.locator(".vrt-judge-chip")).to_be_focused()
    expect(chip(page)).to_have_text("Judge: gpt-5.2")
    steps.compare(page, clips)
    assert host.keys[-1] == f"Bearer {KEY}"
    asked = len(host.bodies)
    saved = steps.saved(page, tmp_path / "trace.json").read_text()
    report = steps.saved(page, tmp_path / "report.html", "Report (.html)").read_text()
    steps.link(page)
    steps.tab(page, "History")
    expect(page.locator(".vrt-runs b").first).to_be_visible()
    stored = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )
    seen = [saved, report, stored, page.content(), page.url, server.log.read_text(), *answers]
    assert len(answers) > 20
    assert not [each[:200] for each in seen if KEY in each]
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    assert any(path.name == "trace.json" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    open_dialog(page)
    expect(steps.judge_row(page, "OpenAI").get_by_label("Key, OpenAI", exact=True)).to_be_hidden()
    steps.button(dialog, "Forget key").click()
    expect(steps.judge_row(page, "OpenAI").get_by_label("Key, OpenAI", exact=True)).to_be_visible()
    expect(chip(page)).to_have_text("Judge: script")
    page.keyboard.press("Escape")
    steps.compare_again(page)
    assert len(host.bodies) == asked
    assert KEY not in server.log.read_text()


@opened(desktop={}, phone=PHONE)
def test_the_dialog_says_five_things_and_gives_the_focus_back(page: Page, axe: str) -> None:
    opener = page.locator(".vrt-judge-chip")
    dialog = open_dialog(page)
    box, size = dialog.bounding_box(), page.viewport_size
    assert (box["x"] + box["width"], box["height"]) == (size["width"], size["height"])
    assert (box["width"] < size["width"]) == (size["width"] >= 1100)
    for row in ("Demo judge", "script", "OpenAI", "Gemini", "OpenRouter", "Hugging Face"):
        facts = steps.judge_row(page, row).locator(".vrt-judge-facts li")
        expect(facts).to_have_count(5)
    assert not steps.serious_violations(page, axe)
    assert dialog.evaluate("node => node.scrollWidth <= node.clientWidth")
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()
    page.evaluate("VRThinker.chooseJudge()")
    expect(dialog).to_be_visible()
    steps.button(steps.judge_row(page, "Demo judge"), "Demo judge").click()
    expect(dialog).to_be_hidden()
    expect(chip(page)).to_have_text("Judge: Demo")
    expect(page.locator("#go")).to_be_focused()
    assert steps.fits(page)
