"""The stage before the first: the small model learns to see and to put into words what it sees; it judges nothing yet."""

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.traces import write_atomically
from vrthinker_core.training.base.eyes import EyesOptions
from vrthinker_core.training.base.train_base import BaseOptions, TrainedBase, train_base
from vrthinker_core.training.base.words import WordsOptions
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD, WorldOptions
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.run.config import BaseConfig, TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder, new_checkpoint
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.stages.gates import check_base

PARTS = "base"  # Folder of the checkpoints of eyes and words
GATES = "gates.json"  # In the folder of the stage: what its parts read right at last, and what they should have


def train_base_stage(config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Path | None:
    """Train the base from nothing, or go on; gives its checkpoint, None where the sitting was stopped.

    Raises BadInput where a part reads less than the next stage needs, which is kept in `gates.json` with the checkpoints: a longer
    run goes on from there.
    """
    began = time.monotonic()
    left = sitting.seconds_left
    minutes = config.base.minutes if left is None else min(config.base.minutes, left / 60)

    def report(part: str, figures: dict[str, float]) -> None:
        step, spent = int(figures["step"]), max(figures["minutes"], 0.01)
        expected = max(step, round(step * minutes / spent))
        sitting.tell(StepMetrics(f"base {part}", step, time.monotonic() - began, figures["loss"]), expected)

    trained = train_base(_options(config, minutes), folder.path / PARTS, report)
    if sitting.stopped():
        return None
    found = {"reports": trained.reports, "missed": trained.missed}
    write_atomically(folder.path / GATES, json.dumps(found, indent=1).encode() + b"\n")
    check_base(trained.reports["words"].get("rare motion", 0.0), config.gates)
    check_parts(trained)
    with new_checkpoint(folder) as made:
        shutil.copytree(trained.model, made, dirs_exist_ok=True)
    return folder.result


def check_parts(trained: TrainedBase) -> None:
    """Raises BadInput with what a part reads less well than judging needs."""
    for part, names in trained.missed.items():
        figures = ", ".join(f"{name} {trained.reports[part].get(name, 0.0):.2f}" for name in names)
        raise BadInput(f"The {part} of the base read too little ({figures}): train it longer before the cold start.")


def _options(config: TrainConfig, minutes: float) -> BaseOptions:
    world = world_of(config.base)
    seed = config.seed
    eyes = EyesOptions(world=world, seed=seed + 1, save_seconds=config.checkpoint_minutes * 60)
    words = WordsOptions(world=world, seed=seed + 1, save_seconds=config.checkpoint_minutes * 60)
    return BaseOptions(minutes, eyes, words, seed)


def world_of(config: BaseConfig) -> WorldOptions:
    """The second world, with photographs where a folder of them is given."""
    return replace(SECOND_WORLD, photos=Path(config.photos)) if config.photos else SECOND_WORLD
