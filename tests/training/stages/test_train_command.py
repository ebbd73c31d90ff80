"""`train` as a person types it: all stages from one command, and every refusal in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from vrthinker_core.backends.local.checkpoint.loader import open_checkpoint

ROOT = Path(__file__).resolve().parents[3]
FEW = (
    *("settings.max_turns=1", "cold_start.traces=2", "cold_start.sft.epochs=1", "cold_start.sft.batch=2"),
    *("rejection.pairs=4", "rejection.samples=2", "rejection.sft.epochs=1", "rejection.sft.batch=2"),
    *("grpo.pairs=2", "grpo.samples=2", "grpo.steps=1", "grpo.redraws=1", "gates.pairs=1", "gates.samples=2", "gates.headroom=0"),
)


def train(*arguments: object) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "vrthinker_core", "train", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, (done.stderr + done.stdout).strip().splitlines()


def refused(*arguments: object) -> str:
    code, lines = train(*arguments)
    assert code == 2
    assert len(lines) == 1
    return lines[0]


def test_all_stages_from_one_command(tmp_path: Path) -> None:
    chosen = [word for change in FEW for word in ("--set", change)]
    out = tmp_path / "run"
    begun = ("all", "--model", "nano", "--teacher", "nano", "--data", "drawn:1", "--out", out)
    code, lines = train(*begun, *chosen)
    assert (code, lines[-1:]) == (0, [f"Trained: {out / 'checkpoint'}"]), lines
    assert open_checkpoint(str(out / "checkpoint")).folder == out / "checkpoint"
    states = {stage: json.loads((out / stage / "state.json").read_text()) for stage in ("cold-start", "rejection", "grpo")}
    assert all(state["done"] for state in states.values())
    assert all((out / stage / "metrics.jsonl").stat().st_size for stage in states)
    assert train(*begun, "--resume") == (0, [f"This run is done: {out / 'checkpoint'}"])
    assert "holds this run already" in refused(*begun, *chosen)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("grpo", "--model", "nano", "--data", "drawn:x"), "drawn:x names no seed"),
        (("grpo", "--model", "nano", "--data", "nowhere.csv"), "There is no file or folder"),
        (("cold-start", "--model", "nano", "--data", "drawn:1"), "name it with --teacher"),
        (("grpo", "--model", "missing-folder", "--data", "drawn:1"), "There is no folder missing-folder"),
        (("grpo", "--model", "nano", "--data", "drawn:1", "--set", "grpo.stepps=3"), "names no setting"),
        (("grpo", "--model", "nano", "--data", "drawn:1", "--minutes", "0"), "leaves no time"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in refused(*arguments, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a.mp4,b.mp4,A ball.,1", "a.mp4"),
        ("{clip},{clip},A ball.,7", "7"),
    ],
)
def test_broken_data_are_refused_in_one_line(rows: str, said: str, clips: tuple[Path, Path], tmp_path: Path) -> None:
    table = tmp_path / "pairs.csv"
    table.write_text("video1,video2,prompt,OA\n" + rows.format(clip=clips[0]) + "\n")
    assert said in refused("grpo", "--model", "nano", "--data", table, "--out", tmp_path / "run")


def test_a_model_of_another_kind_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert "is a 'llama' model" in refused("grpo", "--model", tmp_path, "--data", "drawn:1", "--out", tmp_path / "run")
