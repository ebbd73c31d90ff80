"""`train`: one stage, or all in turn, each in a folder of its own."""

import shutil
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.results.trace_files import MADE
from vrthinker_core.training.config import TrainConfig
from vrthinker_core.training.estimate import require_fit
from vrthinker_core.training.grpo import run_grpo
from vrthinker_core.training.metrics import read_metrics
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rollouts import (
    UNPLAYABLE,
    play,
)
from vrthinker_core.training.run_folder import (
    RunFolder,
    StageRun,
    TimeBudget,
    TrainedStage,
    TrainingRun,
    open_run_folder,
)
from vrthinker_core.training.sharding import check_launch
from vrthinker_core.training.stages import ReadyRuns, cold_start, learn_ready, rejection
from vrthinker_core.training.teacher import Teacher
from vrthinker_core.training.traces import SHOWN, keep_rollouts

STAGES: tuple[TrainedStage, ...] = get_args(TrainedStage)


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What the stages learn from."""

    name: str  # As it was given
    pairs: PairSet | None  # None if only the cold start is wanted, and its runs are there
    teacher: Teacher | None = None  # The cold start learns from its runs over the pairs,
    ready: ReadyRuns | None = None  # or from these


def train_stage(
    stage: TrainedStage,
    source: str,
    data: TrainingData,
    config: TrainConfig,
    folder: RunFolder,
    time_budget: TimeBudget,
) -> Path | None:
    """Run a stage over its part of the data.

    Returns the checkpoint, None if stopped. Raises BadInput.
    """
    if missing := [name for name in ("trl", "datasets", "peft") if find_spec(name) is None]:
        raise BadInput(f"Training takes {' and '.join(missing)}: run pip install -e '.[train]'.")
    part, held_out = None, None
    if data.pairs is not None:
        part = data.pairs.part(stage, config.parts)
        held_out = data.pairs.part("held-out", config.parts)
    alone, is_grpo = folder.processes.count == 1, stage == "grpo"
    adapters = is_grpo and config.grpo.lora > 0
    check_launch(adapters=adapters)
    require_fit(stage, source, config, folder.processes.count)
    run = StageRun(source, config, folder, time_budget)
    if stage == "cold-start":
        made = _learn_others_runs(run, data)
    else:
        assert part is not None, "the command opens them"
        made = run_grpo(run, part, held_out) if is_grpo else rejection(run, part)
    if made is not None and held_out is not None and alone:
        # Keep rollouts of the result for the page, named by its last step
        step = max((metrics.step for metrics in read_metrics(folder.path)), default=0)
        judge = TransformersBackend.load(str(made))
        settings = replace(config.settings, temperature=config.grpo.temperature, seed=config.seed)
        with suppress(*UNPLAYABLE):  # Nothing depends on them
            shown = list(play([held_out.pair(0)], judge, settings, SHOWN))
            keep_rollouts(folder.path, folder.state.stage, step, shown)
        judge.close()
    return made


def _learn_others_runs(run: StageRun, data: TrainingData) -> Path | None:
    parts = run.config.parts
    if data.ready is not None:
        held_out = data.pairs.outside("cold-start", parts) if data.pairs else ()
        return learn_ready(run, data.ready, tuple(held_out))
    assert data.teacher is not None, "the command asks for one"
    part = data.teacher.pairs.part("cold-start", parts)
    return cold_start(run, replace(data.teacher, pairs=part))


def train_all(
    source: str, data: TrainingData, config: TrainConfig, folder: RunFolder, time_budget: TimeBudget
) -> Path | None:
    """Run the stages in turn from the checkpoint `source`.

    Returns the last result, None if stopped or out of time: a stage then waits to be resumed. Raises
    BadInput.
    """
    # A deadline stops a stage as a person does, so that it resumes
    limited = replace(time_budget, stopped=lambda: time_budget.over, deadline=None)
    model, begun_with = source, folder.state.model
    assert data.pairs is not None, "the command opens them"
    for stage in STAGES:
        state = TrainingRun(stage, begun_with, data.name)
        with open_run_folder(
            folder.path / stage, state, config, resume=True, processes=folder.processes
        ) as inner:
            done = (
                inner.result
                if inner.state.done
                else train_stage(stage, model, data, config, inner, limited)
            )
            if done is None or (folder.processes.agreed(limited.stopped()) and stage != STAGES[-1]):
                return None
        model, begun_with = str(done), f"the result of {stage}"
    made = folder.path / MADE
    if folder.processes.main:
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(model, made)
    return folder.finish(made)
