"""Ctrl+C and SIGTERM end a run in a terminal as `cancelled`: what was written so far is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_branches import Talker, trace_of
from tests.test_cli import ROOT, call
from tests.test_judge import ANSWER, CALL
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.branch_plan import plan_branch
from vrthinker_core.errors import JudgeError
from vrthinker_core.runner import judge, judge_branch
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import StopReason, VideoPair

Clips = tuple[Path, Path]
pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there a signal ends a process at once"
)


def interrupt(number: signal.Signals, after: str, *arguments: object) -> tuple[int, str, str]:
    """Call a command and send the signal once it has printed `after`; gives its exit status, output and errors."""
    command = [sys.executable, "-m", "vrthinker_core", *map(str, arguments)]
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        shown = ""
        while after not in shown and (read := process.stdout.read(1)):
            shown += read
        process.send_signal(number)
        rest, told = process.communicate(timeout=120)
    return process.returncode, shown + rest, told


@pytest.fixture(scope="module")
def origin(clips: Clips, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace to branch from, beside `answer.jsonl` and `slow.jsonl`: the latter asks for frames, and then writes for half a minute."""
    folder = tmp_path_factory.mktemp("origin")
    long = ANSWER.replace("<Think>t", f"<Think>The second reply {'goes on and on ' * 100}")
    replies = ({"reply": reply, "pause": 0.2} for reply in (CALL, long))
    (folder / "slow.jsonl").write_text("\n".join(map(json.dumps, replies)))
    (folder / "answer.jsonl").write_text(json.dumps({"reply": ANSWER}))
    pair, path = VideoPair("A block glides.", *clips), folder / "trace.json"
    path.write_bytes(to_json(trace_of(judge(pair, ScriptedBackend(Talker())))))
    return path


@pytest.mark.parametrize(
    ("command", "number"), [("compare", signal.SIGINT), ("branch", signal.SIGTERM)]
)
def test_a_command_keeps_the_turn_in_which_it_was_stopped(
    command: str, number: signal.Signals, clips: Clips, origin: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "run.json"
    options = ("--judge", f"scripted:{origin.with_name('slow.jsonl')}", "--trace", kept)
    if command == "compare":
        arguments, after = ("compare", *clips, "--prompt", "A block glides."), "The second"
    else:
        arguments, after = ("branch", origin, *clips, "--turn", 2, "--frames", "4"), "Turn 2 of"
    status, printed, told = interrupt(number, after, *arguments, *options)
    assert (status, told) == (130, "")
    assert "Ended     cancelled" in printed
    trace = load(kept)
    assert trace.finished.stop is StopReason.CANCELLED
    assert [turn.completion.stop for turn in trace.turns] == ["end", "cancelled"]
    assert command == "branch" or "The second" in trace.turns[1].completion.text


def test_branch_goes_on_from_a_stored_trace_and_says_from_where(
    origin: Path, clips: Clips, tmp_path: Path
) -> None:
    judge_name, kept = f"scripted:{origin.with_name('answer.jsonl')}", tmp_path / "branch.json"
    options = ("--frames", "4,9", "--judge", judge_name, "--trace", kept)
    status, printed, told = call("branch", origin, *clips, "--turn", 2, *options)
    assert status == 0, told
    assert "Branch    from turn 2, with frames 4, 9" in printed
    assert printed.index("Turn 1") < printed.index("Turn 2") < printed.index("Verdict")
    trace = load(kept)
    assert trace.turns[0] == load(origin).turns[0]
    assert sorted({frame.number for frame in trace.turns[1].frames}) == ["4", "9"]


def test_what_cannot_be_is_one_line_and_status_2(origin: Path, clips: Clips) -> None:
    """Refused before a judge is opened: there is none of that name. A branch never replaces its origin."""
    before = origin.read_bytes()
    for wrong, sentence in (
        (["--turn", 9], ""),
        (["--turn", 2, "--frames", "x"], ""),
        (["--turn", 2, "--prompt", "A cat."], ""),
        (["--turn", 2, "--trace", origin], f"{origin} holds the run to branch from"),
    ):
        status, printed, told = call("branch", origin, *clips, *wrong, "--judge", "hf:no/such")
        assert (status, printed, told.count("\n")) == (2, "", 1), wrong
        assert told.startswith(sentence)
    assert origin.read_bytes() == before


def test_a_branch_that_is_refused_or_fails_replaces_no_earlier_trace(
    origin: Path, clips: Clips, tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier.json"
    earlier.write_bytes(origin.read_bytes())
    gone, plan = ScriptedBackend([JudgeError("The server is gone.")]), plan_branch(load(origin), 2)
    for videos in (clips[::-1], clips):
        *_, end = judge_branch(plan, VideoPair(plan.prompt, *videos), gone, trace=earlier)
        assert end.stop is StopReason.FAILED
        assert earlier.read_bytes() == origin.read_bytes()
