"""The README's Python example and commands run as written, and the public names."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import typer

import vrthinker_core
from vrthinker_core.cli import app
from vrthinker_core.types.events import RunEvent

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
CORE = ROOT / "vrthinker_core"
READMES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted(CORE.rglob("README.md")))
}
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.S | re.M)
COMMANDS = [
    line
    for kind, body in BLOCKS
    if kind == "sh"
    for line in body.splitlines()
    if line.startswith("python -m ")
]


@pytest.mark.parametrize(
    "code", [body for kind, body in BLOCKS if kind == "python" and "vrthinker_core" in body]
)
def test_the_python_example_runs_as_written(
    code: str,
    clips: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(clips[0], tmp_path / "first.mp4")
    shutil.copy(clips[1], tmp_path / "second.mp4")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert re.search(
        r"answered|no answer|turn limit|^best: good.mp4$", capsys.readouterr().out, re.M
    )


def test_the_commands_run_as_written(
    clips: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, which has imported already what they need; `test_cli.py` starts a process for each command."""
    shutil.copy(clips[0], tmp_path / "one.mp4")
    shutil.copy(clips[1], tmp_path / "two.mp4")
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(tmp_path)
    commands = [
        shlex.split(line) for line in COMMANDS if line.startswith("python -m vrthinker_core")
    ]
    assert commands
    for command in commands:
        monkeypatch.setattr(sys, "argv", command[2:])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module(command[2], run_name="__main__")
        told = capsys.readouterr().err
        assert ended.value.code in (0, 3), told
        assert "Traceback" not in told


def test_the_first_commands_run_in_a_new_terminal(tmp_path: Path) -> None:
    """Nothing but the system's own programs is on its path, as after the line that installs."""
    if not (Path(sys.prefix) / "bin" / "activate").is_file():
        pytest.skip("these tests run in no virtual environment")
    for name, there in (
        (".venv", Path(sys.prefix)),
        ("vrthinker_core", ROOT / "vrthinker_core"),
        ("assets", ROOT / "assets"),
    ):
        (tmp_path / name).symlink_to(there)
    (commands,) = (body for kind, body in BLOCKS if kind == "sh" and "activate" in body)
    shell = ["/bin/sh", "-ec", commands]
    done = subprocess.run(
        shell,
        cwd=tmp_path,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\nVerdict\n" in done.stdout


@pytest.mark.parametrize("readme", READMES)
def test_every_command_line_of_a_readme_is_understood(readme: str) -> None:
    """Its options and values are read, without running it."""
    text = READMES[readme]
    lines = [
        *re.findall(r"python -m vrthinker_core (.+)", text.replace("`", "\n")),
        *re.findall(r"-m vrthinker_core (train .+)", text),
        *re.findall(r"^\|.*\| `(.+)` \|$", text, re.M) * (readme == "README.md"),
    ]
    command = typer.main.get_command(app)
    for line in lines:
        if any(line.startswith(name) for name in command.commands):  # type: ignore[attr-defined]
            name, *words = shlex.split(line.partition(" #")[0])
            command.commands[name].make_context(name, words)  # type: ignore[attr-defined]


@pytest.mark.parametrize("readme", READMES)
def test_every_file_and_module_that_a_readme_names_exists(readme: str) -> None:
    text, folder = READMES[readme], (ROOT / readme).parent
    for module in re.findall(r"python -m (tests\.[\w.]+)", text):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    for link in re.findall(r"\]\(((?!http|#)[^)]+)\)", text):
        assert (folder / link).exists(), link
    for name in re.findall(r"`([\w/]+\.(?:py|md|yaml))`", text):
        assert any((start / name).exists() for start in (folder, ROOT, CORE)) or any(
            path.name == name for path in folder.rglob("*.yaml")
        ), name


def test_the_public_names_are_these() -> None:
    assert sorted(vrthinker_core.__all__) == [
        "Backend", "BadInput", "Branch", "BranchPlan", "Changes", "CheckpointError", "ComparedVideos",
        "Completion", "Conversation", "Dimension", "Event",
        "Finished", "Frame", "FramesShown", "JudgeError", "JudgeEvent", "Message", "Opening", "OrderCheck", "OrderEffect", "Preference",
        "Reward", "Run", "Sampling", "ScriptedBackend", "Settings", "Side", "Started", "StopReason", "Swapped", "TextArrived", "Trace",
        "TraceError", "Turn", "TurnEnded", "Verdict", "VideoError", "VideoPair", "Vote", "Voted", "VrThinkerError",
        "areward", "areward_many", "check_order", "judge", "judge_branch", "judge_many", "load_trace", "open_backend",
        "plan_branch", "reward", "reward_many",
    ]  # fmt: skip
    assert all(hasattr(vrthinker_core, name) for name in vrthinker_core.__all__)
    assert {event.__name__ for event in get_args(RunEvent)} <= set(vrthinker_core.__all__)
