"""`train all`: every stage in a folder of its own, gates between them, finished stages kept."""

import json
import shutil
from collections import defaultdict
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import get_args

from vrthinker_core.backends.base import Backend
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.results.trace_files import MADE
from vrthinker_core.storage import write_atomically
from vrthinker_core.training.config import GateConfig, TrainConfig
from vrthinker_core.training.estimate import require_fit
from vrthinker_core.training.grpo import run_grpo
from vrthinker_core.training.metrics import read_metrics
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rewards import format_reward
from vrthinker_core.training.rollouts import (
    UNPLAYABLE,
    Rollout,
    Unplayable,
    in_order,
    play,
    play_each,
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
from vrthinker_core.types import Settings
from vrthinker_core.words import encodable


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """A judge on held-out pairs, sampled k times each."""

    pairs: int
    samples: int  # k
    format: float  # Share of well-formed rollouts
    mean_at_1: float  # Share of rollouts with every known label right
    pass_at_k: float  # Share of pairs with at least one such rollout


def measure_judge(
    judge: Backend, pairs: PairSet, settings: Settings, gates: GateConfig
) -> HeldOutFigures:
    """Play the first `gates.pairs` pairs (or all) `gates.samples` times each.

    A pair that cannot be played does not count. Raises BadInput if none can.
    """
    count, samples = min(gates.pairs, pairs.size or gates.pairs), gates.samples
    errors: list[Unplayable] = []
    found: dict[int, list[Rollout]] = defaultdict(list)
    numbered = play_each(map(pairs.pair, range(count)), judge, settings, samples)
    for number, played in in_order(numbered):
        if isinstance(played, Rollout):
            found[number // samples].append(played)
        else:
            errors.append(played)
    groups = [group for group in found.values() if len(group) == samples]
    if not groups:
        why = errors[0] if errors else "There is none."
        raise BadInput(f"No held-out pair can be played. {why}")
    rollouts = [each for group in groups for each in group]
    return HeldOutFigures(
        len(groups),
        samples,
        format=fmean(format_reward(each.run) for each in rollouts),
        mean_at_1=fmean(each.correct for each in rollouts),
        pass_at_k=fmean(any(each.correct for each in group) for group in groups),
    )


def pass_gate(figures: HeldOutFigures, gates: GateConfig, source: str) -> None:
    """Raise BadInput if the form is not kept, or sampling finds hardly more than one try.

    `source`: what the cold start began with.
    """
    if figures.format < gates.format:
        gate, fault = (
            "format",
            f"{figures.format:.2f} of the rollouts keep to the format on {figures.pairs} held-out "
            f"pairs, and {gates.format:.2f} are needed",
        )
    elif figures.pass_at_k - figures.mean_at_1 < gates.headroom:
        gate, fault = (
            "headroom",
            f"pass@{figures.samples} is {figures.pass_at_k:.2f} and mean@1 {figures.mean_at_1:.2f} "
            f"on {figures.pairs} held-out pairs, and {gates.headroom:.2f} between them are needed, "
            "or later stages find nothing",
        )
    else:
        return
    raise BadInput(
        f"After the cold start {fault}: train again in a new folder (--model {encodable(source)} "
        "--out …) with more cold_start.traces or cold_start.num_train_epochs, or go on with --resume and "
        f"a lower gate (--set gates.{gate}=…)."
    )


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
    """One stage over its part of the data; gives the trained checkpoint, None if stopped.

    Raises BadInput.
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
        # Keep rollouts of the result, named by its last step
        step = max((metrics.step for metrics in read_metrics(folder.path)), default=0)
        judge = TransformersBackend.load(str(made))
        settings = replace(config.settings, temperature=config.grpo.temperature, seed=config.seed)
        with suppress(*UNPLAYABLE):  # what is only looked at ends nothing
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
    """Run the stages in turn from the checkpoint `source`; return the last result.

    Returns None if it was stopped or its time is up: a stage then waits to be resumed. Raises
    BadInput if the gate is not passed.
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
            if stage == "cold-start":
                pass_gate(_held_out(inner, data.pairs, config), config.gates, model)
        model, begun_with = str(done), f"the result of {stage}"
    made = folder.path / MADE
    if folder.processes.main:
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(model, made)
    return folder.finish(made)


def _held_out(folder: RunFolder, pairs: PairSet, config: TrainConfig) -> HeldOutFigures:
    """The figures of a stage's result, measured once."""
    path = folder.path / "held-out.json"
    if folder.processes.main and not path.exists():
        judge = TransformersBackend.load(str(folder.result))
        settings = replace(config.settings, temperature=1.0, seed=config.seed)
        held_out = pairs.part("held-out", config.parts)
        figures = measure_judge(judge, held_out, settings, config.gates)
        write_atomically(path, json.dumps(asdict(figures), indent=1).encode())
    folder.processes.wait()
    return HeldOutFigures(**json.loads(path.read_bytes()))
