"""Traces: written whole, read back only when they are what they say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import TraceError
from vrthinker_core.judge import judge
from vrthinker_core.traces import from_json, load, to_json, write_atomically
from vrthinker_core.types import VideoPair

ANSWER = "<Snapshot>s</Snapshot><Think>t</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"


@pytest.fixture(scope="module")
def stored(clips: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "run.json"
    for _ in judge(VideoPair("p", *clips), ScriptedBackend([ANSWER]), trace=path):
        pass
    return path


def test_writing_then_reading_is_the_identity(stored: Path) -> None:
    trace = load(stored)
    assert from_json(to_json(trace)) == trace


Change = tuple[list[Any], Any]


@pytest.mark.parametrize(
    "change",
    [
        (["format"], "vr-thinker-trace/999"),
        (["turns", 0, "number"], 7),
        (["turns", 0, "completion", "pieces"], [1, 2, 3]),
        (["turns", 0, "completion", "pieces"], [-1, 1]),
        (["turns", 0, "frames", 0, "jpeg"], "PHN2Zz4="),
        (["turns", 0, "frames", 0, "ref", "side"], 3),
        (["finished", "stop"], "because"),
        (["finished", "verdict", "TA"], 5),
        (["started", "prompt"], None),
        (["turns"], {"0": 1}),
        (["started", "dialect"], "klingon"),
        (["started", "clips", 0, "fps"], float("nan")),
        (["started", "clips", 1, "frames"], -1),
        (["turns", 0, "frames", 0, "seconds"], float("inf")),
        (["turns", 0, "frames", 0, "until"], -0.5),
        (["turns", 0, "frames", 0, "index"], -1),
        (["turns", 0, "frames", 0, "ref", "slot"], -1),
        (["turns", 0, "in_view", 0, "slot"], -1),
        (["turns", 0, "completion", "seconds"], float("nan")),
        (["finished", "seconds"], float("-inf")),
    ],
    ids=lambda change: ".".join(map(str, change[0])),
)
def test_a_trace_that_was_tampered_with_is_refused_in_one_sentence(stored: Path, change: Change) -> None:
    where, value = change
    data = json.loads(stored.read_bytes())
    place = data
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    with pytest.raises(TraceError) as error:
        from_json(json.dumps(data).encode())
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400


@given(st.one_of(st.binary(max_size=400), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_a_trace_or_a_named_error(data: bytes) -> None:
    with pytest.raises(TraceError):
        from_json(data)


def test_a_deeply_nested_file_is_refused() -> None:
    with pytest.raises(TraceError):
        from_json(b"[" * 100_000)


def test_a_missing_trace_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nothing\.json"):
        load(tmp_path / "nothing.json")


def test_a_failed_write_leaves_the_old_file_and_no_half_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.json"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


RUN = """
import sys
from pathlib import Path
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.judge import judge
from vrthinker_core.types import Settings, VideoPair
call = '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [%d]}}</tool_call>'
script = [call % k for k in range(30)]
first, second, trace = map(Path, sys.argv[1:])
for event in judge(VideoPair("p", first, second), ScriptedBackend(script, pause=0.002), Settings(max_turns=30), trace=trace):
    pass
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_process_leaves_a_readable_trace(clips: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    process = subprocess.Popen([sys.executable, "-c", RUN, *map(str, clips), str(path)])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not path.exists() or len(load(path).turns) < 2):
        time.sleep(0.02)
    process.kill()
    process.wait()
    trace = load(path)
    assert len(trace.turns) >= 2
    assert trace.finished is None
