"""`train all`: every stage in a folder of its own, gates between them, finished stages kept."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
import torch

from vrthinker_core.backends.base import Backend
from vrthinker_core.backends.checkpoint_files import check_files, locate
from vrthinker_core.backends.devices import available_memory
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.storage import write_atomically
from vrthinker_core.text import encodable
from vrthinker_core.training.cold_start import Lessons, Teacher, cold_start
from vrthinker_core.training.config import GateConfig, TimeShares, TrainConfig
from vrthinker_core.training.grpo import run_grpo
from vrthinker_core.training.metrics import read_metrics
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rejection import rejection
from vrthinker_core.training.rewards import format_reward
from vrthinker_core.training.rollouts import (
    LIVE,
    UNPLAYABLE,
    LabelledPair,
    Rollout,
    by_pair,
    play,
    play_each,
)
from vrthinker_core.training.row_set import SHOWN, keep_rollouts
from vrthinker_core.training.run_folder import (
    RESULT,
    RunFolder,
    Sitting,
    TrainedStage,
    TrainingRun,
    new_checkpoint,
    open_run_folder,
)
from vrthinker_core.training.sft_data import ReadyRuns
from vrthinker_core.training.sharding import check_launch
from vrthinker_core.types import Settings


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """A judge on held-out pairs, sampled k times each."""

    pairs: int
    samples: int  # k
    format: float  # Share of well-formed rollouts
    mean_at_1: float  # Share of rollouts of which every known label is right
    pass_at_k: float  # Share of pairs of which at least one rollout is


def measure_judge(
    judge: Backend, pairs: PairSet, settings: Settings, gates: GateConfig
) -> HeldOutFigures:
    """Play the first `gates.pairs` pairs (fewer where there are fewer) `gates.samples` times each at the temperature given.

    A pair that cannot be played does not count. Raises BadInput where none can.
    """
    count, samples = min(gates.pairs, pairs.size or gates.pairs), gates.samples
    played = list(
        play_each((pairs.pair(number) for number in range(count)), judge, settings, samples, LIVE)
    )
    whole = (
        group
        for group in by_pair(played, samples)
        if all(isinstance(each, Rollout) for each in group)
    )
    rollouts = [each for group in whole for each in group if isinstance(each, Rollout)]
    if not rollouts:
        why = next(
            (str(each) for each in played if not isinstance(each, Rollout)), "There is none."
        )
        raise BadInput(f"No held-out pair can be played. {why}")
    return held_out_figures(rollouts, samples)


def held_out_figures(rollouts: Sequence[Rollout], samples: int) -> HeldOutFigures:
    """The figures of rollouts that stand pair by pair, `samples` of each."""
    right = [rollout.correct for rollout in rollouts]
    groups = by_pair(right, samples)
    well_formed = fmean(format_reward(rollout.run) for rollout in rollouts)
    return HeldOutFigures(len(groups), samples, well_formed, fmean(right), fmean(map(any, groups)))


def pass_gate(sitting: Sitting, check: Callable[[], None]) -> None:
    """Raise what `check` raises. A sitting with a time limit goes on: who set one wants to see all stages, and is told."""
    try:
        check()
    except BadInput as error:
        if sitting.deadline is None:
            raise
        sitting.say(f"{error} The time is limited, so training goes on.")


def check_cold_start(figures: HeldOutFigures, gates: GateConfig, source: str) -> None:
    """Raises BadInput where the form is not kept, or sampling finds hardly more than one try: then there is nothing to build on.

    `source`: the checkpoint that the cold start began with, with which it can be made again.
    """
    again = f"train again in a new folder (--model {encodable(source)} --out …) with more cold_start.traces or cold_start.sft.epochs"
    if figures.format < gates.format:
        raise BadInput(
            f"After the cold start {figures.format:.2f} of the rollouts keep to the format on {figures.pairs} held-out pairs, and "
            f"{gates.format:.2f} are needed: {again}, or go on with --resume and a lower gate (--set gates.format=…)."
        )
    if figures.pass_at_k - figures.mean_at_1 < gates.headroom:
        raise BadInput(
            f"After the cold start pass@{figures.samples} is {figures.pass_at_k:.2f} and mean@1 {figures.mean_at_1:.2f} on "
            f"{figures.pairs} held-out pairs, and {gates.headroom:.2f} between them are needed, or later stages find nothing: "
            f"{again}, or go on with --resume and a lower gate (--set gates.headroom=…)."
        )


PartName = Literal["cold-start", "rejection", "grpo", "held-out"]

PART_SIZE = 10_000_000  # Pairs of each part, where they never end
PARTS: tuple[PartName, ...] = ("cold-start", "rejection", "grpo", "held-out")
HELD_OUT_SHARE = 0.1  # Of a finite set, at most


@dataclass(frozen=True, slots=True)
class PairPart:
    """Some pairs of a set, numbered from 0."""

    pairs: PairSet
    first: int = 0  # Of an endless set: where the part begins
    numbers: tuple[int, ...] | None = None  # Of a finite one: which pairs

    @property
    def size(self) -> int | None:
        """How many there are; None where they never end."""
        return None if self.numbers is None else len(self.numbers)

    def pair(self, number: int) -> LabelledPair:
        """The pair of a number. Raises IndexError where there is none."""
        if number < 0:
            raise IndexError(number)
        return self.pairs.pair(
            self.first + number if self.numbers is None else self.numbers[number]
        )


def part_of(pairs: PairSet, name: PartName, held_out: int) -> PairPart:
    """A part of the set. Of an endless one all parts differ; of a finite one the stages share what is not held out.

    `held_out` pairs are held out, of a small finite set fewer. Raises BadInput where that leaves nothing to learn from.
    """
    if pairs.size is None:
        return PairPart(pairs, PARTS.index(name) * PART_SIZE)
    if pairs.size < 2:
        raise BadInput(
            "The data hold one pair with a label, and one is held out to measure with: give two or more."
        )
    order = np.random.default_rng(pairs.size).permutation(pairs.size).tolist()
    cut = max(1, min(held_out, int(pairs.size * HELD_OUT_SHARE)))
    return PairPart(pairs, numbers=tuple(order[:cut] if name == "held-out" else order[cut:]))


LEARNING = (
    3  # Copies of the weights that learn beside these themselves: gradients, both moments of AdamW
)
VISION = "visual."  # In the names of the weights of the vision tower
FLOAT_BYTES = 4
WORKING_BYTES = 2**30  # For activations, rollouts and torch itself


def require_training_memory(source: str, *, reference: bool, frozen_vision: bool) -> None:
    """Raises BadInput where the machine has too little memory to train this checkpoint (a folder or hub id) in float32.

    `reference`: a second model is held, which the KL term compares with; `frozen_vision`: its tower does not learn. Raises
    CheckpointError for what is no checkpoint of this architecture.
    """
    sizes = {name: math.prod(shape) for name, shape in check_files(locate(source)).items()}
    learning = sum(size for name, size in sizes.items() if not (frozen_vision and VISION in name))
    floats = sum(sizes.values()) * (1 + reference) + learning * LEARNING
    needed = floats * FLOAT_BYTES + WORKING_BYTES
    free = available_memory("cuda" if torch.cuda.is_available() else "cpu")
    if free is not None and needed > free:
        raise BadInput(
            f"Training this model takes about {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB are free: "
            "take a larger machine, or a smaller model."
        )


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
