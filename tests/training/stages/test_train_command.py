"""`train` as a person types it: all stages from one command, and every refusal in one line."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser

import vrthinker_core
from tests.training.test_teacher import SCRIPT
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.cli import main
from vrthinker_core.commands.train_command import chosen_teacher, named_places, open_training_data
from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.errors import BadInput
from vrthinker_core.training.config import changed_config, preset_config
from vrthinker_core.training.pair_set import kept_rollouts
from vrthinker_core.training.pipeline import STAGES, TrainingData
from vrthinker_core.training.run_folder import TrainedStage, TrainingRun, open_run_folder
from vrthinker_core.training.teacher import TeacherJob, run_teacher
from vrthinker_core.ui.runs_tab import TraceFiles

FEW = (
    "settings.max_turns=1 cold_start.traces=2 cold_start.sft.epochs=1 cold_start.sft.batch=2 "
    "rejection.pairs=4 rejection.samples=2 rejection.sft.epochs=1 rejection.sft.batch=2 "
    "grpo.pairs=2 grpo.samples=2 grpo.steps=1 gates.pairs=1 gates.samples=2 gates.headroom=0"
)
PACKAGE = Path(vrthinker_core.__file__).parent
LAUNCH_LINES = re.findall(
    r"^accelerate launch .+$", (PACKAGE / "training" / "README.md").read_text("utf-8"), re.M
)


def train(*arguments: object) -> tuple[int, list[str]]:
    """In this process: what a person types, and the lines that are printed."""
    out, patch = io.StringIO(), pytest.MonkeyPatch()
    patch.setattr(sys, "argv", ["vrthinker_core", "train", *map(str, arguments)])
    with (
        patch.context(),
        redirect_stdout(out),
        redirect_stderr(out),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    patch.undo()
    return int(ended.value.code or 0), out.getvalue().strip().splitlines()


def refused(*arguments: object) -> str:
    code, lines = train(*arguments)
    assert code == 2
    assert len(lines) == 1
    return lines[0]


def test_all_stages_from_one_command(tmp_path: Path) -> None:
    chosen = [word for change in FEW.split() for word in ("--set", change)]
    out = tmp_path / "run"
    begun = ("all", "--teacher", "nano", "--data", "drawn:1", "--out", out)
    code, lines = train(*begun, *chosen)
    assert (code, lines[-1:]) == (0, [f"Trained: {out / 'checkpoint'}"]), lines
    assert open_checkpoint(str(out / "checkpoint")).folder == out / "checkpoint"
    states = [json.loads((out / stage / "state.json").read_text()) for stage in STAGES]
    assert [(state["done"], state["model"]) for state in states] == [
        (True, model) for model in ("nano", "the result of cold-start", "the result of rejection")
    ]
    for stage in STAGES:
        assert (out / stage / "metrics.jsonl").stat().st_size
        rollouts = TraceFiles(out / stage / "rollouts").news()
        assert [row.told["error"] for _, row in rollouts if row is not None] == [""] * 2
    assert any("in one process, with the whole conversation in view" in line for line in lines)
    done = (0, [f"This run is done: {out / 'checkpoint'}"])
    assert train(*begun, "--resume") == train("all", "--out", out, "--resume") == done
    other = refused("all", "--data", "drawn:2", "--out", out, "--resume")
    assert "holds a run with data 'drawn:1' instead of 'drawn:2'" in other
    assert "holds this run already" in refused(*begun, *chosen)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("grpo --model nano --data nowhere.csv", "There is no file or folder"),
        ("cold-start --model nano --data nowhere", "nowhere: name the training data as"),
        ("all --model nano --data traces:nowhere", "nowhere: name the training data as"),
        ("all --data drawn2:1:nowhere", "nowhere holds no picture"),
        ("all --data drawn:1 --teacher scripted:nowhere.jsonl", "nowhere.jsonl"),
        ("all --data drawn:1 --teacher hf:./nowhere", "nowhere"),
        ("grpo --data drawn:1", "--model is missing"),
        ("base", "'base' is not one of"),
        ("all", "--data is missing"),
        ("grpo --model nano", "--data is missing"),
        ("grpo --model nano --data drawn:1 --set grpo.trl.vllm=here", "'colocate' or 'server'"),
        ("grpo --estimate --gpus 0", "--gpus 0"),
        ("grpo --model missing-folder --data drawn:1", "There is no folder missing-folder"),
        ("grpo --model nano --data drawn:1 --set grpo.stepps=3", "names no setting"),
        ("grpo --model nano --data drawn:1 --minutes 0", "leaves no time"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(
    typed: str, said: str, tmp_path: Path
) -> None:
    assert said in refused(*typed.split(), "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("stage", ["cold-start", "rejection", "grpo", "all"])
def test_every_stage_takes_trl_and_says_so(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trl", None)
    said = refused(stage, "--model", "nano", "--data", "drawn:1", "--out", tmp_path / "run")
    assert said.endswith("takes trl: run pip install -e '.[train]'.")


@pytest.mark.parametrize("stage", ["all", "base"])
@pytest.mark.parametrize("more", [(), ("--resume",), ("--resume", "--preset", "nano")])
def test_a_run_with_the_stage_base_is_refused_in_one_line(
    stage: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    run = TrainingRun("all", "nano", "drawn:1")
    with open_run_folder(tmp_path, run, preset_config("nano"), resume=False):
        (tmp_path / "base").mkdir()
        (tmp_path / "base" / "metrics.jsonl").write_text("a step\n")
    changes = {"state": {"stage": stage, "model": ""}, "config": {"base": {"minutes": 150.0}}}
    for name, change in changes.items():
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(json.loads(file.read_bytes()) | change))
    said = refused("all", "--data", "drawn:1", "--out", tmp_path, *more)
    assert "which is gone: name a new folder, and its checkpoint with --model" in said


def test_drawn_pairs_have_the_teacher_that_knows_them() -> None:
    assert chosen_teacher("cold-start", "drawn:1", None) == "scripted"
    assert chosen_teacher("cold-start", "drawn2:1", "server:other") == "server:other"
    assert chosen_teacher("cold-start", "pairs.csv", None) is None


def test_a_teacher_that_is_code_is_not_opened_by_a_folder() -> None:
    with pytest.raises(BadInput, match="`teacher --judge python:os:abort` first"):
        taught_data("cold-start", "drawn:1", "python:os:abort")


def taught_data(stage: TrainedStage, data: str, teacher: str, *changes: str) -> TrainingData:
    config = changed_config(preset_config("nano"), changes)
    return open_training_data(TrainingRun(stage, "nano", data, teacher), config)


def test_the_scripted_teacher_speaks_all_protocols_of_the_model_in_turn(tmp_path: Path) -> None:
    teacher = taught_data("all", "drawn2:1", "scripted").teacher
    assert teacher.pairs is not None
    job = TeacherJob("scripted", "drawn2:1")
    made = list(run_teacher(teacher.pairs, range(8), teacher.open(), job, tmp_path))
    kept = [outcome for outcome in made if outcome.kept]
    assert len(kept) >= 5
    stored = kept_rollouts(tmp_path, teacher.pairs, keep_tokens=False)
    for outcome, run in zip(kept, (each.rollout.run for each in stored), strict=True):
        assert run.started.dialect == ("paired", "concat")[outcome.pair % 2]
        last = max(frame.index for frame in run.turns[0].frames)
        assert last >= FRAMES // 2, "the first frames are spread over the whole clip"


def test_a_chosen_protocol_is_the_only_one_of_the_teacher() -> None:
    teacher = taught_data("all", "drawn2:1", "scripted", "settings.protocol=concat").teacher
    judge = teacher.open()
    assert callable(judge)
    assert {judge(number).protocols for number in range(3)} == {("concat",)}


def test_a_checkpoint_that_teaches_is_not_read_before_it_plays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(TransformersBackend, "load", lambda source, **_: opened.append(source))
    teacher = taught_data("cold-start", "drawn:1", "nano").teacher
    assert not opened
    teacher.open()
    assert opened == [str(NANO)]


def test_a_run_that_goes_on_keeps_its_teacher_and_knows_its_data_from_anywhere(
    clips: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, table, out = tmp_path / "script.jsonl", tmp_path / "pairs.csv", tmp_path / "run"
    script.write_text(SCRIPT)
    rows = [f"{clips[0]},{clips[1]},A ball {n}.,1\n" for n in range(3)]
    table.write_text("video1,video2,prompt,OA\n" + "".join(rows[:2]))
    monkeypatch.chdir(tmp_path)
    begun = ("cold-start", "--model", "nano", "--data", "pairs.csv", "--out", out)
    changes = f"{FEW} settings.max_new_tokens=24".split()
    chosen = [word for change in changes for word in ("--set", change)]
    code, lines = train(*begun, "--teacher", f"scripted:{script}", *chosen)
    assert code == 0, lines
    done = (0, [f"This run is done: {out / 'checkpoint'}"])
    before = table.read_text()
    table.write_text(before + rows[2])
    assert "holds other pairs than when the run" in refused("cold-start", "--out", out, "--resume")
    table.write_text(before)
    monkeypatch.chdir(clips[0].parent)
    assert train("cold-start", "--out", out, "--resume") == done
    monkeypatch.chdir(tmp_path)
    assert "instead of 'nano'" in refused(*begun, "--resume", "--teacher", "nano")
    state = json.loads((out / "state.json").read_text())
    assert state["data"] == str(table)
    del state["teacher"]  # as a run of an earlier version left it
    state["data"] = "pairs.csv"
    (out / "state.json").write_text(json.dumps(state))
    assert "name the judge with --teacher" in refused(*begun, "--resume")
    assert train(*begun, "--resume", "--teacher", f"scripted:{script}") == done
    assert train("cold-start", "--out", out, "--resume") == done


def test_a_model_in_a_folder_is_known_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cold").mkdir()
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    models = ("cold", "nano", "Qwen/Qwen2.5-VL-7B-Instruct")
    known = [named_places(model, "", out)[0] for model in models]
    assert known == [str(tmp_path / "cold"), *models[1:]]
    earlier = TrainingRun("grpo", "cold", "drawn:1")
    with open_run_folder(out, earlier, preset_config("nano"), resume=False):
        assert named_places(str(tmp_path / "cold"), "drawn:1", out) == ("cold", "drawn:1")


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
    code, lines = train("all", "--preset", "7b", "--estimate", "--gpus", "4", "--set", "grpo.kl=0")
    assert code == 0
    heads = [line for line in lines if "on 4 GPUs" in line]
    assert [line.split()[0] for line in heads] == ["cold-start", "rejection", "grpo"]
    assert not any(line.split()[0] == "reference" for line in lines)
    with_reference = train("grpo", "--preset", "7b", "--estimate")[1]
    assert any(line.split()[0] == "reference" for line in with_reference)
    small = train("grpo", "--model", "nano", "--estimate", "--gpus", "1")[1]
    assert any("fits" in line for line in small)
