"""The third stage on GPUs: TRL's trainer as a run that goes on after a stop, in as many processes as were launched."""

from dataclasses import replace
from pathlib import Path

import torch

from vrthinker_core.backends.local.checkpoint.checkpoint_files import locate
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rows.shown_rollouts import keep_rollouts
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.run.training_memory import require_training_memory
from vrthinker_core.training.stages.stage_record import stage_record, with_groups
from vrthinker_core.training.trl.grpo import TrlGrpoOptions, TrlStep, train_grpo

STAGE = "grpo"
SHOWN = 2  # Rollouts of one pair that are kept each time


def train_with_trl(source: str, pairs: PairSet, config: TrainConfig, folder: RunFolder, sitting: Sitting) -> Path | None:
    """Train the checkpoint `source`; gives the trained one, None where the sitting was stopped before the end.

    Figures and kept rollouts are those of the main process. Raises BadInput and CheckpointError.
    """
    grpo = config.grpo
    if folder.processes.count == 1 and not grpo.trl.lora:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        require_training_memory(source, reference=grpo.kl > 0, frozen_vision=config.frozen_vision, device=device)
    with stage_record(folder, config, sitting) as record:

        def report(step: TrlStep) -> bool:
            assert record is not None, "only the main process reports"
            metrics = StepMetrics(STAGE, step.number, record.lap(), step.report.loss, step.learning_rate)
            record.add(with_groups(metrics, step.report, step.report.groups, grpo), grpo.steps)
            if step.number % grpo.shown_every == 0 and step.report.groups:
                keep_rollouts(folder.path, STAGE, step.number, step.report.groups[0].rollouts[:SHOWN])
            return sitting.over

        made = train_grpo(pairs, locate(source), trl_options(config), folder.checkpoints, report, sitting.say)
    return None if folder.processes.agreed(sitting.stopped()) else folder.finish(made)


def trl_options(config: TrainConfig) -> TrlGrpoOptions:
    """What the trainer is told. Its memory window is "all", unless another one was chosen, which it refuses."""
    grpo, settings = config.grpo, config.settings
    return TrlGrpoOptions(
        steps=grpo.steps,
        pairs=grpo.pairs,
        samples=grpo.samples,
        optimizer=grpo.optimizer,
        kl=grpo.kl,
        clip=grpo.clip,
        batch=grpo.micro_batch,
        tokens=grpo.trl.tokens,
        temperature=grpo.temperature,
        bf16=grpo.bf16,
        frozen_vision=config.frozen_vision,
        gradient_checkpointing=config.gradient_checkpointing,
        lora=grpo.trl.lora,
        vllm=grpo.trl.vllm,
        vllm_memory=grpo.trl.vllm_memory,
        vllm_url=grpo.trl.vllm_url,
        save_minutes=config.checkpoint_minutes,
        seed=config.seed,
        weights=grpo.weights,
        settings=replace(settings, temperature=grpo.temperature, window=settings.window or "all"),
    )
