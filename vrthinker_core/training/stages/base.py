"""The stage before the first: the small model learns to see and to describe what it sees; it judges nothing yet."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

from vrthinker_core.__about__ import asset
from vrthinker_core.backends.local.checkpoint.weight_statistics import check_statistics
from vrthinker_core.errors import BadInput, CheckpointError
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.training.base.half_training import last_report
from vrthinker_core.training.base.language_training import LanguageOptions
from vrthinker_core.training.base.part_processes import Figures
from vrthinker_core.training.base.train_base import ALIGNING, LANGUAGE, VISION, BaseOptions, train_base
from vrthinker_core.training.base.vision_training import VisionOptions
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD, WorldOptions
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.run.config import BaseConfig, TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder, new_checkpoint
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.stages.gates import check_base, pass_gate
from vrthinker_core.training.trl.trainer_checkpoints import quiet_libraries

PARTS = "base"  # Folder of the checkpoints of both halves
GATES = "gates.json"  # In the folder of the stage: what its parts read right at last, and what they should have


@quiet_libraries()
def train_base_stage(config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Path | None:
    """Train the base from nothing, or go on with it; gives its checkpoint, None where the sitting was stopped.

    Raises BadInput where a part reads less than the next stage needs, which is kept in `gates.json` with the checkpoints: a longer
    run goes on from there.
    """
    if folder.processes.count > 1:
        raise BadInput("The base trains in processes of its own, on one machine: start it without accelerate launch.")
    asset("nano")  # Of which the result takes files: said before anything is trained
    parts = folder.path / PARTS
    options = base_options(config, base_minutes(config.base, parts, sitting))
    trained = train_base(options, parts, BaseProgress(options, parts, sitting), sitting.stopped)
    if trained is None:
        return None
    found = {"reports": trained.reports, "missed": trained.missed}
    write_atomically(folder.path / GATES, json.dumps(found, indent=1).encode() + b"\n")
    check_learnt(trained.model)
    pass_gate(sitting, lambda: check_base(trained))
    with new_checkpoint(folder) as made:
        shutil.copytree(trained.model, made, dirs_exist_ok=True)
    return folder.result


def check_learnt(model: Path) -> None:
    """Raises BadInput for weights that are still as random as at the beginning: no later stage could open them."""
    try:
        check_statistics(sorted(model.glob("*.safetensors")))
    except CheckpointError:
        raise BadInput("The base has learnt next to nothing yet: go on with --resume and more minutes.") from None


class BaseProgress:
    """Tells a sitting of the steps of the parts."""

    def __init__(self, options: BaseOptions, parts: Path, sitting: Sitting) -> None:
        self._sitting = sitting
        self._last = {name: last_report(parts, name) for name in (VISION, LANGUAGE)}
        self._minutes = {VISION: options.timed().vision.minutes, LANGUAGE: options.timed().language.minutes}
        self._rest = options.alignment().minutes

    def __call__(self, part: str, figures: Figures) -> None:
        """Of the figures of a part."""
        step, spent, before = int(figures["step"]), max(figures["minutes"], 0.01), self._last.get(part, {})
        expected = max(step, round(step * self._minutes.get(part, self._rest) / spent))
        seconds = 60 * (spent - before.get("minutes", 0.0)) / max(1.0, step - before.get("step", 0.0))
        self._sitting.tell(StepMetrics(f"base {part}", step, seconds, figures["loss"]), expected)
        self._last[part] = figures


def base_minutes(config: BaseConfig, parts: Path, sitting: Sitting) -> float:
    """Minutes of the base over all sittings, as far as this one lasts."""
    if sitting.seconds_left is None:
        return config.minutes
    spent = [last_report(parts, name).get("minutes", 0.0) for name in (VISION, LANGUAGE)]
    return min(config.minutes, max(spent) / (1 - ALIGNING) + sitting.seconds_left / 60)


def base_options(config: TrainConfig, minutes: float) -> BaseOptions:
    """How this configuration trains the base in so many minutes."""
    world, seed, seconds = world_of(config.base), config.seed, config.checkpoint_minutes * 60
    vision = VisionOptions(world=world, seed=seed + 1, save_seconds=seconds, gates=config.gates.vision)
    language = LanguageOptions(world=world, seed=seed + 1, save_seconds=seconds, gates=config.gates.language)
    earlier, tower = (Path(each) if each else None for each in (config.base.init_from, config.base.tower_from))
    return BaseOptions(minutes, vision, language, seed, earlier, tower)


def world_of(config: BaseConfig) -> WorldOptions:
    """The second world, with photographs where a folder of them is given."""
    return replace(SECOND_WORLD, photos=Path(config.photos)) if config.photos else SECOND_WORLD
