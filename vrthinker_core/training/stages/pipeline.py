"""All stages in turn, each in a folder of its own: one whose result is there is not made again."""

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.traces import write_atomically
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.run.config import TimeShares, TrainConfig
from vrthinker_core.training.run.run_folder import RESULT, RunFolder, TrainingRun, new_checkpoint, open_run_folder
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.stages.cold_start import Teacher, cold_start
from vrthinker_core.training.stages.gates import HeldOutFigures, check_cold_start, measure_judge
from vrthinker_core.training.stages.grpo import run_grpo
from vrthinker_core.training.stages.pair_parts import part_of
from vrthinker_core.training.stages.rejection import rejection

TrainedStage = Literal["cold-start", "rejection", "grpo"]

STAGES: tuple[TrainedStage, ...] = ("cold-start", "rejection", "grpo")
FIGURES = "held-out.json"  # In the folder of a stage: what its result reached on held-out pairs


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What the stages learn from."""

    name: str  # As it was given
    pairs: PairSet
    teacher: Teacher | None = None  # Needed by the cold start


def train_stage(
    stage: TrainedStage, source: str, data: TrainingData, config: TrainConfig, folder: RunFolder, sitting: Sitting
) -> Path | None:
    """One stage over its part of the data; gives the trained checkpoint, None where the sitting was stopped. Raises BadInput."""
    pairs = part_of(data.pairs, stage, config.gates.pairs)
    if stage == "grpo":
        return run_grpo(source, pairs, config, folder, sitting)
    if stage == "rejection":
        return rejection(source, pairs, config, folder, sitting)
    assert data.teacher is not None, "the command asks for one"
    return cold_start(source, pairs, data.teacher, config, folder, sitting)


def train_all(source: str, data: TrainingData, config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Path | None:
    """The stages after `base`, from the checkpoint `source`, each on from the one before; gives the last result.

    Each has its share of the time that is left. Raises BadInput where a gate is not passed.
    """
    model, begun_with = source, source
    for number, stage in enumerate(STAGES):
        share = share_of(STAGES[number:], config.shares)
        state = TrainingRun(stage, begun_with, data.name)
        with open_run_folder(folder.path / stage, state, config, resume=True) as inner:
            done = inner.result if inner.state.done else train_stage(stage, model, data, config, inner, sitting.part(share))
            if done is None or (sitting.stopped() and stage != STAGES[-1]):
                return None
            if stage == "cold-start":
                check_cold_start(_held_out(inner, data.pairs, config), config.gates)
        model, begun_with = str(done), f"the result of {stage}"
    with new_checkpoint(folder) as made:
        shutil.copytree(model, made, dirs_exist_ok=True)
    return folder.result


def share_of(stages: tuple[TrainedStage, ...], shares: TimeShares) -> float:
    """The share of the first of these stages in the time that is left for all of them."""
    parts = [getattr(shares, stage.replace("-", "_")) for stage in stages]
    return parts[0] / sum(parts) if sum(parts) else 1.0


def _held_out(folder: RunFolder, pairs: PairSet, config: TrainConfig) -> HeldOutFigures:
    """The figures of a stage's result, measured once."""
    path = folder.path / FIGURES
    if path.exists():
        return HeldOutFigures(**json.loads(path.read_bytes()))
    judge = TransformersBackend.load(str(folder.path / RESULT))
    settings = replace(config.settings, temperature=1.0, seed=config.seed)
    figures = measure_judge(judge, part_of(pairs, "held-out", config.gates.pairs), settings, config.gates)
    write_atomically(path, json.dumps(asdict(figures), indent=1).encode())
    return figures
