"""What a stage leaves to look at: the figures of every step, in a file and told at once."""

import time
from contextlib import AbstractContextManager, nullcontext

from vrthinker_core.training.monitor.metrics import MetricsWriter, StepMetrics
from vrthinker_core.training.monitor.trackio_curves import name_of
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting


class StageRecord(AbstractContextManager["StageRecord"]):
    """Keeps the steps of one stage in its folder."""

    def __init__(self, folder: RunFolder, config: TrainConfig, sitting: Sitting) -> None:
        """Raises BadInput where nothing can be written."""
        self._writer = MetricsWriter(
            folder.path, folder.state.curves or name_of(folder.path) if config.trackio else ""
        )
        self._sitting, self._lap = sitting, time.monotonic()

    def add(self, metrics: StepMetrics, total: int) -> None:
        """A step of `total` is done. Raises BadInput where the disk is full."""
        self._writer.write(metrics)
        self._sitting.tell(metrics, total)

    def lap(self) -> float:
        """Seconds since the last lap, at first since the record was opened."""
        last, self._lap = self._lap, time.monotonic()
        return self._lap - last

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def stage_record(
    folder: RunFolder, config: TrainConfig, sitting: Sitting
) -> AbstractContextManager[StageRecord | None]:
    """The record of a stage that several processes may train: in the main one; None in the others."""
    return StageRecord(folder, config, sitting) if folder.processes.main else nullcontext()
