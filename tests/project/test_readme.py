"""What the README says is run: its Python example, its commands, its two lines."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vrthinker_core

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.S | re.M)
COMMANDS = [line for kind, body in BLOCKS if kind == "sh" for line in body.splitlines() if line.startswith("python -m ")]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("code", [body for kind, body in BLOCKS if kind == "python" and "vrthinker_core" in body])
def test_the_python_example_runs_as_written(code: str, clips: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copy(clips[0], tmp_path / "first.mp4")
    shutil.copy(clips[1], tmp_path / "second.mp4")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"answered|no answer|turn limit", done.stdout)


def test_the_commands_run_as_written(clips: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copy(clips[0], tmp_path / "one.mp4")
    shutil.copy(clips[1], tmp_path / "two.mp4")
    ours = [shlex.split(line) for line in COMMANDS if line.startswith("python -m vrthinker_core")]
    assert ours
    for _, *arguments in ours:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode in (0, 3), done.stderr
        assert "Traceback" not in done.stderr


def test_every_command_that_is_named_exists() -> None:
    for command in re.findall(r"python -m (tests\.[\w.]+)", README):
        assert (ROOT / (command.replace(".", "/") + ".py")).exists(), command


def test_ci_calls_the_test_line() -> None:
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "README.md" in run
    assert len(re.findall(r"^.*python -m tests$", README, re.M)) == 1


def test_the_public_names_are_these() -> None:
    assert sorted(vrthinker_core.__all__) == [
        "BadInput", "CheckpointError", "Dimension", "Event", "Finished", "FramesShown", "JudgeError", "OpenedBackend", "Preference",
        "ScriptedBackend", "Settings", "Side", "Started", "StopReason", "TextArrived", "Trace", "TraceError", "Turn", "TurnEnded",
        "Verdict", "VideoError", "VideoPair", "VrThinkerError", "judge", "judge_many", "open_backend",
    ]  # fmt: skip
    assert all(hasattr(vrthinker_core, name) for name in vrthinker_core.__all__)
