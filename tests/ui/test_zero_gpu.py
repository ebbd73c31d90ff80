"""ZeroGPU: `app.py` under the real `spaces`, our own scheduler, and a GPU that is imitated."""

import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import gradio as gr
import pytest

from tests.backends.support.random_model import write_random_checkpoint
from tests.support import faulty_server
from tests.support.loopback_server import LoopbackServer, serving
from tests.support.waiting import until_equal
from tests.ui.conftest import Clips, Server, write_script
from tests.ui.support import handmade_runs
from tests.ui.support.api import answers, begin, messages, uploaded
from tests.ui.support.saved_examples import ANSWER, PROMPT, ask
from vrthinker_core.backends.devices import gpu_seconds
from vrthinker_core.errors import CheckpointError, VrThinkerError
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import JudgeEvent
from vrthinker_core.ui.judges import naming_gpu_errors
from vrthinker_core.ui.run import RunJob

GRANT = {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "GPU-0", "allowToken": "a token"}


class Scheduler(LoopbackServer):
    """Grants every request while `accepts` is true, and records all of them."""

    def __init__(self) -> None:
        super().__init__(Handler)
        self.accepts = True
        self.received: list[tuple[str, dict[str, str]]] = []

    def requests(self, path: str) -> list[dict[str, str]]:
        return [values for name, values in self.received if name == path]


class Handler(faulty_server.Handler):
    server: Scheduler  # type: ignore[assignment]

    def do_POST(self) -> None:
        name, values = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        self.server.received.append((name, values))
        refuses = name == "/schedule" and not self.server.accepts
        said = ({"left": 10, "wait": 3600} if refuses else GRANT) if name == "/schedule" else {}
        self.send_json(429 if refuses else 200, said)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Scheduler]:
    with serving(Scheduler()) as running:
        yield running


@pytest.fixture(scope="module")
def space(scheduler: Scheduler, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without torch, which would look for the granted GPU; a scripted judge needs none."""
    folder = tmp_path_factory.mktemp("space")
    (folder / "torch.py").write_text("raise ImportError('no torch here')\n")
    variables = {
        "SPACES_ZERO_GPU": "true",
        "SPACES_ZERO_DEVICE_API_URL": scheduler.address,
        "PYTHONPATH": str(folder),
        "HOME": str(folder),
    }
    other = write_script(folder / "other.jsonl", ["<Answer>TA=2, MQ=2, VQ=2, OA=2</Answer>"])
    judge = write_script(folder / "script.jsonl", [ask(10, 30), ANSWER], protocol="paired")
    with closing(Server(folder, judge, "--judge", other, variables=variables)) as server:
        yield server


def test_a_run_borrows_the_gpu(space: Server, scheduler: Scheduler, clips: Clips) -> None:
    """The job and its events are pickled between the processes on the way."""
    items = answers(space, *uploaded(space, clips), PROMPT)
    labels = {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
    assert (items[-1]["stop"], items[-1]["labels"]) == ("answered", labels)
    assert [turn["requested"] for turn in items[-1]["turns"]] == [[10, 30], []]
    assert len(scheduler.requests("/startup-report")) == 1, "a function asks for a GPU"
    assert int(scheduler.requests("/allow")[0]["pid"]) != space.process.pid
    item = answers(space, *uploaded(space, clips), PROMPT, "other", {"max_turns": 1})[-1]
    assert (item["judge"], item["labels"]["TA"]) == ("other", 2), "the chosen judge"
    asked = [each["durationSeconds"] for each in scheduler.requests("/schedule")]
    assert asked == [str(gpu_seconds(each)) for each in (Settings(), Settings(max_turns=1))]
    released = [{"allowToken": "a token", "fail": "false"}] * 2
    until_equal(lambda: scheduler.requests("/release"), released)  # once the visitor has the answer


def test_a_refusal_says_why(space: Server, scheduler: Scheduler, clips: Clips) -> None:
    files = uploaded(space, clips)
    scheduler.accepts = False
    token = "header.eyJ1c2VyIjoiYW5uYSJ9.signature"
    told = messages(begin(space, *files, PROMPT, **{"X-IP-Token": token}))
    refused = [data[0] for _, data in told if data][-1]
    scheduler.accepts = True
    assert scheduler.requests("/schedule")[-1]["token"] == token
    assert (refused["stop"], refused["labels"]) == ("failed", None)
    assert refused["error"].startswith("No GPU could be borrowed. You have exceeded your")
    assert "Try again in 1:00:00" in refused["error"]
    assert answers(space, *files, PROMPT)[-1]["stop"] == "answered"


def test_a_gpu_that_is_not_borrowed_refused_and_taken_back_are_told_apart() -> None:
    def refused(events: int, open_judge: Callable[[str], object] = str) -> tuple[int, str]:
        """How many events a job had before it failed, and the sentence."""

        def run_job(_: RunJob) -> Generator[JudgeEvent, None, None]:
            yield from islice(handmade_runs.three_turns().events(), events)
            raise gr.Error("Wait.")

        seen, pair = list[JudgeEvent](), VideoPair("p", Path("a"), Path("b"))
        job = RunJob(pair, Settings(), Path("trace"), Path("stop"), "one")
        with pytest.raises(VrThinkerError) as failure:
            seen.extend(naming_gpu_errors(run_job, open_judge)(job))
        return len(seen), str(failure.value)

    def open_damaged(name: str) -> object:
        raise CheckpointError(f"The judge {name} is damaged.")

    damaged = "The judge one is damaged."
    assert refused(2, open_damaged) == (0, damaged), "no GPU is borrowed for it"
    assert refused(0) == (0, "No GPU could be borrowed. Wait.")
    seen, sentence = refused(2)
    assert (seen, sentence.startswith("The GPU was taken back")) == (2, True)


OPEN = """
import sys
import torch
# What a build for GPUs has, and this one may lack
torch.version.cuda = torch.version.cuda or "12.8"
torch._C._cuda_init, torch._C._cuda_getDeviceCount = (lambda: None), (lambda: 1)
torch._C._cuda_getCurrentRawStream = lambda device: 0
torch.cuda._is_in_bad_fork, torch.cuda._cudart = bool, object()
import spaces
from vrthinker_core.backends import checkpoint as loader
from vrthinker_core.ui.judges import JudgeLoader, judge_openers

loader.SMALL_MODEL_WEIGHTS = 0  # else so small a model stays on the processor

judges = JudgeLoader(judge_openers(["hf:" + sys.argv[1]]), in_thread=False)
model = judges.get().loaded.model
print({each.device.type for each in (*model.parameters(), *model.buffers())}, model.dtype)
judges.close()
"""


def test_a_checkpoint_is_opened_on_the_gpu_that_is_imitated(tmp_path: Path) -> None:
    write_random_checkpoint(tmp_path / "judge")
    environment = {**os.environ, "SPACES_ZERO_GPU": "true", "OMP_NUM_THREADS": "1"}
    environment["SPACES_ZERO_DEVICE_API_URL"] = "http://127.0.0.1:9"
    command = [sys.executable, "-c", OPEN, str(tmp_path / "judge")]
    options = {"capture_output": True, "text": True, "timeout": 240, "check": False}
    done = subprocess.run(command, env=environment, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "{'cuda'} torch.bfloat16"
