"""The endpoints as programs and the README use them: gradio_client and plain HTTP, against a real server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from gradio_client import handle_file
from gradio_client.utils import python_type_to_json_schema

from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Clips, Serve, Server
from tests.ui.support.api import (
    answers,
    begin,
    check_refused,
    client,
    file,
    messages,
    upload,
    uploaded,
)
from tests.ui.support.saved_examples import PROMPT
from vrthinker_core import __version__
from vrthinker_core.types.settings import SETTINGS
from vrthinker_core.ui.api_json import HealthJson, RunJson

LOOK = '<think>The block jumps.</think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 60, 200]}}</tool_call>'
END = "<Snapshot>Steady.</Snapshot><Think>Video 1 is steadier.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve([LOOK, END], pause=0.02)


@pytest.fixture(scope="module")
def endless(serve: Serve) -> Server:
    return serve(["on and on " * 4000], pause=0.02)


def check_run(items: list[dict[str, Any]], prompt: str = PROMPT) -> None:
    assert len(items) > 2, "no item came before the last one"
    assert all(item["stop"] is None for item in items if item != items[-1])
    counts = [len(item["turns"]) for item in items]
    assert counts == sorted(counts)
    last = items[-1]
    assert (last["stop"], last["labels"]) == ("answered", {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1})
    assert (last["provisional"], last["forced"], last["error"]) == (False, False, "")
    assert (last["judge"], last["protocol"], last["prompt"]) == ("script", "paired", prompt)
    first, second = last["turns"]
    assert first["requested"] == [10, 60]
    assert first["remarks"] == ["1 request ignored, no such frame: 200."]
    assert (second["snapshot"], second["think"], second["text"]) == (
        "Steady.",
        "Video 1 is steadier.",
        END,
    )
    shown = [(frame["video"], frame["number"], frame["index"]) for frame in second["frames"]]
    assert sorted(shown) == [(1, "10", 3), (1, "60", 22), (2, "10", 2), (2, "60", 14)]
    assert "jpeg" not in json.dumps(items)


def test_a_run_through_gradio_client(server: Server, clips: Clips) -> None:
    one, two = clips
    api = client(server)
    job = api.submit(handle_file(one), handle_file(two), PROMPT, api_name="/compare")
    check_run(list(job))
    check_run(job.outputs())
    assert (
        api.predict(handle_file(one), handle_file(two), prompt=PROMPT, api_name="/compare")["stop"]
        == "answered"
    )


def test_a_run_through_plain_http(server: Server, clips: Clips) -> None:
    check_run(answers(server, *uploaded(server, clips), PROMPT))


@pytest.mark.parametrize("swap", ["on", True])
def test_both_orders(server: Server, clips: Clips, swap: object) -> None:
    items = answers(server, *uploaded(server, clips), PROMPT, "", {"swap": swap})
    first = [item for item in items if item["swapped"] is None]
    assert any(
        item["labels"] and item["swapped"]["stop"] is None for item in items[len(first) :]
    ), "the first verdict comes at once"
    last = items[-1]
    assert (last["stop"], last["labels"]) == ("answered", {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1})
    second = last["swapped"]
    assert (second["stop"], second["unchecked"]) == ("answered", "")
    assert second["labels"] == {"TA": 2, "MQ": 0, "VQ": 1, "OA": 2}
    assert second["order"] == {"TA": "flips", "MQ": "stable", "VQ": "flips", "OA": "flips"}
    assert [turn["number"] for turn in second["turns"]] == [1, 2]


def test_health(server: Server) -> None:
    found = client(server).predict(api_name="/health")
    assert found.pop("version") == __version__
    assert [setting["name"] for setting in found.pop("settings")] == [row.name for row in SETTINGS]
    assert found == {
        "status": "ready",
        "judge": "script",
        "protocol": "paired",
        "notes": ["A script replies, not a model."],
        "error": "",
        "judges": [{"name": "script", "status": "ready", "error": ""}],
        "judging": 0,
        "waiting": 0,
    }


def test_only_these_endpoints_are_offered(server: Server) -> None:
    info: Any = client(server).view_api(return_format="dict", print_info=False)
    assert list(info["named_endpoints"]) == ["/compare", "/health"]
    assert not info["unnamed_endpoints"]
    names = [value["parameter_name"] for value in info["named_endpoints"]["/compare"]["parameters"]]
    assert names == ["video1", "video2", "prompt", "judge", "settings"]


@pytest.mark.parametrize(("name", "shape"), [("compare", RunJson), ("health", HealthJson)])
def test_the_shape_of_every_answer_is_shown(name: str, shape: type, server: Server) -> None:
    info: Any = client(server).view_api(return_format="dict", print_info=False)
    (value,) = info["named_endpoints"][f"/{name}"]["returns"]
    assert value["type"] == python_type_to_json_schema(shape)
    assert value["type"]["required"] == list(get_type_hints(shape))
    assert value["python_type"]["type"].startswith("dict(status: str, ")


def test_bad_input_is_a_sentence(server: Server, clips: Clips, tmp_path: Path) -> None:
    text_file = tmp_path / "words.mp4"
    text_file.write_text("no video at all\n" * 9)
    one, two = uploaded(server, clips)
    check_refused(answers(server, one, two, "  ")[-1], "prompt is empty")
    check_refused(answers(server, one, two, 7)[-1], "prompt must be a text")
    check_refused(answers(server, one, two, "word " * 9000)[-1], "characters")
    check_refused(
        answers(server, one, file(upload(server, text_file)), PROMPT)[-1],
        "Video 2: words.mp4 is a text file",
    )
    for no_video in (None, "", 7, [], {}, {"path": None}, {"path": ""}, "a\0b"):
        check_refused(answers(server, no_video, two, PROMPT)[-1], "Video 1 is no uploaded file.")


# -- several clients -----------------------------------------------------------------------------------------------------


def test_runs_of_several_clients_never_mix(server: Server, clips: Clips) -> None:
    """Nor do two calls of one client at the same time."""
    files = uploaded(server, clips)
    found: dict[str, list[dict[str, Any]]] = {}

    def call(prompt: str) -> None:
        found[prompt] = answers(server, *files, prompt)

    prompts = [f"Prompt number {number}." for number in range(4)]
    threads = [threading.Thread(target=call, args=(prompt,)) for prompt in prompts]
    for thread in threads:
        thread.start()
    api = client(server)
    jobs = [
        api.submit(*map(handle_file, clips), prompt, api_name="/compare")
        for prompt in ("Fifth.", "Sixth.")
    ]
    for thread in threads:
        thread.join(PATIENCE_S)
    for prompt in prompts:
        check_run(found[prompt], prompt)
    for job, prompt in zip(jobs, ("Fifth.", "Sixth."), strict=True):
        check_run(list(job), prompt)


def test_clients_wait_for_one_judge_and_a_disconnect_frees_it(
    endless: Server, clips: Clips
) -> None:
    api = client(endless)
    (folder,) = endless.folder.glob("vr-thinker-page-*")

    def queue_sizes() -> tuple[int, int]:
        found = api.predict(api_name="/health")
        return found["judging"], found["waiting"]

    one, two = uploaded(endless, clips)
    first = messages(begin(endless, one, two, PROMPT))
    until(lambda: next(first)[1][0]["turns"])
    second = messages(begin(endless, one, two, "Another prompt."))
    until(lambda: queue_sizes() == (1, 1))
    first.close()
    until(lambda: next(second)[1][0]["turns"])
    assert queue_sizes() == (1, 0)
    second.close()
    until(lambda: queue_sizes() == (0, 0))
    until(lambda: not any((folder / "records").iterdir()))


README = Path(__file__).resolve().parents[3] / "vrthinker_core" / "ui" / "README.md"
SECTION = README.read_text("utf-8").split("\n## ", 1)[0]
BLOCKS = dict(re.findall(r"^```(python|bash)\n(.*?)^```", SECTION, re.S | re.M))


def run(command: list[str], server: Server, clips: tuple[Path, Path], folder: Path) -> str:
    for clip, name in zip(clips, ("one.mp4", "two.mp4"), strict=True):
        shutil.copy(clip, folder / name)
    script = command[-1].replace("http://127.0.0.1:7860", server.url.rstrip("/"))
    done = subprocess.run(
        [*command[:-1], script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_client(server: Server, clips: tuple[Path, Path], tmp_path: Path) -> None:
    printed = run([sys.executable, "-c", BLOCKS["python"]], server, clips, tmp_path)
    assert (
        printed.splitlines()[-1] == "answered {'TA': 1, 'MQ': 0, 'VQ': 2, 'OA': 1} [[10, 60], []]"
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(server: Server, clips: tuple[Path, Path], tmp_path: Path) -> None:
    printed = run(["bash", "-c", BLOCKS["bash"]], server, clips, tmp_path)
    assert '"stop": "answered"' in printed
    assert '"OA": 1' in printed
