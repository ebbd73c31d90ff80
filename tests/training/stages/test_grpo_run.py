"""GRPO as a run: killed at any moment it goes on to the very weights it would have had, and the product opens what it made."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.support.file_limit import file_limit
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.local.checkpoint.loader import open_checkpoint
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput, CheckpointError
from vrthinker_core.training.labelled_pairs.pair_set import DrawnPairSet
from vrthinker_core.training.monitor.metrics import METRICS, StepMetrics, read_metrics
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.training.run import training_memory
from vrthinker_core.training.run.config import OptimizerConfig, TrainConfig, changed_config, preset_config
from vrthinker_core.training.run.processes import Processes
from vrthinker_core.training.run.run_folder import RunFolder, TrainingRun, open_run_folder
from vrthinker_core.training.run.sitting import Sitting, begin_sitting
from vrthinker_core.training.stages import grpo
from vrthinker_core.training.stages.grpo import learning_rate, run_grpo, step_settings
from vrthinker_core.ui.runs.folder_readers import TraceFiles

SHORT = [
    *("settings.max_turns=1", "grpo.pairs=1", "grpo.samples=3", "grpo.steps=2", "grpo.redraws=1", "grpo.temperature=1.6"),
    *("checkpoint_minutes=0.000001", "grpo.optimizer.learning_rate=0.001", "grpo.shown_every=2"),
]
PAIRS = DrawnPairSet(5, frame_size=56)
RUN = TrainingRun("grpo", "nano", "drawn")


def short_config() -> TrainConfig:
    return changed_config(preset_config("nano"), SHORT)


def train(
    out: Path, sitting: Sitting, *, resume: bool = True, shown: LabelledPair | None = None, config: TrainConfig | None = None
) -> Path | None:
    config = config or short_config()
    with open_run_folder(out, RUN, config, resume=resume) as folder:
        return run_grpo(str(NANO), PAIRS, config, folder, sitting, shown)


def weights(checkpoint: Path | None) -> dict[str, torch.Tensor]:
    assert checkpoint is not None
    return open_checkpoint(str(checkpoint)).model.state_dict()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stopped, and that keeps rollouts."""
    out = tmp_path_factory.mktemp("grpo") / "whole"
    train(out, Sitting(), resume=False, shown=PAIRS.pair(1000))
    return out


def test_a_killed_run_ends_with_the_same_weights(whole: Path, tmp_path: Path) -> None:
    code = f"from tests.training.stages.test_grpo_run import *; train(Path({str(tmp_path)!r}), Sitting())"
    killed = subprocess.Popen([sys.executable, "-c", code])
    try:
        while killed.poll() is None and not list(tmp_path.glob("checkpoints/step-*1.pt")):
            time.sleep(0.05)
        time.sleep(random.random())
    finally:
        killed.kill()
        killed.wait()
    after = weights(train(tmp_path, Sitting(), shown=replace(PAIRS.pair(1000), prompt="word " * 99_000)))  # cannot be shown
    assert all(torch.equal(value, after[name]) for name, value in weights(whole / "checkpoint").items())
    figures = [replace(each, seconds=0) for each in read_metrics(tmp_path)]
    assert figures == [replace(each, seconds=0) for each in read_metrics(whole)]
    assert len((tmp_path / METRICS).read_bytes().splitlines()) == 2


def test_it_learns_with_a_frozen_tower(whole: Path) -> None:
    before, after = weights(NANO), weights(whole / "checkpoint")
    assert all(torch.equal(value, after[name]) for name, value in before.items() if ".visual." in name)
    assert any(not torch.equal(value, after[name]) for name, value in before.items() if ".visual." not in name)
    steps = read_metrics(whole)
    assert [step.step for step in steps] == [1, 2]
    assert all(step.reward_total is not None and 0 <= step.reward_total <= 2.2 for step in steps)
    assert all(
        None not in (step.entropy, step.kl, step.mixed, step.tokens, step.frames, step.calls, step.redrawn) for step in steps
    )


def test_the_page_lists_the_rollouts_of_one_pair(whole: Path) -> None:
    rows = [row for _, row in TraceFiles(whole / "rollouts").news() if row is not None]
    named = [f"grpo-step-{step:05d}-sample-{sample}.json" for step in (0, 2) for sample in (0, 1)]
    assert [row.source for row in rows] == named
    assert not any(row.error for row in rows)
    assert {row.prompt for row in rows} == {PAIRS.pair(1000).prompt}


def test_the_product_opens_what_it_made(whole: Path) -> None:
    made = open_checkpoint(str(whole / "checkpoint"))
    source = open_checkpoint(str(NANO))
    assert made.marker == source.marker
    sizes = [path.stat().st_size for path in (whole / "checkpoint").iterdir()]
    assert max(sizes) < 9_000_000
    assert sum(sizes) < 25_000_000
    spoilt = next((whole / "checkpoint").glob("*.safetensors"))
    data = spoilt.read_bytes()
    spoilt.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="its checksum differs"):
        open_checkpoint(str(whole / "checkpoint"))
    spoilt.write_bytes(data)


def test_who_stops_it_finds_a_checkpoint_and_no_result(tmp_path: Path) -> None:
    heard: list[StepMetrics] = []
    sitting = Sitting(lambda: bool(heard), tell=lambda step, _: heard.append(step))
    assert train(tmp_path, sitting) is None
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000001.pt"]
    assert not (tmp_path / "checkpoint").exists()


def test_who_stops_it_may_give_it_more_steps(whole: Path, tmp_path: Path) -> None:
    heard: list[StepMetrics] = []
    fewer = changed_config(short_config(), ["grpo.steps=9", "grpo.shown_every=1"])
    assert train(tmp_path, Sitting(lambda: bool(heard), tell=lambda step, _: heard.append(step)), config=fewer) is None
    after = weights(train(tmp_path, Sitting()))
    assert [step.step for step in read_metrics(tmp_path)] == [1, 2]
    assert all(torch.equal(value, after[name]) for name, value in weights(whole / "checkpoint").items())


def test_when_the_time_is_over_it_is_done_with_what_it_has(tmp_path: Path) -> None:
    assert train(tmp_path, begin_sitting(not_cancelled, 0)) == tmp_path / "checkpoint"
    after = weights(tmp_path / "checkpoint")
    assert all(torch.equal(value, after[name]) for name, value in weights(NANO).items())


def test_too_little_memory_is_said_before_anything_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_memory, "available_memory", lambda _: 2**30)
    with pytest.raises(BadInput, match=r"takes about 1\.1 GiB of memory, and 1\.0 GiB are free"):
        train(tmp_path, Sitting())
    monkeypatch.setattr(training_memory, "available_memory", lambda _: 2**30 + 60 * 2**20)
    training_memory.require_training_memory(str(NANO), reference=False)
    with pytest.raises(BadInput, match="takes about"):
        training_memory.require_training_memory(str(NANO), reference=False, frozen_vision=False)
    with pytest.raises(BadInput, match="takes about"):
        training_memory.require_training_memory(str(NANO), reference=True)


def test_a_disk_that_fills_while_the_result_is_written_leaves_the_checkpoint(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    with file_limit(2**20), pytest.raises(BadInput, match="What was saved before is there still"):
        train(tmp_path / "run", Sitting())
    assert not (tmp_path / "run" / "checkpoint").exists()
    assert train(tmp_path / "run", Sitting()) == tmp_path / "run" / "checkpoint"
    assert len(read_metrics(tmp_path / "run")) == 2


def test_a_loop_of_one_process_is_not_launched_several_times(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="trains in one process"):
        run_grpo(str(NANO), PAIRS, short_config(), RunFolder(tmp_path, Processes(8, 0)), Sitting())


@pytest.mark.parametrize(("cuda", "trl", "chosen"), [(True, True, "trl"), (True, False, "own"), (False, True, "own")])
def test_trl_is_taken_where_there_is_a_gpu(cuda: bool, trl: bool, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(grpo, "has_trl", lambda: trl)
    assert grpo.chosen_engine(preset_config("7b")) == chosen
    assert grpo.chosen_engine(changed_config(preset_config("7b"), ["grpo.engine=trl"])) == "trl"
    assert grpo.chosen_engine(changed_config(preset_config("7b"), ["grpo.engine=own"])) == "own"


def test_the_learning_rate_rises_then_stays_or_falls() -> None:
    constant = OptimizerConfig(1.0, warm_up=0.4)
    assert [learning_rate(constant, step, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]
    falling = replace(constant, schedule="cosine")
    values = [learning_rate(falling, step, 10) for step in range(10)]
    assert values[:4] == [0.25, 0.5, 0.75, 1]
    assert values[3:] == sorted(values[3:], reverse=True)
    assert 0 < values[-1] < 0.1


def test_every_step_samples_anew() -> None:
    seeds = {step_settings(replace(short_config(), seed=seed), step).seed for seed in range(3) for step in range(20)}
    assert len(seeds) == 60


def test_rollouts_are_sampled_as_they_are_scored_without_a_repetition_penalty(tmp_path: Path) -> None:
    judge = shutil.copytree(NANO, tmp_path / "judge")
    (judge / "vrthinker.json").unlink()
    stated = json.loads((judge / "generation_config.json").read_text("utf-8")) | {"repetition_penalty": 1.05}
    (judge / "generation_config.json").write_text(json.dumps(stated), "utf-8")
    assert TransformersBackend.load(str(judge)).loaded.repetition_penalty == 1.05
    assert grpo.make_learner(str(judge), short_config()).judge.loaded.repetition_penalty == 1.0
