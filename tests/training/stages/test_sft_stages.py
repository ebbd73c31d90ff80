"""Cold start and rejection sampling as stages: what they learn from, what they are told, what stops them."""

from __future__ import annotations

import json
import shutil
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from tests.support.file_limit import file_limit
from tests.training.test_teacher import PAIRS, SCRIPTED, answer
from vrthinker_core import ScriptedBackend
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.backends.checkpoint_files import MARKER
from vrthinker_core.errors import BadInput
from vrthinker_core.training.cold_start import Teacher
from vrthinker_core.training.config import TrainConfig, changed_config, preset_config
from vrthinker_core.training.grpo import grpo_arguments
from vrthinker_core.training.metrics import StepMetrics, read_metrics
from vrthinker_core.training.outcome_file import read_outcomes
from vrthinker_core.training.pipeline import (
    TrainingData,
    require_training_memory,
    train_all,
    train_stage,
)
from vrthinker_core.training.rollouts import LabelledPair
from vrthinker_core.training.run_folder import (
    TimeBudget,
    TrainedStage,
    TrainingRun,
    open_run_folder,
)
from vrthinker_core.training.sft import sft_arguments
from vrthinker_core.training.sft_data import SftData, open_ready_runs
from vrthinker_core.training.teacher import BackendOfPair, TeacherJob, run_teacher
from vrthinker_core.ui.runs_tab import TraceFiles

RUN = TrainingRun("cold-start", "nano", "drawn:3")
FEW = (
    "settings.max_new_tokens=24 cold_start.traces=2 cold_start.sft.batch=1 cold_start.sft.epochs=1 "
    "checkpoint_minutes=0.000001"
)
CONFIG = changed_config(preset_config("nano"), FEW.split())
SURE = "settings.max_new_tokens=512 rejection.samples=1 rejection.temperature=0.1 rejection.pairs="


def learn(
    out: Path,
    data: TrainingData,
    time_budget: TimeBudget | None = None,
    model: Path = NANO,
    config: TrainConfig = CONFIG,
    stage: TrainedStage = "cold-start",
) -> Path | None:
    with open_run_folder(out, replace(RUN, stage=stage), config, resume=True) as folder:
        return train_stage(stage, str(model), data, config, folder, time_budget or TimeBudget())


def taught(folder: Path, runs: int) -> SftData | None:
    list(run_teacher(PAIRS, range(runs), SCRIPTED, TeacherJob("s", "drawn:3"), folder))
    return open_ready_runs(str(folder))


def test_a_teachers_folder_is_learnt_from(tmp_path: Path) -> None:
    said: list[str] = []
    data = TrainingData("taught", PAIRS, ready=taught(tmp_path / "taught", 2))
    made = learn(tmp_path / "run", data, time_budget=TimeBudget(say=said.append))
    assert made == tmp_path / "run" / "checkpoint"
    assert said == [
        "2 of 2 runs pass the filters.",
        "Rows to learn from: 2, in 2 optimizer steps of 1.",
    ]
    steps = read_metrics(tmp_path / "run")
    assert [step.step for step in steps] == [1, 2]
    assert all(step.loss > 0 and step.learning_rate is not None for step in steps)
    rows = [row for _, row in TraceFiles(tmp_path / "run" / "rollouts").news() if row is not None]
    assert [row.told["source"] for row in rows] == [
        f"cold-start-step-00002-sample-{n}.json" for n in (0, 1)
    ]


KNOWN = TrainingData("drawn:3", PAIRS, Teacher("scripted", lambda: SCRIPTED))


class FewPairs:
    """The first ones of the drawn pairs, as a finite set."""

    size = 4

    def pair(self, number: int) -> LabelledPair:
        return PAIRS.pair(number)


def test_of_ready_runs_those_of_held_out_pairs_are_not_learnt(tmp_path: Path) -> None:
    said: list[str] = []
    data = TrainingData("taught", FewPairs(), ready=taught(tmp_path / "taught", 4))
    config = changed_config(CONFIG, ["cold_start.traces=4"])
    learn(tmp_path / "run", data, TimeBudget(say=said.append), config=config)
    assert said[0] == "3 of 4 runs pass the filters; 1 not: its pair is held out to measure with."


def test_a_teacher_of_whom_nothing_can_be_learnt_stops_the_stage(tmp_path: Path) -> None:
    def wrong(number: int) -> ScriptedBackend:
        labels = PAIRS.drawn(number).verdict.labels
        other = {name: (label + 1) % 3 for name, label in labels.items()}
        return ScriptedBackend([answer(other)], protocol="paired")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vrthinker_core.training.cold_start.HOPELESS", 3)
        with pytest.raises(BadInput, match="No run passes the filters"):
            learn(tmp_path, TrainingData("drawn:3", PAIRS, Teacher("wrong", lambda: wrong)))
    assert not (tmp_path / "checkpoint").exists()


def test_a_teacher_is_there_only_while_it_plays(tmp_path: Path) -> None:
    opened: list[Callable[[], object]] = []
    there: list[tuple[str, bool]] = []

    def teacher() -> BackendOfPair:
        judge = partial(SCRIPTED)
        opened.append(weakref.ref(judge))
        return judge

    def tell(step: StepMetrics, _: int) -> None:
        there.append((step.stage, opened[0]() is not None))

    data = TrainingData("drawn:3", PAIRS, Teacher("mine", teacher))
    assert learn(tmp_path, data, TimeBudget(tell=tell))
    assert dict(there) == {"teacher": True, "rows": False, "cold-start": False}


def concat(number: int) -> ScriptedBackend:
    """Knows the pair, and speaks concat."""
    said = ", ".join(f"{name}={n}" for name, n in PAIRS.drawn(number).verdict.labels.items())
    text = f"<snapshot>a</snapshot><think>b</think><final answer>{said}</final answer>"
    return ScriptedBackend([text], protocol="concat")


SPEAKS_CONCAT = TrainingData("drawn:3", PAIRS, Teacher("concat", lambda: concat))


def test_runs_of_another_protocol_are_refused(tmp_path: Path) -> None:
    model = Path(shutil.copytree(NANO, tmp_path / "model"))
    marker = json.loads((model / MARKER).read_bytes())
    marker |= {"protocol": "paired", "forced": marker["forced"]["paired"]}
    (model / MARKER).write_text(json.dumps(marker), "utf-8")
    with pytest.raises(BadInput, match="speaks concat, and the model was made for paired"):
        learn(tmp_path / "run", SPEAKS_CONCAT, model=model)


@pytest.mark.parametrize("marker", [None, {"protocol": []}])
def test_a_model_that_names_no_protocol_learns_that_of_its_runs(
    marker: dict[str, object] | None, tmp_path: Path
) -> None:
    stock = Path(shutil.copytree(NANO, tmp_path / "stock"))
    (stock / MARKER).unlink()
    if marker is not None:
        (stock / MARKER).write_text(json.dumps(marker))
    assert open_checkpoint(str(stock)).marker.protocols == ()
    made = learn(tmp_path / "run", SPEAKS_CONCAT, model=stock)
    assert open_checkpoint(str(made)).marker.protocols == ("concat",)


def no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is time for one run in each sitting, and none for a second."""
    for share in ("cold_start.TEACHER_SHARE", "rejection.SAMPLES_SHARE"):
        monkeypatch.setattr(f"vrthinker_core.training.{share}", 0.0)


@pytest.mark.parametrize("stage", ["cold-start", "rejection"])
def test_where_time_ended_before_a_run_was_kept_that_is_said(
    stage: TrainedStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_time_left(monkeypatch)
    changes = "settings.max_new_tokens=8 settings.max_turns=1 rejection.samples=1"
    config = changed_config(CONFIG, changes.split())
    silent = ScriptedBackend(["No."], protocol="paired")
    data = TrainingData("drawn:3", PAIRS, Teacher("wrong", lambda: silent))
    said = "in the time that there was for playing: go on with --resume and more --minutes"
    with pytest.raises(BadInput, match=said):
        learn(
            tmp_path, data, TimeBudget(deadline=time.monotonic() + 3600), config=config, stage=stage
        )


def test_in_half_a_minute_there_is_no_gate_and_no_further_stage(tmp_path: Path) -> None:
    said: list[str] = []
    limited = TimeBudget(deadline=time.monotonic() + 20, say=said.append)
    with open_run_folder(tmp_path, replace(RUN, stage="all"), CONFIG, resume=True) as folder:
        assert train_all(str(NANO), KNOWN, CONFIG, folder, limited) == folder.result
    assert open_checkpoint(str(tmp_path / "checkpoint"))
    assert said[-1] == "No time is left for rejection: train on from the result, with --model."
    assert not (tmp_path / "cold-start" / "held-out.json").exists()


class Killed(BaseException):
    """In the place of a kill."""


@pytest.mark.parametrize(("stage", "runs"), [("cold-start", "teacher"), ("rejection", "samples")])
def test_a_timed_stage_that_was_killed_as_it_learnt_goes_on_from_the_same_runs(
    stage: TrainedStage, runs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = stage.replace("-", "_")
    config = changed_config(CONFIG, f"{SURE}3 {part}.sft.epochs=3".split())
    heard: list[StepMetrics] = []

    def time_budget(killed_at: int) -> TimeBudget:
        def tell(step: StepMetrics, _: int) -> None:
            if (step.stage, step.step) == (stage, killed_at):
                raise Killed
            heard.append(step)

        return TimeBudget(deadline=time.monotonic() + 3600, tell=tell)

    no_time_left(monkeypatch)
    with pytest.raises(Killed):
        learn(tmp_path, KNOWN, time_budget(killed_at=2), config=config, stage=stage)
    assert [outcome.kept for outcome in read_outcomes(tmp_path / runs)] == [True]
    heard.clear()
    made = learn(tmp_path, KNOWN, time_budget(killed_at=0), config=config, stage=stage)
    assert made == tmp_path / "checkpoint"
    assert [step.step for step in heard if step.stage == stage] == [2, 3]
    assert len(read_outcomes(tmp_path / runs)) == 1


def test_of_its_own_runs_a_judge_learns_from_so_many_at_most(tmp_path: Path) -> None:
    config, said = changed_config(CONFIG, f"{SURE}4 rejection.most=2".split()), list[str]()
    data = TrainingData("drawn:3", PAIRS)
    assert learn(tmp_path, data, TimeBudget(say=said.append), config=config, stage="rejection")
    assert said[0].startswith("4 of 4 runs kept")
    assert any(line.startswith("2 runs chosen to learn from") for line in said)


def test_a_disk_that_fills_in_mid_checkpoint_leaves_the_last_good_one(tmp_path: Path) -> None:
    heard: list[str] = []
    stopped = TimeBudget(
        lambda: "cold-start" in heard, tell=lambda step, _: heard.append(step.stage)
    )
    assert learn(tmp_path, KNOWN, time_budget=stopped) is None
    kept = tmp_path / "checkpoints" / "trainer"
    assert [path.name for path in kept.glob("checkpoint-*")] == ["checkpoint-1"]
    with file_limit(2**20), pytest.raises(BadInput, match="annot") as caught:
        learn(tmp_path, KNOWN)
    assert "\n" not in str(caught.value)
    assert (kept / "checkpoint-1" / "whole.json").is_file()
    assert learn(tmp_path, KNOWN) == tmp_path / "checkpoint"


@pytest.mark.parametrize(
    ("stage", "change"),
    [
        ("cold-start", "frozen_vision=false"),
        ("rejection", "frozen_vision=false"),
        ("grpo", "grpo.kl=0.01"),
    ],
)
def test_too_little_memory_is_said_before_anything_is_played(
    stage: TrainedStage, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "vrthinker_core.training.pipeline.available_memory", lambda _: 2**30 + 60 * 2**20
    )
    require_training_memory(str(NANO), reference=False, frozen_vision=True)  # else it is too little
    with pytest.raises(BadInput, match=r"takes about 1\.\d GiB of memory, and 1\.\d GiB are free"):
        learn(tmp_path, KNOWN, config=changed_config(CONFIG, [change]), stage=stage)
    assert not any((tmp_path / played).exists() for played in ("teacher", "samples"))


@pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated:FutureWarning")
def test_what_the_optimizer_is_told_reaches_every_trainer(tmp_path: Path) -> None:
    changes = (
        'learning_rate=0.003 warm_up=0.25 schedule="constant" beta2=0.9 weight_decay=0.2 '
        "max_grad_norm=0.3"
    )
    places = product(("cold_start.sft", "grpo"), changes.split())
    told = [f"{place}.optimizer.{change}" for place, change in places]
    config = changed_config(preset_config("7b"), told)
    grpo = replace(config.grpo, bf16=False)  # which a processor may not have
    config = replace(config, grpo=grpo)
    for given in (
        sft_arguments(config.cold_start.sft, config, tmp_path),
        grpo_arguments(config, 8192, tmp_path),
    ):
        assert (given.learning_rate, given.warmup_steps) == (0.003, 0.25)
        assert given.lr_scheduler_type == "constant_with_warmup"
        assert (given.adam_beta2, given.weight_decay, given.max_grad_norm) == (0.9, 0.2, 0.3)
        assert given.gradient_checkpointing
