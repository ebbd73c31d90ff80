"""`train` as a person types it: all stages from one command, and every refusal in one line."""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser

import vrthinker_core
from tests.test_cli import call
from tests.training.test_teacher import SCRIPT
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.commands.train_command import (
    chosen_teacher,
    named_model,
    open_training_data,
)
from vrthinker_core.errors import BadInput
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.estimate import chosen_preset, model_shape
from vrthinker_core.training.run_folder import TrainedStage, TrainingRun
from vrthinker_core.training.stages import STAGES, TrainingData
from vrthinker_core.ui.runs_tab import TraceFiles

FEW = (
    "settings.max_turns=1 cold_start.traces=1 cold_start.num_train_epochs=1 cold_start.per_device_train_batch_size=2 "
    "rejection.pairs=1 rejection.samples=2 rejection.most=1 rejection.num_train_epochs=1 rejection.per_device_train_batch_size=2 "
    "grpo.pairs=1 grpo.num_generations=2 grpo.max_steps=1 held_out_pairs=1"
)
PACKAGE = Path(vrthinker_core.__file__).parent
LAUNCH_LINES = re.findall(
    r"^accelerate launch .+$", (PACKAGE / "training" / "README.md").read_text("utf-8"), re.M
)


def train(*arguments: object) -> tuple[int, list[str]]:
    """What a person types, in this process, and the lines that are printed."""
    code, said, errors = call("train", *arguments)
    return code, (said + errors).strip().splitlines()


def refused(*arguments: object) -> str:
    code, lines = train(*arguments)
    said = [line for line in lines if not line.startswith("Preset ")]
    assert (code, len(said)) == (2, 1)
    return said[0]


def test_all_stages_from_one_command(tmp_path: Path) -> None:
    chosen = [word for change in FEW.split() for word in ("--set", change)]
    out = tmp_path / "run"
    begun = ("all", "--teacher", "nano", "--data", "drawn:1", "--out", out)
    code, lines = train(*begun, *chosen)
    assert code == 0, lines
    assert f"Trained: {out / 'checkpoint'}" in lines
    assert any(line.startswith("1 run chosen to learn from") for line in lines)
    opened = open_checkpoint(str(out / "checkpoint"))
    assert opened.folder == out / "checkpoint"
    assert opened.marker.protocols == open_checkpoint(str(NANO)).marker.protocols
    assert max(path.stat().st_size for path in opened.folder.iterdir()) < 9 * 2**20
    states = [json.loads((out / stage / "state.json").read_text()) for stage in STAGES]
    assert [(state["done"], state["model"]) for state in states] == [
        (True, model) for model in ("nano", "the result of cold-start", "the result of rejection")
    ]
    for stage in STAGES:
        assert (out / stage / "metrics.jsonl").stat().st_size
        rollouts = TraceFiles(out / stage / "rollouts").news()
        assert [row.told["error"] for _, row in rollouts if row is not None] == [""] * 2
    done = (0, [f"This run is done: {out / 'checkpoint'}"])
    assert train(*begun, "--resume") == train("all", "--out", out, "--resume") == done
    other = refused("all", "--data", "drawn:2", "--out", out, "--resume")
    assert "holds a run with data 'drawn:1' instead of 'drawn:2'" in other
    assert "holds this run already" in refused(*begun, *chosen)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("grpo --model nano --data nowhere.csv", "There is no file or folder"),
        ("all --model nano --data traces:nowhere", "nowhere: name the training data as"),
        ("all --data drawn:1 --teacher scripted:nowhere.jsonl", "nowhere.jsonl"),
        ("grpo --data drawn:1", "--model is missing"),
        ("base", "'base' is not one of"),
        ("all", "--data is missing"),
        ("grpo --model nano --data drawn:1 --set grpo.vllm_mode=here", "'colocate' or 'server'"),
        ("grpo --estimate --gpus 0", "--gpus 0"),
        ("grpo --model missing-folder --data drawn:1", "There is no folder missing-folder"),
        ("grpo --model nano --data drawn:1 --minutes 0", "leaves no time"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_a_line(typed: str, said: str, tmp_path: Path) -> None:
    assert said in refused(*typed.split(), "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("stage", ["cold-start", "rejection", "grpo", "all"])
def test_every_stage_takes_trl(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    said = refused(stage, "--model", "nano", "--data", "drawn:1", "--out", tmp_path / "run")
    assert said.endswith("takes trl: run pip install -e '.[train]'.")


def test_drawn_pairs_have_the_teacher_that_knows_them_and_code_teaches_beforehand() -> None:
    assert chosen_teacher("cold-start", "drawn:1", None) == "scripted"
    assert chosen_teacher("cold-start", "drawn:1", "server:other") == "server:other"
    assert chosen_teacher("cold-start", "pairs.csv", None) is None
    with pytest.raises(BadInput, match="`teacher --judge python:os:abort` first"):
        taught_data("cold-start", "drawn:1", "python:os:abort")


def taught_data(stage: TrainedStage, data: str, teacher: str, *changes: str) -> TrainingData:
    config = changed_config(preset_config("nano"), changes)
    return open_training_data(TrainingRun(stage, "nano", data, teacher), config)


def test_the_scripted_teacher_speaks_all_protocols_of_the_model_in_turn() -> None:
    for change, spoken in (
        ("seed=1", ["paired", "concat"]),
        ("settings.protocol=concat", ["concat"] * 2),
    ):
        teacher = taught_data("all", "drawn:1", "scripted", change).teacher
        judge, pairs = teacher.open(), [*map(teacher.pairs.pair, range(2))]
        assert [protocol for pair in pairs for protocol in judge(pair).protocols] == spoken
        assert [pair.protocol for pair in pairs] == spoken


def test_a_run_that_goes_on_keeps_its_teacher_and_knows_its_data_from_anywhere(
    clips: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, table, out = tmp_path / "script.jsonl", tmp_path / "pairs.csv", tmp_path / "run"
    script.write_text(SCRIPT)
    rows = [f"{clips[0]},{clips[1]},A ball {n}.,1\n" for n in range(3)]
    table.write_text("video1,video2,prompt,OA\n" + "".join(rows[:2]))
    monkeypatch.chdir(tmp_path)
    begun = ("cold-start", "--model", "nano", "--data", "pairs.csv", "--data", "drawn:1=0.5")
    begun += ("--out", out)
    changes = f"{FEW} settings.max_new_tokens=24".split()
    chosen = [word for change in changes for word in ("--set", change)]
    code, lines = train(*begun, "--teacher", f"scripted:{script}", *chosen)
    assert code == 0, lines
    assert any("hold 2 prompts, too few to divide" in line for line in lines)
    before = table.read_text()
    table.write_text(before + rows[2])
    assert "with digest of the pairs" in refused("cold-start", "--out", out, "--resume")
    table.write_text(before)
    assert "instead of 'nano'" in refused(*begun, "--resume", "--teacher", "nano")
    assert json.loads((out / "state.json").read_text())["data"] == f"{table}\ndrawn:1=0.5"
    monkeypatch.chdir(clips[0].parent)
    done = (0, [f"This run is done: {out / 'checkpoint'}"])
    assert train("cold-start", "--out", out, "--resume") == done


def test_a_folder_is_known_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cold").mkdir()
    monkeypatch.chdir(tmp_path)
    models = ("cold", "nano", "Qwen/Qwen2.5-VL-7B-Instruct")
    assert [*map(named_model, models)] == [str(tmp_path / "cold"), *models[1:]]


@pytest.mark.parametrize("line", LAUNCH_LINES)
def test_a_launch_line_of_the_readme_is_understood(line: str) -> None:
    """By accelerate as far as the command, and then by the command; what it names fits into the GPUs it is for."""
    words = shlex.split(line.replace("$RECIPES", str(PACKAGE / "training/recipes")))
    launched = launch_command_parser().parse_args(words[2:])
    gpus = load_config_from_file(launched.config_file).num_processes
    assert (launched.module, launched.training_script) == (True, "vrthinker_core")
    command, *arguments = launched.training_script_args
    assert command == "train"
    model = arguments.index("--model")
    code, lines = train(*arguments[:model], *arguments[model + 2 :], "--estimate", "--gpus", gpus)
    assert code == 0, lines
    assert any(said.endswith(", fits") for said in lines)


def test_an_estimate_needs_neither_model_nor_data() -> None:
    code, lines = train(
        "all", "--preset", "7b", "--estimate", "--gpus", "4", "--set", "grpo.beta=0"
    )
    assert code == 0
    assert sum("on 4 GPUs" in line for line in lines) == 3
    with_reference = train("grpo", "--preset", "7b", "--estimate")[1]
    for told, referred in ((lines, False), (with_reference, True)):
        assert any(line.split()[0] == "reference" for line in told) is referred
    small = train("grpo", "--model", "nano", "--estimate", "--gpus", "1")[1]
    assert small[0] == "Preset nano, for a model of 7,671,296 weights."
    assert any("fits" in line for line in small)
    assert train("cold-start", "--estimate")[1][0].startswith("Preset 7b, for a model of 8,29")


def test_what_cannot_run_ends_with_a_sentence_before_anything_is_loaded(tmp_path: Path) -> None:
    code, lines = train("grpo", "--estimate", "--set", "grpo.vllm_mode=")
    assert (code, lines[-1].partition(":")[0]) == (2, "The stage grpo cannot run so")
    few = ("cold-start", "--set", "cold_start.traces=60")
    code, lines = train(*few, "--estimate")
    assert code == 2
    assert "it would make 12 optimizer steps of least_steps=30" in lines[-1]
    own = ("--preset", "7b", "--model", "nano", "--data", "drawn:1", "--out", tmp_path / "run")
    assert "it would make 12 optimizer" in refused(
        *few, *own, "--set", "cold_start.gradient_accumulation_steps=60"
    )
    assert not (tmp_path / "run" / "teacher").exists()


def test_a_model_without_a_preset_is_named() -> None:
    shape = model_shape()
    assert chosen_preset(shape) == "7b"
    with pytest.raises(BadInput, match=r"for a model of 0\.51 billion weights"):
        chosen_preset(replace(shape, language=500_000_000, vision=10_000_000))
