"""What a stage leaves to look at: the figures of every step and its alarms, in files and told at once."""

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.files.line_file import LineFile
from vrthinker_core.training.monitor.alarms import Alarms
from vrthinker_core.training.monitor.metrics import MetricsWriter, StepMetrics, read_metrics
from vrthinker_core.training.monitor.trackio_curves import name_of
from vrthinker_core.training.run.config import TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting

ALARMS = "alarms.jsonl"  # In the folder of a training run


class StageRecord(AbstractContextManager["StageRecord"]):
    """Keeps the steps of one stage in its folder."""

    def __init__(self, folder: RunFolder, config: TrainConfig, sitting: Sitting) -> None:
        """Raises BadInput where nothing can be written."""
        self._folder, self._sitting = folder.path, sitting
        self._writer = MetricsWriter(folder.path, folder.state.curves or name_of(folder.path) if config.trackio else "")
        self._alarms, self._lap = Alarms(), time.monotonic()
        for before in read_metrics(folder.path):
            self._alarms.add(before)

    def add(self, metrics: StepMetrics, total: int) -> None:
        """A step of `total` is done. Raises BadInput where the disk is full."""
        self._writer.write(metrics)
        for sentence in self._alarms.add(metrics):
            _append(self._folder / ALARMS, {"stage": metrics.stage, "step": metrics.step, "alarm": sentence})
            self._sitting.say(sentence)
        self._sitting.tell(metrics, total)

    def lap(self) -> float:
        """Seconds since the last lap, at first since the record was opened."""
        last, self._lap = self._lap, time.monotonic()
        return self._lap - last

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def stage_record(folder: RunFolder, config: TrainConfig, sitting: Sitting) -> AbstractContextManager[StageRecord | None]:
    """The record of a stage that several processes may train: in the main one; None in the others."""
    return StageRecord(folder, config, sitting) if folder.processes.main else nullcontext()


def _append(path: Path, values: Mapping[str, str | int]) -> None:
    try:
        with LineFile(path) as lines:
            lines.append(json.dumps(values).encode())
    except OSError as error:
        raise BadInput(f"Cannot write {path}: {error.strerror or error}.") from None
