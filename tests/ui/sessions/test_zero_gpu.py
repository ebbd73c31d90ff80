"""A Space that lends a GPU: `app.py` under the real `spaces` package, with a lender of our own in the place of Hugging Face's."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.ui.conftest import Server, write_script
from tests.ui.support.api_calls import PROMPT, Clips, act, answers, begin, comparing, messages, uploaded
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.ui.sessions.background_run import RunJob
from vrthinker_core.ui.sessions.judge_loader import gpu_seconds

REPLIES = [
    '<Think>t</Think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>',
    "<Think>Video 1 is steadier.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>",
]
OTHER = "<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"
REFUSAL = {"left": 10, "wait": 3600}
LOAN = {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "GPU-0", "allowToken": "a token"}


class Lender:
    """Lends to everybody at once as long as it lends, and remembers who asked for what."""

    def __init__(self) -> None:
        self.lends = True
        self.asked: list[tuple[str, dict[str, str]]] = []

    def told(self, what: str) -> list[dict[str, str]]:
        return [values for name, values in self.asked if name == what]

    def answer(self, path: str) -> tuple[int, bytes]:
        what, values = urlsplit(path).path, dict(parse_qsl(urlsplit(path).query))
        self.asked.append((what, values))
        if what != "/schedule":
            return 200, b"{}"
        return (200, json.dumps(LOAN).encode()) if self.lends else (429, json.dumps(REFUSAL).encode())


@pytest.fixture(scope="module")
def lender() -> Iterator[tuple[Lender, str]]:
    known = Lender()

    class Desk(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = known.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Desk) as desk:
        threading.Thread(target=desk.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield known, f"http://127.0.0.1:{desk.server_address[1]}"
        desk.shutdown()


@pytest.fixture(scope="module")
def space(lender: tuple[Lender, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Without torch, which would look for the GPU that was lent: the script needs none."""
    folder = tmp_path_factory.mktemp("space")
    (folder / "torch.py").write_text("raise ImportError('no torch here')\n")
    variables = {"SPACES_ZERO_GPU": "true", "SPACES_ZERO_DEVICE_API_URL": lender[1], "PYTHONPATH": str(folder), "HOME": str(folder)}
    first, second = write_script(folder / "script.jsonl", REPLIES, protocol="paired"), write_script(folder / "other.jsonl", [OTHER])
    server = Server(folder, first, "--judge", second, variables=variables)
    yield server
    server.stop()


def seconds(settings: Settings) -> str:
    pair = VideoPair(PROMPT, Path("one.mp4"), Path("two.mp4"))
    return str(gpu_seconds(RunJob(pair, settings, Path("trace.json"), Path("halt"))))


def test_a_whole_run_happens_in_the_process_that_holds_the_gpu(space: Server, lender: tuple[Lender, str], clips: Clips) -> None:
    """Job and events cross the border between the processes on the way."""
    items = answers(space, *uploaded(space, clips), PROMPT)
    assert (items[-1]["stop"], items[-1]["labels"]) == ("answered", {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1})
    assert [turn["requested"] for turn in items[-1]["turns"]] == [[10, 30], []]
    known, _ = lender
    assert len(known.told("/startup-report")) == 1, "the Space found a function that borrows"
    assert int(known.told("/allow")[0]["pid"]) != space.process.pid
    assert known.told("/release") == [{"allowToken": "a token", "fail": "false"}] * len(known.told("/schedule"))


def test_the_chosen_judge_speaks_there(space: Server, clips: Clips) -> None:
    told = answers(space, *uploaded(space, clips), PROMPT, "other")[-1]
    assert (told["judge"], told["labels"]) == ("other", {"TA": 2, "MQ": 2, "VQ": 2, "OA": 2})


def test_a_visitor_borrows_for_as_long_as_the_settings_need(space: Server, lender: tuple[Lender, str], clips: Clips) -> None:
    event, inputs = comparing(space)
    known, _ = lender
    for turns, settings in ((None, Settings()), ("1", Settings(max_turns=1))):
        values = [*uploaded(space, clips), PROMPT, None, None, None, turns, *[None] * (inputs - 7)]
        assert "error" not in act(space, event, values)
        assert known.told("/schedule")[-1]["durationSeconds"] == seconds(settings)


def test_the_quota_is_the_visitors_own(space: Server, lender: tuple[Lender, str], clips: Clips) -> None:
    visitor = "header.eyJ1c2VyIjoiYW5uYSJ9.signature"
    url = begin(space, *uploaded(space, clips), PROMPT, **{"X-IP-Token": visitor})
    assert list(messages(url))[-1][0] == "complete"
    assert lender[0].told("/schedule")[-1]["token"] == visitor


def test_who_is_lent_nothing_is_told_why(space: Server, lender: tuple[Lender, str], clips: Clips) -> None:
    known, _ = lender
    files = uploaded(space, clips)
    known.lends = False
    visitor = "header.eyJ1c2VyIjoiYW5uYSJ9.signature"
    refused = [data[0] for _, data in messages(begin(space, *files, PROMPT, **{"X-IP-Token": visitor})) if data][-1]
    known.lends = True
    assert (refused["stop"], refused["labels"]) == ("failed", None)
    assert refused["error"].startswith("No GPU could be borrowed. You have exceeded your")
    assert "Try again in 1:00:00" in refused["error"]
    assert answers(space, *files, PROMPT)[-1]["stop"] == "answered"
