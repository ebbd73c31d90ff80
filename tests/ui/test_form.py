"""What the page's form takes besides videos and prompt, from a browser and from programs: judge, settings, web addresses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio_client.exceptions
import pytest
from gradio_client import handle_file

from tests.support.loopback_server import serving_files
from tests.support.small_clips import write_clip
from tests.support.waiting import until
from tests.ui.conftest import Clips, Serve, Server, write_script
from tests.ui.support.api import answers, check_refused, client, uploaded
from tests.ui.support.page_events import act, compare_inputs, comparing, config
from tests.ui.support.saved_examples import ANSWER, PROMPT
from vrthinker_core.types.settings import SETTINGS
from vrthinker_core.ui.layout import choices, default_value, help_text

SECOND = "<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"
LABELS = {
    "script": {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1},
    "second": {"TA": 2, "MQ": 2, "VQ": 2, "OA": 2},
}


@pytest.fixture(scope="module")
def server(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Two judges with different verdicts, and one that cannot be opened."""
    folder = tmp_path_factory.mktemp("judges")
    second = write_script(folder / "second.jsonl", [SECOND], protocol="paired")
    judges = ("--judge", second, "--judge", f"hf:{folder}/missing")
    return serve([ANSWER], *judges, "--local-addresses", protocol="paired")


def test_health_lists_every_judge(server: Server) -> None:
    def found() -> dict[str, Any]:
        return dict(client(server).predict(api_name="/health"))

    until(lambda: all(judge["status"] != "loading" for judge in found()["judges"]))
    assert (found()["status"], found()["judge"], found()["error"]) == ("ready", "script", "")
    assert found()["judges"] == [
        {"name": "script", "status": "ready", "error": ""},
        {"name": "second", "status": "ready", "error": ""},
        {"name": "missing", "status": "no judge", "error": "There is no folder missing."},
    ]


def test_a_program_chooses_a_judge_by_name(server: Server, clips: Clips) -> None:
    files, script = uploaded(server, clips), "script"
    for name, judge in (("", script), (None, script), (script, script), ("second", "second")):
        item = answers(server, *files, PROMPT, name)[-1]
        assert (item["stop"], item["judge"], item["labels"]) == ("answered", judge, LABELS[judge])
    named = client(server).predict(*files, prompt=PROMPT, judge="second", api_name="/compare")
    assert named["judge"] == "second"
    refused = {
        "oracle": "There is no judge 'oracle' here. Choose script, second, missing",
        "missing": "There is no folder missing.",
    }
    for name, words in refused.items():
        check_refused(answers(server, *files, PROMPT, name)[-1], words)
    check_refused(answers(server, *files, PROMPT, ["second"])[-1], "There is no judge")


def test_a_browser_cannot_choose_a_judge_that_is_not_offered(server: Server, clips: Clips) -> None:
    event, inputs = comparing(server)
    values = [*uploaded(server, clips), PROMPT, "oracle", *[None] * (inputs - 4)]
    refused = act(server, event, values)
    assert "error" not in refused
    assert "oracle" in refused["data"][0]
    page = config(server)
    (judge,) = (
        part["id"] for part in page["components"] if part["props"].get("elem_id") == "judge"
    )
    (choosing,) = (event for event in page["dependencies"] if event["inputs"] == [judge])
    chosen = act(server, choosing["id"], ["oracle"])
    assert "error" not in chosen
    assert "oracle" not in json.dumps(chosen)


def test_the_config_contains_no_path_of_a_judge(server: Server) -> None:
    text = json.dumps(config(server))
    assert all(name in text for name in ("script", "second", "missing"))
    assert "/missing" not in text
    assert ".jsonl" not in text


def test_a_comparison_takes_videos_prompt_judge_and_every_setting(server: Server) -> None:
    parts = {part.get("elem_id"): part for part in compare_inputs(server)}
    names = ["first", "second", "prompt", "judge", *(row.name for row in SETTINGS)]
    assert sorted(parts) == sorted(names)
    for part, row in ((parts[row.name], row) for row in SETTINGS):
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
    assert found["data"][0].startswith('Not started. The setting "Temperature" must ')
    assert "ending" not in found["data"][1], "what is shown stays as it is"


def test_programs_may_name_web_addresses(server: Server, tmp_path: Path) -> None:
    for name in ("one.mp4", "odd.mkv"):
        write_clip(tmp_path / name, 24)
    with serving_files(tmp_path) as web:
        first, second, none = (
            handle_file(f"{web}/{name}") for name in ("one.mp4", "odd.mkv", "none.mp4")
        )
        result = client(server).predict(first, second, PROMPT, api_name="/compare")
        assert (result["stop"], result["labels"]["OA"]) == ("answered", 1)
        with pytest.raises(gradio_client.exceptions.AppError, match="404"):
            client(server).predict(first, none, PROMPT, api_name="/compare")
