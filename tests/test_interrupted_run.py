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
from tests.test_cli import ROOT
from tests.test_judge import ANSWER, CALL
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.judge import judge
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import StopReason, VideoPair

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="there a signal ends a process at once"
)


def interrupt(number: signal.Signals, after: str, *arguments: object) -> tuple[int, str, str]:
    """Call a command and send the signal once it has printed `after`; gives its exit status, output and errors."""
    with subprocess.Popen(
        [sys.executable, "-m", "vrthinker_core", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        shown = ""
        while after not in shown and (read := process.stdout.read(1)):
            shown += read
        process.send_signal(number)
        rest, told = process.communicate(timeout=120)
    return process.returncode, shown + rest, told


@pytest.fixture
def slow_judge(tmp_path: Path) -> str:
    """A judge that asks for frames, and then writes for half a minute."""
    long = ANSWER.replace("<Think>t", f"<Think>The second reply {'goes on and on ' * 100}")
    replies = ({"reply": reply, "pause": 0.2} for reply in (CALL, long))
    (tmp_path / "slow.jsonl").write_text("\n".join(map(json.dumps, replies)))
    return f"scripted:{tmp_path / 'slow.jsonl'}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_compare_keeps_the_turn_in_which_it_was_stopped(
    number: signal.Signals, clips: tuple[Path, Path], slow_judge: str, tmp_path: Path
) -> None:
    kept = tmp_path / "run.json"
    options = ("--prompt", "A block glides.", "--judge", slow_judge, "--trace", kept)
    status, printed, told = interrupt(number, "The second", "compare", *clips, *options)
    assert (status, told) == (130, "")
    assert "Ended     cancelled" in printed
    trace = load(kept)
    assert trace.finished is not None
    assert trace.finished.stop is StopReason.CANCELLED
    assert [turn.completion.stop for turn in trace.turns] == ["end", "cancelled"]
    assert "The second" in trace.turns[1].completion.text


def test_branch_keeps_the_turn_in_which_it_was_stopped(
    clips: tuple[Path, Path], slow_judge: str, tmp_path: Path
) -> None:
    origin, kept = tmp_path / "origin.json", tmp_path / "branch.json"
    first = judge(VideoPair("A block glides.", *clips), ScriptedBackend(Talker()))
    origin.write_bytes(to_json(trace_of(first)))
    options = ("--turn", 2, "--frames", "4", "--judge", slow_judge, "--trace", kept)
    status, _, told = interrupt(signal.SIGINT, "Turn 2 of", "branch", origin, *clips, *options)
    assert (status, told) == (130, "")
    trace = load(kept)
    assert trace.finished is not None
    assert trace.finished.stop is StopReason.CANCELLED
    assert trace.turns[-1].completion.stop == "cancelled"
