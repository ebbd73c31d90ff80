"""All stages in turn, each in a folder of its own: one whose result is there is not made again."""

import json
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.labelled_pairs.ready_runs import ReadyRuns
from vrthinker_core.training.monitor.metrics import read_metrics
from vrthinker_core.training.rollouts import UNPLAYABLE, LabelledPair, play
from vrthinker_core.training.rows.shown_rollouts import SHOWN, keep_rollouts
from vrthinker_core.training.run.config import TimeShares, TrainConfig
from vrthinker_core.training.run.run_folder import (
    RESULT,
    RunFolder,
    TrainedStage,
    TrainingRun,
    new_checkpoint,
    open_run_folder,
)
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.run.training_memory import require_training_memory
from vrthinker_core.training.stages.cold_start import Lessons, Teacher, cold_start
from vrthinker_core.training.stages.gates import (
    HeldOutFigures,
    check_cold_start,
    measure_judge,
    pass_gate,
)
from vrthinker_core.training.stages.grpo import run_grpo
from vrthinker_core.training.stages.pair_parts import part_of
from vrthinker_core.training.stages.rejection import rejection
from vrthinker_core.training.trl.sharding import check_launch

STAGES: tuple[TrainedStage, ...] = ("cold-start", "rejection", "grpo")
FIGURES = "held-out.json"  # In the folder of a stage: what its result reached on held-out pairs


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What the stages learn from."""

    name: str  # As it was given
    pairs: (
        PairSet | None
    )  # None where only the cold start is wanted, and its runs are there already
    teacher: Teacher | None = None  # The cold start learns from its runs over the pairs,
    ready: ReadyRuns | None = None  # or from these


def train_stage(
    stage: TrainedStage,
    source: str,
    data: TrainingData,
    config: TrainConfig,
    folder: RunFolder,
    sitting: Sitting,
) -> Path | None:
    """One stage over its part of the data; gives the trained checkpoint, None where the sitting was stopped. Raises BadInput."""
    if missing := [name for name in ("trl", "datasets", "peft") if find_spec(name) is None]:
        raise BadInput(f"Training takes {' and '.join(missing)}: run pip install -e '.[train]'.")
    part, shown = None, None
    if data.pairs is not None:
        part = part_of(data.pairs, stage, config.gates.pairs)
        shown = part_of(data.pairs, "held-out", config.gates.pairs).pair(0)
    alone, is_grpo = folder.processes.count == 1, stage == "grpo"
    adapters = is_grpo and config.grpo.trl.lora > 0
    check_launch(adapters=adapters)
    if alone and not adapters:
        require_training_memory(
            source, reference=is_grpo and config.grpo.kl > 0, frozen_vision=config.frozen_vision
        )
    if stage == "cold-start":
        made = cold_start(source, _lessons(data, part, config.gates.pairs), config, folder, sitting)
    else:
        assert part is not None, "the command opens them"
        made = (run_grpo if is_grpo else rejection)(source, part, config, folder, sitting)
    if made is not None and shown is not None and alone:
        _show_result(made, shown, config, folder)
    return made


def _lessons(data: TrainingData, part: PairSet | None, held_out: int) -> Lessons | ReadyRuns:
    if data.ready is not None:
        return (
            data.ready
            if data.pairs is None
            else replace(data.ready, held_out=_held_out_pairs(data.pairs, held_out))
        )
    assert part is not None, "the command opens them"
    assert data.teacher is not None, "the command asks for one"
    own = data.teacher.pairs
    return Lessons(part if own is None else part_of(own, "cold-start", held_out), data.teacher)


def _held_out_pairs(pairs: PairSet, held_out: int) -> tuple[LabelledPair, ...]:
    """Those of a finite set; of an endless one no run that is there already is of any."""
    part = part_of(pairs, "held-out", held_out)
    return tuple(part.pair(number) for number in range(part.size or 0))


def _show_result(made: Path, pair: LabelledPair, config: TrainConfig, folder: RunFolder) -> None:
    """Keep rollouts of what a stage trained, named by its last step."""
    steps = [metrics.step for metrics in read_metrics(folder.path)]
    judge = TransformersBackend.load(str(made))
    settings = replace(config.settings, temperature=config.grpo.temperature, seed=config.seed)
    with suppress(*UNPLAYABLE):  # what is only looked at ends nothing
        keep_rollouts(
            folder.path,
            folder.state.stage,
            max(steps, default=0),
            list(play([pair], judge, settings, SHOWN)),
        )
    judge.close()


def train_all(
    source: str, data: TrainingData, config: TrainConfig, folder: RunFolder, sitting: Sitting
) -> Path | None:
    """The stages from the checkpoint `source`, each on from the one before; gives the last result.

    Each has its share of the time that is left. Raises BadInput where the gate is not passed.
    """
    model, begun_with = source, folder.state.model
    assert data.pairs is not None, "the command opens them"
    for number, stage in enumerate(STAGES):
        share = share_of(STAGES[number:], config.shares)
        state = TrainingRun(stage, begun_with, data.name)
        with open_run_folder(
            folder.path / stage, state, config, resume=True, processes=folder.processes
        ) as inner:
            done = (
                inner.result
                if inner.state.done
                else train_stage(stage, model, data, config, inner, sitting.part(share))
            )
            if done is None or (folder.processes.agreed(sitting.stopped()) and stage != STAGES[-1]):
                return None
            if stage == "cold-start":
                figures = _held_out(inner, data.pairs, config)
                pass_gate(sitting, partial(check_cold_start, figures, config.gates, model))
        model, begun_with = str(done), f"the result of {stage}"
    if folder.processes.main:
        with new_checkpoint(folder) as made:
            shutil.copytree(model, made, dirs_exist_ok=True)
    else:
        folder.processes.wait()
    return folder.result


def share_of(stages: tuple[str, ...], shares: TimeShares) -> float:
    """The share of the first of these stages in the time that is left for all of them."""
    parts = [getattr(shares, stage.replace("-", "_")) for stage in stages]
    return parts[0] / sum(parts) if sum(parts) else 1.0


def _held_out(folder: RunFolder, pairs: PairSet, config: TrainConfig) -> HeldOutFigures:
    """The figures of a stage's result, measured once."""
    path = folder.path / FIGURES
    if folder.processes.main and not path.exists():
        _measure(folder, pairs, config)
    folder.processes.wait()
    return HeldOutFigures(**json.loads(path.read_bytes()))


def _measure(folder: RunFolder, pairs: PairSet, config: TrainConfig) -> None:
    judge = TransformersBackend.load(str(folder.path / RESULT))
    settings = replace(config.settings, temperature=1.0, seed=config.seed)
    figures = measure_judge(
        judge, part_of(pairs, "held-out", config.gates.pairs), settings, config.gates
    )
    write_atomically(folder.path / FIGURES, json.dumps(asdict(figures), indent=1).encode())
