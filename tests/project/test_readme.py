"""The README's Python example and commands run as written, and its table of measurements is one that the benchmarks write."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

import vrthinker_core
from tests.benchmarks.__main__ import BENCHMARKS, FOLDER, main, summary
from tests.benchmarks.readme_table import NOTHING, Row, read_rows, replace_row
from tests.project.benchmark_results import RESULTS
from vrthinker_core.types.events import RunEvent

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.S | re.M)
COMMANDS = [line for kind, body in BLOCKS if kind == "sh" for line in body.splitlines() if line.startswith("python -m ")]


@pytest.mark.parametrize("code", [body for kind, body in BLOCKS if kind == "python" and "vrthinker_core" in body])
def test_the_python_example_runs_as_written(
    code: str, clips: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(clips[0], tmp_path / "first.mp4")
    shutil.copy(clips[1], tmp_path / "second.mp4")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert re.search(r"answered|no answer|turn limit|^best: good.mp4$", capsys.readouterr().out, re.M)


def test_the_commands_run_as_written(
    clips: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported already what they need; `test_cli.py` starts a process for each command."""
    shutil.copy(clips[0], tmp_path / "one.mp4")
    shutil.copy(clips[1], tmp_path / "two.mp4")
    (tmp_path / "assets").symlink_to(ROOT / "assets")
    monkeypatch.chdir(tmp_path)
    commands = [shlex.split(line) for line in COMMANDS if line.startswith("python -m vrthinker_core")]
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
    for name, there in ((".venv", Path(sys.prefix)), ("vrthinker_core", ROOT / "vrthinker_core"), ("assets", ROOT / "assets")):
        (tmp_path / name).symlink_to(there)
    (commands,) = (body for kind, body in BLOCKS if kind == "sh" and "activate" in body)
    shell = ["/bin/sh", "-ec", commands]
    done = subprocess.run(shell, cwd=tmp_path, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "\nVerdict\n" in done.stdout


def test_the_contents_lead_to_every_section() -> None:
    sections = re.findall(r"^## (.+)$", README, re.M)
    assert re.findall(r"\[([^\]]+)\]\(#([\w-]+)\)", README) == [(name, name.lower().replace(" ", "-")) for name in sections]


def test_every_command_that_is_named_exists() -> None:
    for module in re.findall(r"python -m (tests\.[\w.]+)", README):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module


def test_the_help_of_the_tests_is_that_of_pytest_and_runs_none() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests", "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
    assert "== style" not in done.stdout


def test_ci_calls_the_test_line() -> None:
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "README.md" in run
    assert len(re.findall(r"^.*python -m tests$", README, re.M)) == 1


def test_the_public_names_are_these() -> None:
    assert sorted(vrthinker_core.__all__) == [
        "Backend", "BadInput", "Branch", "BranchPlan", "Changes", "CheckpointError", "ComparedVideos", "Dimension", "Event",
        "Finished", "FramesShown", "JudgeError", "JudgeEvent", "Opening", "OrderCheck", "OrderEffect", "Preference",
        "Reward", "Run", "ScriptedBackend", "Settings", "Side", "Started", "StopReason", "Swapped", "TextArrived", "Trace",
        "TraceError", "Turn", "TurnEnded", "Verdict", "VideoError", "VideoPair", "Vote", "Voted", "VrThinkerError",
        "areward", "areward_many", "check_order", "judge", "judge_branch", "judge_many", "load_trace", "open_backend",
        "plan_branch", "reward", "reward_many",
    ]  # fmt: skip
    assert all(hasattr(vrthinker_core, name) for name in vrthinker_core.__all__)


def test_every_event_of_a_run_is_named_and_public() -> None:
    events = [kind.__name__ for kind in get_args(RunEvent)]
    assert f"`judge` yields typed events ({', '.join(f'`{name}`' for name in events)})" in README
    assert set(events) <= set(vrthinker_core.__all__)


def test_the_newest_changes_are_those_of_this_version() -> None:
    assert re.findall(r"^\*\*([\d.]+)\*\* ", README, re.M)[0] == ".".join(vrthinker_core.__version__.split(".")[:2])


# -- the table of measurements -------------------------------------------------------------------------------------------

NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def shape(sentence: str) -> str:
    return NUMBER.sub("#", sentence)


def printing(result: dict[str, Any], status: int = 0) -> Any:
    """A runner whose last line is `result`; nothing runs."""
    return lambda arguments: (status, json.dumps(result))


def never(arguments: Sequence[str]) -> tuple[int, str]:
    raise AssertionError("nothing may run")


@pytest.fixture
def readme_copy(tmp_path: Path) -> Path:
    copy = tmp_path / "README.md"
    copy.write_text(README, "utf-8")
    return copy


def test_every_benchmark_is_listed_and_has_made_up_results(capsys: pytest.CaptureFixture[str]) -> None:
    with_row = {path.stem for path in FOLDER.glob("*.py") if "\ndef readme_row(" in path.read_text("utf-8")}
    assert set(BENCHMARKS) == with_row == {name for name, _, _ in RESULTS}
    assert main([]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name:8} {summary(name)}" for name in BENCHMARKS]


@pytest.mark.parametrize(("name", "result", "sentence"), RESULTS)
def test_a_result_becomes_a_sentence(name: str, result: dict[str, Any], sentence: str) -> None:
    assert importlib.import_module(f"tests.benchmarks.{name}").readme_row(result) == sentence


def test_the_table_has_a_row_of_the_written_shape_for_every_benchmark() -> None:
    rows = read_rows(README)
    assert [row.command.split(".")[2] for row in rows if " --" not in row.command] == list(BENCHMARKS)
    for row in rows:
        match = re.fullmatch(r"python -m tests\.benchmarks\.(\w+)( --gpu)?", row.command)
        assert match, row.command
        assert row.compares == summary(match[1])
        if row.found == NOTHING:
            assert row.machine == NOTHING
            continue
        assert shape(row.found) in {shape(sentence) for name, _, sentence in RESULTS if name == match[1]}
        assert all(float(number.replace(",", "")) >= 0 for number in NUMBER.findall(row.found))
        assert bool(match[2]) or re.fullmatch(r"\d+ processors?", row.machine)


def test_an_update_changes_the_row_of_its_command_and_nothing_else(readme_copy: Path) -> None:
    name, result, sentence = RESULTS[2]
    assert main([name, "--update-readme"], readme_copy, printing(result)) == 0
    changed = readme_copy.read_text("utf-8")
    lines = [(old, new) for old, new in zip(README.splitlines(), changed.splitlines(), strict=True) if old != new]
    assert [Row.parse(new).found for _, new in lines] == [sentence]
    assert [Row.parse(old).command for old, _ in lines] == [Row.parse(new).command for _, new in lines]
    assert main([name, "--update-readme"], readme_copy, printing(result)) == 0
    assert readme_copy.read_text("utf-8") == changed, "the same result again changes nothing"


def test_another_form_of_a_benchmark_has_a_row_of_its_own_behind_it() -> None:
    row = Row("python -m tests.benchmarks.turns --gpu", "Turns", "9 times as fast", "a GPU")
    rows = read_rows(replace_row(README, row))
    assert rows[1] == row
    assert [rows[0], *rows[2:]] == read_rows(README)


def test_a_failed_benchmark_leaves_the_readme_as_it_is(readme_copy: Path) -> None:
    name, result, _ = RESULTS[2]
    assert main([name, "--update-readme"], readme_copy, printing(result, status=1)) == 1
    assert readme_copy.read_text("utf-8") == README


@pytest.mark.parametrize("arguments", [["batch", "--quick", "--update-readme"], ["--update-readme"], ["--quick"], ["unknown"]])
def test_what_cannot_be_run_or_written_is_refused_in_a_sentence(
    arguments: list[str], readme_copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments, readme_copy, never)
    assert stopped.value.code == 2
    assert re.search(r"figures of --quick are not written|name the benchmarks|there is no benchmark", capsys.readouterr().err)
    assert readme_copy.read_text("utf-8") == README


def test_a_readme_without_the_table_and_a_cell_that_would_end_early_are_refused(tmp_path: Path) -> None:
    empty = tmp_path / "README.md"
    empty.write_text("# No table\n", "utf-8")
    with pytest.raises(ValueError, match="no table of measurements"):
        main(["batch", "--update-readme"], empty, never)
    with pytest.raises(ValueError, match="four cells"):
        replace_row(README, Row("python -m tests.benchmarks.batch", "a|b", "found"))
