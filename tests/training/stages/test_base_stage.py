"""The stage `base` in a run folder: what is kept of it, how long it lasts, and that nothing goes on from what reads too little."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.half_training import missed_gates
from vrthinker_core.training.base.model.base_checkpoint import write_checkpoint
from vrthinker_core.training.base.model.model_shape import model_config, new_model
from vrthinker_core.training.base.model.vocabulary import control_ids, make_tokenizer
from vrthinker_core.training.base.train_base import BaseOptions, TrainedBase, train_base
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.run.config import BaseConfig, LanguageGates, VisionGates, changed_config, preset_config
from vrthinker_core.training.run.processes import Processes
from vrthinker_core.training.run.run_folder import RunFolder, TrainingRun, open_run_folder
from vrthinker_core.training.run.sitting import begin_sitting
from vrthinker_core.training.stages.base import BaseProgress, base_minutes, base_options, check_learnt, train_base_stage, world_of
from vrthinker_core.training.stages.gates import check_base

RUN = TrainingRun("base", "", "")


def test_a_part_that_reads_too_little_is_named_with_its_figures_and_what_to_do() -> None:
    missed = {"language": ["rare motion"], "vision": ["shape", "place"]}
    trained = TrainedBase(Path("model"), {"vision": {"shape": 0.4321, "place": 0.5}, "language": {}}, missed)
    with pytest.raises(BadInput, match=r"its language reads too little \(rare motion 0\.00\) and its vision") as refused:
        check_base(trained)
    assert "(shape 0.43, place 0.50)" in str(refused.value)
    assert "--set gates.language.rare_motion=" in str(refused.value)


def test_a_base_that_reads_enough_goes_on() -> None:
    check_base(TrainedBase(Path("model"), {"vision": {"shape": 0.99}}, {}))


def test_a_gate_is_missed_below_its_share_and_where_nothing_was_read() -> None:
    figures = {"colour": 0.97, "shape": 0.95, "state": 1.0}
    assert missed_gates(figures, VisionGates()) == ["shape", "place"]
    assert missed_gates(figures, VisionGates(shape=0.95, place=0.0)) == []
    assert missed_gates({"rare motion": 0.5}, LanguageGates(rare_motion=0.5, damage=0, words=0)) == []


def test_the_gates_of_a_run_are_those_that_its_parts_are_trained_to() -> None:
    config = changed_config(preset_config("nano"), ["gates.vision.place=0.5", "gates.language.rare_motion=0.25"])
    options = base_options(config, 30)
    assert options.vision.gates == VisionGates(place=0.5)
    assert options.language.gates == LanguageGates(rare_motion=0.25)


def test_a_run_goes_on_with_more_minutes_and_lower_gates_and_nothing_else_changed(tmp_path: Path) -> None:
    config = preset_config("nano")
    with open_run_folder(tmp_path / "run", RUN, config, resume=False) as folder:
        (folder.path / "metrics.jsonl").write_text("a step\n")
    longer = changed_config(config, ["base.minutes=300", "gates.language.rare_motion=0.8"])
    with open_run_folder(tmp_path / "run", RUN, longer, resume=True) as folder:
        assert folder.state.starts == 2
    for change in ("grpo.samples=3", "gates.pairs=3"):  # with others held out, a stage would learn from other pairs
        with (
            pytest.raises(BadInput, match=change.partition("=")[0]),
            open_run_folder(tmp_path / "run", RUN, changed_config(longer, [change]), resume=True),
        ):
            pass
    with open_run_folder(tmp_path / "run", RUN, longer, resume=True) as folder:
        assert folder.state.starts == 3


def test_the_time_of_a_sitting_comes_on_top_of_what_was_spent(tmp_path: Path) -> None:
    base = BaseConfig(minutes=100)
    assert base_minutes(base, tmp_path, begin_sitting(not_cancelled, None)) == 100
    assert base_minutes(base, tmp_path, begin_sitting(not_cancelled, 10)) == pytest.approx(10, abs=0.1)
    (tmp_path / "vision.jsonl").write_text(json.dumps({"minutes": 8.0}) + "\n", "utf-8")
    assert base_minutes(base, tmp_path, begin_sitting(not_cancelled, 10)) == pytest.approx(20, abs=0.1)
    assert base_minutes(replace(base, minutes=15), tmp_path, begin_sitting(not_cancelled, 10)) == 15


def test_a_base_that_has_learnt_nothing_is_said_before_a_teacher_plays(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(["A red ball moves right across the sand."])
    model = new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer)), 0)
    write_checkpoint(model, tokenizer, tmp_path)
    with pytest.raises(BadInput, match="learnt next to nothing"):
        check_learnt(tmp_path)
    check_learnt(NANO)


@pytest.mark.parametrize("source", ["init_from", "tower_from"])
def test_a_checkpoint_that_the_base_cannot_begin_with_is_said_before_anything_is_kept(source: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot begin with nowhere"):
        train_base(replace(BaseOptions(), **{source: Path("nowhere")}), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_base_is_not_launched_several_times(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="without accelerate launch"):
        train_base_stage(preset_config("nano"), RunFolder(tmp_path, Processes(2, 1)), begin_sitting(not_cancelled, None))


def test_photographs_are_those_of_the_folder_that_is_named(tmp_path: Path) -> None:
    assert world_of(BaseConfig(photos=str(tmp_path))).photos == tmp_path
    assert world_of(BaseConfig()).photos is None
    assert world_of(BaseConfig()).second


def test_a_step_of_a_part_lasts_as_long_as_its_part_says(tmp_path: Path) -> None:
    (tmp_path / "vision.jsonl").write_text(json.dumps({"step": 100, "minutes": 10.0}) + "\n", "utf-8")
    heard: list[tuple[StepMetrics, int]] = []
    sitting = replace(begin_sitting(not_cancelled, None), tell=lambda step, total: heard.append((step, total)))
    progress = BaseProgress(base_options(preset_config("nano"), 100), tmp_path, sitting)
    progress("vision", {"step": 110, "minutes": 11.0, "loss": 2.0})
    progress("language", {"step": 30, "minutes": 1.0, "loss": 1.0})
    assert [(step.stage, step.step, step.seconds) for step, _ in heard] == [("base vision", 110, 6.0), ("base language", 30, 2.0)]
    assert [total for _, total in heard] == [800, 2400]  # in 80 minutes
