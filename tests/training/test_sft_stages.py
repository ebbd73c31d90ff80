"""Cold start and rejection sampling as stages: what they learn from and what stops them."""

from __future__ import annotations

import json
import shutil
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.file_limit import file_limit
from tests.training.random_judges import random_judge
from tests.training.test_teacher import KNOWING, PAIRS, SCRIPTED
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.backends.judge_name import NANO
from vrthinker_core.errors import BadInput
from vrthinker_core.training.config import TrainConfig, changed_config, preset_config
from vrthinker_core.training.filters import read_outcomes
from vrthinker_core.training.metrics import StepMetrics, read_metrics
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.training.run_folder import StageRun, TimeBudget, TrainingRun, open_run_folder
from vrthinker_core.training.stages import TrainingData, train_all, train_stage
from vrthinker_core.training.teacher import BackendOfPair, run_teacher

RUN = TrainingRun("cold-start", "nano", "drawn:3")
FEW = (
    "settings.max_new_tokens=24 cold_start.traces=2 cold_start.per_device_train_batch_size=1 "
    "cold_start.num_train_epochs=1 checkpoint_minutes=0.000001"
)
SURE = (
    "settings.max_new_tokens=512 settings.max_turns=1 rejection.samples=1 rejection.temperature=0.1 "
    "rejection.pairs=3 rejection.num_train_epochs=2"
)
CONFIG = changed_config(preset_config("nano"), FEW.split())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_judge(tmp_path_factory.mktemp("tiny"))


def learn(
    model: Path,
    out: Path,
    data: TrainingData,
    budget: TimeBudget | None = None,
    config: TrainConfig = CONFIG,
    stage: str = "cold-start",
) -> Path | None:
    with open_run_folder(out, replace(RUN, stage=stage), config, resume=True) as folder:
        run = StageRun(str(model), config, folder, budget or TimeBudget())
        return train_stage(stage, run, data)


def test_a_teachers_folder_is_learnt_from_but_for_held_out_pairs(
    tiny: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    list(run_teacher(KNOWING, range(3), tmp_path / "taught"))
    data = TrainingData(PairSet(PAIRS.pair, 3), runs=tmp_path / "taught")
    few = "traces=4 learning_rate=0.003 lr_scheduler_type=constant_with_warmup warmup_steps=0"
    config = changed_config(CONFIG, [f"cold_start.{change}" for change in few.split()])
    made = learn(tiny, tmp_path / "run", data, TimeBudget(say=said.append), config)
    assert made == tmp_path / "run" / "checkpoint"
    held_out = "2 of 3 runs pass the filters; 1 not: its pair is held out to measure with."
    assert said == [held_out, "Rows to learn from: 2, in 2 optimizer steps of 1."]
    steps = [(each.step, each.learning_rate) for each in read_metrics(tmp_path / "run")]
    assert steps == [(1, 0.003), (2, 0.003)]


KNOWN = TrainingData(PAIRS, KNOWING)


def test_a_hopeless_teacher_is_given_up(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = ScriptedBackend(["No."], protocol="paired")
    monkeypatch.setattr("vrthinker_core.training.stages.HOPELESS", 3)
    with pytest.raises(BadInput, match="No run passes the filters"):
        learn(tiny, tmp_path, replace(KNOWN, teacher=replace(KNOWING, open=lambda: silent)))


def test_a_teacher_is_there_only_while_it_plays(tiny: Path, tmp_path: Path) -> None:
    opened: list[Callable[[], object]] = []
    there: dict[str, bool] = {}

    def teacher() -> BackendOfPair:
        judge = partial(SCRIPTED)
        opened.append(weakref.ref(judge))
        return judge

    def tell(step: StepMetrics, _: int) -> None:
        there[step.stage] = opened[0]() is not None

    data = TrainingData(PAIRS, replace(KNOWING, open=teacher))
    learn(tiny, tmp_path, data, TimeBudget(tell=tell))
    assert there == {"teacher": True, "rows": False, "cold-start": False}


def concat(pair: LabelledPair) -> ScriptedBackend:
    """Knows the pair, and speaks concat."""
    said = ", ".join(f"{name}={n}" for name, n in pair.truth.labels.items())
    text = f"<snapshot>a</snapshot><think>b</think><final answer>{said}</final answer>"
    return ScriptedBackend([text], protocol="concat")


SPEAKS_CONCAT = replace(KNOWN, teacher=replace(KNOWING, open=lambda: concat))


def test_a_model_learns_the_protocols_that_it_names_or_where_it_names_none_those_of_its_runs(
    tiny: Path, tmp_path: Path
) -> None:
    made = learn(tiny, tmp_path / "run", SPEAKS_CONCAT)
    assert open_checkpoint(str(made)).marker.protocols == ("concat",)
    model = Path(shutil.copytree(tiny, tmp_path / "model"))
    (model / MARKER).write_text(json.dumps({"protocol": ["paired"]}), "utf-8")
    with pytest.raises(BadInput, match="speaks concat, and the model was made for paired"):
        learn(model, tmp_path / "other", SPEAKS_CONCAT)


def test_all_stages_stop_at_the_deadline_and_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def trained(stage: str, run: StageRun, _: TrainingData) -> Path:
        begun.append(stage)
        (made := run.folder.path / "made").mkdir()
        (made / stage).touch()
        time.sleep(0.1)
        return run.folder.finish(made)

    monkeypatch.setattr("vrthinker_core.training.stages.train_stage", trained)
    with open_run_folder(tmp_path, replace(RUN, stage="all"), CONFIG, resume=True) as folder:
        short = TimeBudget(deadline=time.monotonic() + 0.05)
        assert train_all(StageRun("nano", CONFIG, folder, short), KNOWN) is None
        assert begun == ["cold-start"]
        assert train_all(StageRun("nano", CONFIG, folder, TimeBudget()), KNOWN) == folder.result
    assert begun == ["cold-start", "rejection", "grpo"]
    assert [path.name for path in folder.result.iterdir()] == ["grpo"]


@pytest.mark.parametrize(
    ("stage", "runs", "changes"),
    [
        ("cold-start", "teacher", "settings.max_new_tokens=24 cold_start.num_train_epochs=2"),
        ("rejection", "samples", SURE),
    ],
)
def test_a_stage_without_time_learns_nothing_and_one_that_was_killed_as_it_learnt_plays_nothing(
    stage: str, runs: str, changes: str, tiny: Path, tmp_path: Path
) -> None:
    config, model = changed_config(CONFIG, changes.split()), NANO if runs == "samples" else tiny
    heard: list[StepMetrics] = []

    def start(killed_at: int = 0, seconds: float = 3600) -> Path | None:
        def tell(step: StepMetrics, _: int) -> None:
            if (step.stage, step.step) == (stage, killed_at):
                raise KeyboardInterrupt
            heard.append(step)

        heard.clear()
        budget = TimeBudget(deadline=time.monotonic() + seconds, tell=tell)
        return learn(model, tmp_path, KNOWN, budget, config, stage)

    assert start(seconds=0) is None
    assert {step.stage for step in heard} == {runs}, "it plays, and learns nothing"
    first = read_outcomes(tmp_path / runs)
    assert len(first) == 1, "only the first pair begins"
    with pytest.raises(KeyboardInterrupt):
        start(killed_at=2)
    played = read_outcomes(tmp_path / runs)
    assert (played[:1], len(played) > 1) == (first, True)
    assert start() == tmp_path / "checkpoint"
    assert {step.stage for step in heard} == {"rows", stage}
    assert next(step.step for step in heard if step.stage == stage) == 2
    assert read_outcomes(tmp_path / runs) == played


def test_a_disk_that_fills_leaves_the_last_good_checkpoint(tiny: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    stopped = TimeBudget(
        lambda: "cold-start" in heard, tell=lambda step, _: heard.append(step.stage)
    )
    assert learn(tiny, tmp_path, KNOWN, stopped) is None
    kept = tmp_path / "checkpoints" / "trainer"
    assert [path.name for path in kept.glob("checkpoint-*")] == ["checkpoint-1"]
    with file_limit(2**18), pytest.raises(BadInput, match=r"^[^\n]*annot[^\n]*$"):
        learn(tiny, tmp_path, KNOWN)
    assert (kept / "checkpoint-1" / "whole").is_file()
    assert learn(tiny, tmp_path, KNOWN) == tmp_path / "checkpoint"


def test_too_little_memory_is_said_before_anything_is_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.training.estimate.free_memory", lambda: 2**26)
    with pytest.raises(BadInput, match="cold-start cannot run here: it needs"):
        learn(NANO, tmp_path, KNOWN)
    assert not (tmp_path / "teacher").exists()
