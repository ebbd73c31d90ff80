"""What the first two stages share: runs that passed the filters become token rows, and token rows train the judge."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from vrthinker_core.backends.checkpoint import open_for_rendering
from vrthinker_core.backends.checkpoint_files import locate
from vrthinker_core.backends.devices import available_memory
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.errors import BadInput
from vrthinker_core.training.monitor.metrics import StepMetrics
from vrthinker_core.training.rows.filters import Outcome
from vrthinker_core.training.rows.rollout_trace import StoredRollout
from vrthinker_core.training.rows.row_set import RowSet
from vrthinker_core.training.rows.teaching import NotForTraining
from vrthinker_core.training.run.config import SftConfig, TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder, stage_record
from vrthinker_core.training.run.sitting import Sitting
from vrthinker_core.training.trl.sft import optimizer_steps, rows_a_step, train_sft
from vrthinker_core.training.trl.trainer_checkpoints import TrainerPace


def require_runs(kept: Sequence[Outcome], playing: Sitting) -> None:
    """Raises BadInput where no run is kept because there was no more time for `playing`."""
    if not kept and playing.over:
        raise BadInput(
            "No run passed the filters in the time that there was for playing: go on with --resume and more --minutes."
        )


def rows_of(rollouts: Iterable[StoredRollout], most: int, source: str, sitting: Sitting) -> RowSet:
    """The token rows of the rollouts, of which there are so many at most, as the tokenizer of `source` has them.

    Raises BadInput where there are none, or one is of a protocol that the model was not made for.
    """
    judge = TransformersBackend(open_for_rendering(source), source)
    rows = RowSet(judge.loaded, _room_for_frames())
    try:
        for number, stored in enumerate(rollouts, start=1):
            sitting.tell(StepMetrics("rows", number, 0.0, 0.0), most)
            spoken = stored.rollout.run.started.dialect
            if judge.protocols and spoken not in judge.protocols:
                made_for = " and ".join(judge.protocols)
                raise BadInput(
                    f"A run speaks {spoken}, and the model was made for {made_for}: take runs of that protocol."
                )
            rows.add(stored)
    except NotForTraining as error:
        raise BadInput(f"A kept run cannot be learnt from: {error}.") from None
    if not rows:
        raise BadInput(
            "No run passes the filters, so there is nothing to learn from: give more pairs, or a better teacher."
        )
    return rows


def _room_for_frames() -> int:
    """Bytes of frames that this process keeps: its share of a quarter of the free memory."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return (available_memory("cpu") or 0) // (4 * processes)


def fine_tune(
    rows: RowSet,
    source: str,
    sft: SftConfig,
    config: TrainConfig,
    folder: RunFolder,
    sitting: Sitting,
) -> Path | None:
    """Train on the rows; gives the result, None where the sitting was stopped before the end. Raises BadInput.

    A `source` that names no protocol makes a judge of those that the rows speak.
    """
    stage, processes = folder.state.stage, folder.processes.count
    steps, each = optimizer_steps(len(rows), sft, processes), rows_a_step(sft, processes)
    sitting.say(f"Rows to learn from: {len(rows):,}, in {steps:,} optimizer steps of {each:,}.")
    with stage_record(folder, config, sitting) as record:

        def report(pace: TrainerPace) -> bool:
            assert record is not None, "only the main process reports"
            record.add(pace.metrics(stage, record.lap()), pace.steps)
            return sitting.over

        made = train_sft(
            rows, locate(source), sft, config, folder.checkpoints, report, rows.protocols
        )
    return None if folder.processes.agreed(sitting.stopped()) else folder.finish(made)
