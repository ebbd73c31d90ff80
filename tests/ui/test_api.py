"""The endpoints as programs use them: through gradio_client and through plain HTTP, against a real server."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gradio_client import Client, handle_file

from tests.ui import runs
from tests.ui.conftest import Server
from vrthinker_core.errors import CheckpointError
from vrthinker_core.events import Finished, StopReason, Trace
from vrthinker_core.types import Preference, Verdict
from vrthinker_core.ui.inputs import NOT_UPLOADED
from vrthinker_core.ui.telling import refused, told
from vrthinker_core.ui.view import State, fold_all

LOOK = (
    '<think>The block jumps.</think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 60, 200]}}</tool_call>'
)
END = "<Snapshot>Steady.</Snapshot><Think>Video 1 is steadier.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
PROMPT = "A white block glides to the right."
META = {"_type": "gradio.FileData"}
Clips = tuple[Path, Path]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve([LOOK, END])


@pytest.fixture(scope="module")
def endless(serve: Callable[..., Server]) -> Server:
    return serve(["on and on " * 4000], pause=0.02)


def client(server: Server) -> Client:
    return Client(server.url, verbose=False, analytics_enabled=False)


# -- plain HTTP ----------------------------------------------------------------------------------------------------------


def post(server: Server, path: str, body: bytes, kind: str) -> Any:
    request = urllib.request.Request(f"{server.url}gradio_api/{path}", body, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())


def upload(server: Server, clip: Path) -> str:
    """What `curl -F files=@clip.mp4` sends."""
    line = uuid.uuid4().hex
    head = f'--{line}\r\nContent-Disposition: form-data; name="files"; filename="{clip.name}"\r\n\r\n'
    body = head.encode() + clip.read_bytes() + f"\r\n--{line}--\r\n".encode()
    (path,) = post(server, "upload", body, f"multipart/form-data; boundary={line}")
    return str(path)


def begin(server: Server, *values: object) -> str:
    answer = post(server, "call/compare", json.dumps({"data": values}).encode(), "application/json")
    return f"{server.url}gradio_api/call/compare/{answer['event_id']}"


def messages(url: str) -> Iterator[tuple[str, Any]]:
    """(event, data) of a stream, as `curl -N` prints it, without the heartbeats of a long wait."""
    event = ""
    with urllib.request.urlopen(url, timeout=60) as response:
        for line in response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name == "event":
                event = value
            elif name == "data" and event != "heartbeat":
                yield event, json.loads(value)


def answers(server: Server, *values: object) -> list[dict[str, Any]]:
    return [data[0] for event, data in messages(begin(server, *values)) if event in ("generating", "complete") and data]


def file(path: str) -> dict[str, Any]:
    return {"path": path, "meta": META}


def uploaded(server: Server, clips: Clips) -> list[dict[str, Any]]:
    return [file(upload(server, clip)) for clip in clips]


# -- a run ---------------------------------------------------------------------------------------------------------------


def check_run(items: list[dict[str, Any]], prompt: str = PROMPT) -> None:
    assert len(items) > 2, "nothing arrived on the way"
    assert all(item["stop"] is None for item in items if item != items[-1])
    counts = [len(item["turns"]) for item in items]
    assert counts == sorted(counts)
    last = items[-1]
    assert (last["stop"], last["labels"]) == ("answered", {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1})
    assert (last["provisional"], last["forced"], last["error"]) == (False, False, "")
    assert (last["judge"], last["protocol"], last["prompt"]) == ("scripted", "paired", prompt)
    first, second = last["turns"]
    assert first["requested"] == [10, 60]
    assert first["remarks"] == ["1 request ignored, no such frame: 200."]
    assert (second["snapshot"], second["think"], second["text"]) == ("Steady.", "Video 1 is steadier.", END)
    asked = [(frame["video"], frame["number"], frame["index"]) for frame in second["frames"]]
    assert sorted(asked) == [(1, "10", 3), (1, "60", 22), (2, "10", 2), (2, "60", 14)]
    assert "jpeg" not in json.dumps(items)


def test_a_run_through_gradio_client(server: Server, clips: Clips) -> None:
    one, two = clips
    judge = client(server)
    job = judge.submit(handle_file(one), handle_file(two), PROMPT, api_name="/compare")
    check_run(list(job))
    check_run(job.outputs())
    assert judge.predict(handle_file(one), handle_file(two), prompt=PROMPT, api_name="/compare")["stop"] == "answered"


def test_a_run_through_plain_http(server: Server, clips: Clips) -> None:
    check_run(answers(server, *uploaded(server, clips), PROMPT))


def test_health(server: Server) -> None:
    found = client(server).predict(api_name="/health")
    assert found.pop("version") is not None
    assert found == {
        "status": "ready",
        "judge": "scripted",
        "protocol": "paired",
        "notes": ["A script speaks, not a model."],
        "error": "",
        "judging": 0,
        "waiting": 0,
    }


def test_only_these_endpoints_are_offered(server: Server) -> None:
    info: Any = client(server).view_api(return_format="dict", print_info=False)
    assert list(info["named_endpoints"]) == ["/compare", "/health"]
    assert not info["unnamed_endpoints"]
    names = [value["parameter_name"] for value in info["named_endpoints"]["/compare"]["parameters"]]
    assert names == ["video1", "video2", "prompt"]


# -- bad input -----------------------------------------------------------------------------------------------------------


def check_refused(item: dict[str, Any], words: str) -> None:
    assert item["stop"] == "failed"
    assert item["labels"] is None
    assert words in item["error"]
    assert item["error"].endswith(".")
    assert "\n" not in item["error"]


def test_bad_input_is_a_sentence(server: Server, clips: Clips, tmp_path: Path) -> None:
    words = tmp_path / "words.mp4"
    words.write_text("no video at all\n" * 9)
    one, two = uploaded(server, clips)
    check_refused(answers(server, one, two, "  ")[-1], "prompt is empty")
    check_refused(answers(server, one, two, 7)[-1], "prompt must be a text")
    check_refused(answers(server, one, two, "word " * 9000)[-1], "characters")
    check_refused(answers(server, one, file(upload(server, words)), PROMPT)[-1], "Video 2: words.mp4 is a text file")
    for nothing in (None, "", 7, [], {}, {"path": None}, {"path": ""}, {"path": "a\0b"}):
        check_refused(answers(server, nothing, two, PROMPT)[-1], "Video 1 is no uploaded file.")


INSIDE = [
    "/etc/passwd",
    "/proc/self/environ",
    "{uploads}/../script.jsonl",
    "{uploads}/../records",
    "{uploads}",
    "{folder}/server.log",
    "app.py",
    "",
    "file:///etc/passwd",
    "concat:/etc/passwd",
]


@pytest.mark.parametrize("path", INSIDE)
def test_no_file_of_the_machine_can_be_named(path: str, server: Server, clips: Clips) -> None:
    (folder,) = server.folder.glob("vr-thinker-page-*")
    path = path.format(uploads=folder / "uploads", folder=server.folder)
    two = file(upload(server, clips[1]))
    check_refused(answers(server, {"path": path}, two, PROMPT)[-1], "Video 1 is no uploaded file.")
    event, said = list(messages(begin(server, file(path), two, PROMPT)))[-1]
    if event == "complete":
        check_refused(said[0], "Video 1 is no uploaded file.")
    else:
        assert (event, said["error"]) == ("error", NOT_UPLOADED)


def test_the_server_is_not_sent_out(server: Server, clips: Clips) -> None:
    """Not even to fetch a video: it would be one of any size, from anywhere."""
    asked = threading.Event()

    class Listens(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.set()

    with http.server.HTTPServer(("127.0.0.1", 0), Listens) as trap:
        threading.Thread(target=trap.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{trap.server_address[1]}/film.mp4"
        two = file(upload(server, clips[1]))
        found = list(messages(begin(server, file(url), two, PROMPT)))
        check_refused(answers(server, {"path": url}, two, PROMPT)[-1], "no uploaded file")
        trap.shutdown()
    assert (found[-1][0], found[-1][1]["error"]) == ("error", NOT_UPLOADED)
    assert not asked.is_set()


# -- several callers -----------------------------------------------------------------------------------------------------


def test_two_callers_never_mix(server: Server, clips: Clips) -> None:
    """Also when they are one client with two calls at once."""
    files = uploaded(server, clips)
    found: dict[str, list[dict[str, Any]]] = {}

    def call(prompt: str) -> None:
        found[prompt] = answers(server, *files, prompt)

    prompts = [f"Prompt number {number}." for number in range(4)]
    calling = [threading.Thread(target=call, args=(prompt,)) for prompt in prompts]
    for thread in calling:
        thread.start()
    judge = client(server)
    jobs = [judge.submit(*map(handle_file, clips), prompt, api_name="/compare") for prompt in ("Fifth.", "Sixth.")]
    for thread in calling:
        thread.join(60)
    for prompt in prompts:
        check_run(found[prompt], prompt)
    for job, prompt in zip(jobs, ("Fifth.", "Sixth."), strict=True):
        check_run(list(job), prompt)


def until(ready: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_callers_wait_for_one_judge_and_a_caller_who_leaves_frees_it(endless: Server, clips: Clips) -> None:
    judge = client(endless)
    (folder,) = endless.folder.glob("vr-thinker-page-*")

    def queue() -> tuple[int, int]:
        found = judge.predict(api_name="/health")
        return found["judging"], found["waiting"]

    one, two = uploaded(endless, clips)
    first = messages(begin(endless, one, two, PROMPT))
    until(lambda: next(first)[1][0]["turns"])
    second = messages(begin(endless, one, two, "Another prompt."))
    until(lambda: queue() == (1, 1))
    first.close()
    until(lambda: next(second)[1][0]["turns"])
    assert queue() == (1, 0)
    second.close()
    until(lambda: queue() == (0, 0))
    until(lambda: not any((folder / "records").iterdir()))


# -- what is told --------------------------------------------------------------------------------------------------------


def state_of(finished: Finished) -> State:
    trace = runs.three_turns()
    return fold_all(Trace(trace.started, trace.turns, finished).events())


def test_what_was_not_said_is_not_filled_in() -> None:
    partial = Verdict(TA=Preference.FIRST, OA=Preference.TIE)
    item = told(state_of(Finished(StopReason.TURN_LIMIT, partial, provisional=True, forced=True)))
    assert item["labels"] == {"TA": 1, "MQ": None, "VQ": None, "OA": 0}
    assert (item["stop"], item["provisional"], item["forced"]) == ("turn limit", True, True)


def test_a_failure_keeps_the_turns() -> None:
    item = told(state_of(Finished(StopReason.FAILED, error="The judge stopped.", fault=CheckpointError.__name__)))
    assert (item["stop"], item["labels"], item["error"]) == ("failed", None, "The judge stopped.")
    assert [turn["number"] for turn in item["turns"]] == [1, 2, 3]
    assert [turn["requested"] for turn in item["turns"]] == [[10, 30, 60, 90], [56, 58, 60, 62, 64, 66], []]


def test_every_telling_has_one_shape_and_is_json() -> None:
    whole = told(fold_all(runs.three_turns().events()), 4.6)
    for item in (told(State()), refused("No."), whole):
        assert item.keys() == whole.keys()
        assert json.loads(json.dumps(item)) == item
    assert whole["turns"][0]["frames"][0] == {
        "video": 1,
        "number": "16",
        "index": 8,
        "seconds": 8 / 24,
        "until": 9 / 24,
    }
