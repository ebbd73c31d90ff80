"""What the first two stages share: runs that passed the filters become token rows, and token rows train the judge."""

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path

from vrthinker_core.backends.local.checkpoint.checkpoint_files import locate
from vrthinker_core.backends.local.checkpoint.loader import open_for_rendering
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.rows.teaching import NotForTraining
from vrthinker_core.training.run.config import SftConfig, TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.stages.stage_record import stage_record
from vrthinker_core.training.token_rows import TokenRow, token_rows
from vrthinker_core.training.trl.sft import SftOptions, train_sft
from vrthinker_core.training.trl.trainer_checkpoints import TrainerPace


def rows_of(rollouts: Iterable[Rollout], source: str) -> list[TokenRow]:
    """The token rows of the rollouts, as the tokenizer of `source` has them.

    Raises BadInput where there are none, or one is of a protocol that the model was not made for.
    """
    judge = TransformersBackend(open_for_rendering(source), source)
    rows: list[TokenRow] = []
    try:
        for rollout in rollouts:
            if rollout.run.started.dialect not in judge.protocols:
                raise BadInput(
                    f"A run speaks {rollout.run.started.dialect}, and the model was made for {' and '.join(judge.protocols)}: "
                    "take runs of that protocol."
                )
            rows += token_rows(rollout, judge.loaded)
    except NotForTraining as error:
        raise BadInput(f"A kept run cannot be learnt from: {error}.") from None
    if not rows:
        raise BadInput("No run passes the filters, so there is nothing to learn from: give more pairs, or a better teacher.")
    return rows


def fine_tune(
    rows: Sequence[TokenRow], source: str, sft: SftConfig, config: TrainConfig, folder: RunFolder, sitting: Sitting
) -> Path | None:
    """Train on the rows; gives the result, None where the sitting was stopped before the end. Raises BadInput."""
    options = sft_options(sft, config, folder.processes.count)
    stage = folder.state.stage
    with stage_record(folder, config, sitting) as record:

        def report(pace: TrainerPace) -> bool:
            assert record is not None, "only the main process reports"
            loss = nan if pace.loss is None else pace.loss
            record.add(StepMetrics(stage, pace.step, record.lap(), loss, pace.learning_rate, entropy=pace.entropy), pace.steps)
            return sitting.over

        made = train_sft(rows, locate(source), options, folder.checkpoints, report)
    return None if folder.processes.agreed(sitting.stopped()) else folder.finish(made)


def sft_options(sft: SftConfig, config: TrainConfig, processes: int = 1) -> SftOptions:
    """What the trainer is told in each of so many processes."""
    return SftOptions(
        epochs=sft.epochs,
        optimizer=sft.optimizer,
        batch=sft.batch,
        accumulate=sft.accumulation,
        bf16=sft.bf16,
        frozen_vision=config.frozen_vision,
        features=config.frozen_vision and config.preset == "nano" and processes == 1,
        gradient_checkpointing=config.gradient_checkpointing,
        save_minutes=config.checkpoint_minutes,
        seed=config.seed,
    )
