"""The third stage: GRPO in TRL where there is a GPU, else in a loop of our own, a run that goes on after a stop.

Ours goes on to the very weights it would have had without one.
"""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from math import cos, pi
from pathlib import Path

import numpy as np
import torch

from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.dialects.factory import chosen_protocol
from vrthinker_core.errors import BadInput
from vrthinker_core.training.frozen_vision import collate_features, freeze_vision
from vrthinker_core.training.grpo_loop import Learner, draw_groups, train_step
from vrthinker_core.training.labelled_pairs.pair_set import PairSet, in_training_order
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rollouts import UNPLAYABLE, LabelledPair
from vrthinker_core.training.rows.shown_rollouts import ShownRollouts
from vrthinker_core.training.run.checkpoints import CheckpointFiles, LoopState
from vrthinker_core.training.run.config import EngineName, OptimizerConfig, TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder, new_checkpoint
from vrthinker_core.training.run.saved_judge import save_judge
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.run.training_memory import require_training_memory
from vrthinker_core.training.stages.stage_record import StageRecord, with_groups
from vrthinker_core.training.stages.trl_grpo import STAGE, train_with_trl
from vrthinker_core.training.token_rows import collate
from vrthinker_core.training.trl.sft import has_trl
from vrthinker_core.training.trl.trainer_checkpoints import quiet_libraries
from vrthinker_core.types import Settings

SENTENCES = {
    "trl": "GRPO runs in TRL, in {processes}.",
    "own": "GRPO runs in the loop of this package, which is quicker on a processor; grpo.engine=trl takes TRL.",
}


def run_grpo(
    source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting, shown: LabelledPair | None = None
) -> Path | None:
    """Train the checkpoint `source` (a folder or hub id); gives the trained one, None where the sitting was stopped before the end.

    `shown`: the pair whose rollouts are kept now and then as traces. Raises BadInput and CheckpointError.
    """
    engine, processes = chosen_engine(config), folder.processes.count
    if folder.processes.main:
        sitting.say(SENTENCES[engine].format(processes="one process" if processes == 1 else f"{processes} processes"))
    ordered = in_training_order(pairs, config.seed)
    if engine == "trl":
        return train_with_trl(source, ordered, config, folder, sitting)
    if processes > 1:
        raise BadInput("The loop of this package trains in one process: start one, or choose TRL with --set grpo.engine=trl.")
    return _train_here(source, ordered, config, folder, sitting, shown)


def chosen_engine(config: TrainConfig) -> EngineName:
    """Which of both trains: never "auto"."""
    if config.grpo.engine != "auto":
        return config.grpo.engine
    return "trl" if torch.cuda.is_available() and has_trl() else "own"


@quiet_libraries()
def _train_here(
    source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting, shown: LabelledPair | None
) -> Path | None:
    """Every step follows from seed, number of the step and number of the first pair alone.

    So a run that was killed and goes on from a checkpoint ends, bit for bit, with the weights of one that was not.
    """
    require_training_memory(source, reference=config.grpo.kl > 0, frozen_vision=config.frozen_vision)
    learner = make_learner(source, config)
    state = LoopState(learner.policy, learner.optimizer)
    files = CheckpointFiles(folder.checkpoints, config.checkpoint_minutes)
    files.restore(state)
    last_saved = state.step
    with StageRecord(folder, config, sitting) as record:
        if state.step == 0:
            _show(shown, state, learner, config, folder)
        while state.step < config.grpo.steps and not sitting.over:
            record.add(_step(state, learner, pairs, config, sitting.say), config.grpo.steps)
            _show(shown, state, learner, config, folder)
            if files.due:
                files.save(state)
                last_saved = state.step
    if state.step > last_saved:
        files.save(state)
    if sitting.stopped():
        return None
    with new_checkpoint(folder) as made:
        save_judge(learner.policy, source, made, (chosen_protocol(config.settings, ()),))
    return folder.result


def make_learner(source: str, config: TrainConfig) -> Learner:
    """Policy and rollouts share one model in float32; the reference is a copy of it as it is now."""
    judge = TransformersBackend.load(source, device="cpu", dtype=torch.float32)
    judge.loaded = replace(judge.loaded, repetition_penalty=1.0)  # what is learnt is scored without one
    policy = judge.loaded.model
    if config.frozen_vision:
        freeze_vision(policy)
    reference = copy.deepcopy(policy).requires_grad_(False) if config.grpo.kl else None
    for name, weight in policy.named_parameters():
        weight.requires_grad_(not (config.frozen_vision and ".visual." in name))
    optimizer = _optimizer(policy, config.grpo.optimizer)
    return Learner(policy, reference, optimizer, judge, collate_features if config.frozen_vision else collate)


def _optimizer(model: torch.nn.Module, config: OptimizerConfig) -> torch.optim.Optimizer:
    weights = [each for each in model.parameters() if each.requires_grad]
    options = {"lr": config.learning_rate, "betas": (0.9, config.beta2), "weight_decay": config.weight_decay}
    return torch.optim.AdamW(weights, **options)  # type: ignore[arg-type]


def learning_rate(config: OptimizerConfig, step: int, steps: int) -> float:
    """The learning rate of step `step` of `steps`, from 0 on: it rises in equal parts, then stays or falls along a cosine."""
    warm = config.warm_up * steps
    if step < warm:
        return config.learning_rate * min(1.0, (step + 1) / warm)
    if config.schedule == "constant":
        return config.learning_rate
    return config.learning_rate * (1 + cos(pi * min(1.0, (step - warm) / max(1.0, steps - warm)))) / 2


def step_settings(config: TrainConfig, step: int) -> Settings:
    """The settings of one step's rollouts; replies are sampled with a seed of that step."""
    seed = int(np.random.SeedSequence((config.seed, step)).generate_state(1)[0]) % 2**31
    return replace(config.settings, seed=seed)


def _step(state: LoopState, learner: Learner, pairs: PairSet, config: TrainConfig, say: Callable[[str], None]) -> StepMetrics:
    """Draw, learn, and move the state on by one step."""
    begun = time.monotonic()
    # Features depend in their last bits on the pictures they were computed with, so none is kept from one step to the next.
    learner.judge.close()
    mixed, played = draw_groups(_from(pairs, state), learner.judge, config.grpo, step_settings(config, state.step), say)
    rate = learning_rate(config.grpo.optimizer, state.step, config.grpo.steps)
    for group in learner.optimizer.param_groups:
        group["lr"] = rate
    report = train_step(mixed, len(played), learner, config.grpo)
    state.step += 1
    metrics = StepMetrics(STAGE, state.step, time.monotonic() - begun, report.loss, rate)
    return with_groups(metrics, report, played, config.grpo)


def _show(pair: LabelledPair | None, state: LoopState, learner: Learner, config: TrainConfig, folder: RunFolder) -> None:
    """Keep rollouts of the pair, where it is time."""
    traces = ShownRollouts(folder.path, pair, config.grpo.shown_every) if pair is not None else None
    if traces is not None and traces.is_due(state.step):
        settings = replace(config.settings, temperature=config.grpo.temperature, seed=config.seed)
        with suppress(*UNPLAYABLE):  # what is only looked at ends nothing
            traces.keep(STAGE, state.step, learner.judge, settings)


def _from(pairs: PairSet, state: LoopState) -> Iterator[LabelledPair]:
    """The pairs from the state's position on, which moves with each."""
    while True:
        state.position += 1
        yield pairs.pair(state.position - 1)
