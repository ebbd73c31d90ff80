"""The README's Python example and commands run as written, and the public names."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

import vrthinker_core
from vrthinker_core.cli import app, main
from vrthinker_core.types.events import RunEvent

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
CORE = ROOT / "vrthinker_core"
READMES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted(CORE.rglob("README.md")))
}
ALL_BLOCKS = [
    (name, kind, body)
    for name, text in READMES.items()
    for kind, body in re.findall(r"^```(\w+)\n(.*?)^```", text, re.S | re.M)
]
BLOCKS = [(kind, body) for name, kind, body in ALL_BLOCKS if name == "README.md"]
LINES = [
    line.partition("  #")[0].strip()
    for _, kind, body in ALL_BLOCKS
    if kind in ("sh", "bash")
    for line in body.replace("\\\n", "").splitlines()
]
OTHERS = {
    "accelerate": "training/test_train_command.py",
    "trl": "training/test_grpo.py",
    "hf": "project/test_space.py",
    "vllm": "backends/server/test_vllm.py",
    "llama-server": "backends/server/test_local.py",
    "ray": "evaluation/test_ray_engine.py",
    "curl": "ui/test_api.py",
    ".": "project/test_readme.py",
    "$(command": "project/test_readme.py",
}
"""Other programs in the blocks, and the tests of what we say of them. A session in a bare system tries the first."""


class Enlarged:
    """A renderer that draws a sixteenth of the pixels, as drawing costs most of `scenes`."""

    def __init__(self, renderer: Any, scene: Any, size: int, supersample: int) -> None:
        self._small = renderer(scene, size // 4, supersample)

    def frame(self, index: int) -> Any:
        return self._small.frame(index).repeat(4, 0).repeat(4, 1)


def test_the_blocks_run_as_written_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported already what they need; `test_cli.py` starts a process for each command.

    What this machine lacks (a model of the hub, a server, a data set) is told in one sentence. A line that differs from another
    one in its folder alone runs once.
    """
    from vrthinker_core.drawn import video_files

    enlarged = partial(Enlarged, video_files.SceneRenderer)
    monkeypatch.setattr(video_files, "SceneRenderer", enlarged)
    for name in ("assets", "app.py", "vrthinker_core"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    ended: dict[str, int] = {}
    ran: set[str] = set()
    for name, kind, body in ALL_BLOCKS:
        if kind == "python" and "gradio_client" not in body:  # That one is run by `ui/test_api.py`
            exec(compile(body, name, "exec"), {"__name__": "__main__"})
        for line in re.findall("^vrthinker .+", body, re.M):
            if (same := line.partition(" --out ")[0]) in ran:
                continue
            ran.add(same)
            monkeypatch.setattr(sys, "argv", shlex.split(line))
            with pytest.raises(SystemExit) as end:
                main()
            said = capsys.readouterr().err.strip()
            ended[line] = int(end.value.code or 0)
            assert ended[line] in (0, 2), (line, said)
            assert ended[line] == 0 or re.fullmatch(r"[A-Z][^\n]*\.", said), (line, said)
    lacking = re.compile("hf:|Qwen/|server:|VIDEOS|checkpoint")
    assert [line for line, code in ended.items() if code] == list(filter(lacking.search, ended))


def test_every_other_program_has_its_test() -> None:
    called = [re.match(r"(?:\w+=\$\()?(\$\(command|[\w.-]+) ", line) for line in LINES]
    programs = {found[1] for found in called if found}
    assert programs - {"vrthinker", "python", "pip", "export", "upload"} == OTHERS.keys()
    assert all((ROOT / "tests" / path).is_file() for path in OTHERS.values())


def test_a_type_checker_finds_the_package_from_anywhere(tmp_path: Path) -> None:
    (code,) = (body for kind, body in BLOCKS if kind == "python" and "compare" in body)
    (tmp_path / "script.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_first_commands_run_in_a_new_terminal(tmp_path: Path) -> None:
    """Nothing but the system's own programs is on its path, as after the line that installs."""
    if not (Path(sys.prefix) / "bin" / "activate").is_file():
        pytest.skip("these tests run in no virtual environment")
    (tmp_path / ".venv").symlink_to(Path(sys.prefix))
    for name in ("vrthinker_core", "assets"):
        (tmp_path / name).symlink_to(ROOT / name)
    (commands,) = (body for kind, body in BLOCKS if kind == "sh" and "activate" in body)
    shell, bare = ["/bin/sh", "-ec", commands], {"PATH": os.defpath}
    done = subprocess.run(
        shell, cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "\nVerdict\n" in done.stdout


@pytest.mark.parametrize("readme", READMES)
def test_every_command_line_of_a_readme_is_understood(readme: str) -> None:
    """Its options and values are read, without running it."""
    text, begun = READMES[readme], r"^(?:accelerate .* -m vrthinker_core|vrthinker) (.+)"
    lines = re.findall(begun, text.replace("`", "\n"), re.M)
    lines += re.findall(r"^\|.*\| `(.+)` \|$", text, re.M) * (readme == "README.md")
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


def test_help_tells_what_the_fields_of_a_public_class_mean() -> None:
    """A comment behind a field is seen by nobody who asks Python."""
    for name in vrthinker_core.__all__:
        public = getattr(vrthinker_core, name)
        if not is_dataclass(public):
            continue
        known = {field.name for field in fields(public)}
        assert not re.search(r"^    \w+: [^\n]*  # ", inspect.getsource(public), re.M), name
        told = inspect.getdoc(public).partition("Attributes:\n")[2]
        assert set(re.findall(r"^ {4}(\w+):", told, re.M)) <= known, name
        assert name != "Settings" or len(told.splitlines()) == len(known)


def test_the_public_names_are_these() -> None:
    assert sorted(vrthinker_core.__all__) == [
        "Backend", "BadInput", "Branch", "BranchPlan", "Changes", "CheckpointError", "ComparedVideos",
        "Completion", "Conversation", "Dimension", "Event",
        "Finished", "Frame", "FramesShown", "JudgeError", "JudgeEvent", "MeasuredFact", "MeasuredVideo", "Measurement", "Message",
        "Opening", "OrderCheck", "OrderEffect", "Preference",
        "Retrying", "Reward", "Run", "Sampling", "ScriptedBackend", "Settings", "Side", "Started", "StopReason", "Swapped", "TextArrived",
        "Trace", "TraceError", "Turn", "TurnEnded", "Verdict", "VideoError", "VideoPair", "Vote", "Voted", "VrThinkerError",
        "areward", "areward_many", "check_order", "compare", "evaluate", "export", "judge", "judge_branch", "judge_many", "load_trace",
        "measure", "open_backend", "plan_branch", "reward", "reward_many",
    ]  # fmt: skip
    assert all(hasattr(vrthinker_core, name) for name in vrthinker_core.__all__)
    assert {event.__name__ for event in get_args(RunEvent)} <= set(vrthinker_core.__all__)
