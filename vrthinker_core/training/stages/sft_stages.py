"""What the first two stages share: runs that passed the filters become token rows, and token rows train the judge."""

import time
from collections.abc import Sequence
from math import nan
from pathlib import Path

from vrthinker_core.backends.local.checkpoint.checkpoint_files import locate
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.filters import Outcome
from vrthinker_core.training.labelled_pairs.pair_set import PairSet
from vrthinker_core.training.monitor.metrics import MetricsWriter, StepMetrics
from vrthinker_core.training.run.config import SftConfig, TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.teacher import kept_rollouts
from vrthinker_core.training.token_rows import TokenRow, token_rows
from vrthinker_core.training.trl.sft import SftOptions, train_sft
from vrthinker_core.training.trl.trainer_checkpoints import TrainerPace


def rows_of(out: Path, pairs: PairSet, chosen: Sequence[Outcome], source: str, *, keep_tokens: bool) -> list[TokenRow]:
    """The token rows of chosen runs, as the tokenizer of `source` has them. Raises BadInput where there are none."""
    judge = TransformersBackend.load(source, device="cpu")
    rollouts = kept_rollouts(out, pairs, chosen, keep_tokens=keep_tokens)
    rows = [row for rollout in rollouts for row in token_rows(rollout, judge.loaded)]
    if not rows:
        raise BadInput("No run passes the filters, so there is nothing to learn from: give more pairs, or a better teacher.")
    return rows


def fine_tune(
    rows: Sequence[TokenRow], source: str, sft: SftConfig, config: TrainConfig, folder: RunFolder, sitting: Sitting
) -> Path | None:
    """Train on the rows; gives the result, None where the sitting was stopped before the end. Raises BadInput."""
    options = sft_options(sft, config)
    stage = folder.state.stage
    with MetricsWriter(folder.path, config.trackio) as writer:
        last = time.monotonic()

        def report(pace: TrainerPace) -> bool:
            nonlocal last
            now = time.monotonic()
            metrics = StepMetrics(stage, pace.step, now - last, nan if pace.loss is None else pace.loss)
            last = now
            writer.write(metrics)
            sitting.tell(metrics, pace.steps)
            return sitting.over

        made = train_sft(rows, locate(source), options, folder.checkpoints, report)
    return None if sitting.stopped() else folder.finish(made)


def sft_options(sft: SftConfig, config: TrainConfig) -> SftOptions:
    """What the trainer is told."""
    optimizer = sft.optimizer
    return SftOptions(
        epochs=sft.epochs,
        learning_rate=optimizer.learning_rate,
        warmup=optimizer.warm_up,
        batch=sft.batch,
        accumulate=sft.accumulation,
        weight_decay=optimizer.weight_decay,
        bf16=sft.bf16,
        frozen_eyes=config.frozen_eyes,
        features=config.frozen_eyes and config.preset == "nano",
        save_minutes=config.checkpoint_minutes,
        seed=config.seed,
    )
