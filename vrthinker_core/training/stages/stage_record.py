"""What a stage leaves to look at: the figures of every step, in a file and told at once."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from vrthinker_core.training.groups import Group, StepReport
from vrthinker_core.training.monitor.metrics import MetricsWriter, StepMetrics
from vrthinker_core.training.monitor.trackio_curves import name_of
from vrthinker_core.training.run.config import GrpoConfig, TrainConfig
from vrthinker_core.training.run.run_folder import RunFolder
from vrthinker_core.training.run.sitting import Sitting


class StageRecord(AbstractContextManager["StageRecord"]):
    """Keeps the steps of one stage in its folder."""

    def __init__(self, folder: RunFolder, config: TrainConfig, sitting: Sitting) -> None:
        """Raises BadInput where nothing can be written."""
        self._writer = MetricsWriter(folder.path, folder.state.curves or name_of(folder.path) if config.trackio else "")
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


def stage_record(folder: RunFolder, config: TrainConfig, sitting: Sitting) -> AbstractContextManager[StageRecord | None]:
    """The record of a stage that several processes may train: in the main one; None in the others."""
    return StageRecord(folder, config, sitting) if folder.processes.main else nullcontext()


def with_groups(metrics: StepMetrics, report: StepReport, played: Sequence[Group], grpo: GrpoConfig) -> StepMetrics:
    """The figures of all rollouts that have rewards, not only of those that taught something."""
    rewarded = [each for group in played for each in group.rewarded]
    known = replace(
        metrics,
        entropy=report.entropy,
        kl=report.kl,
        mixed=sum(any(group.advantages) for group in played) / max(1, len(played)),
        redrawn=max(0, len(played) - grpo.pairs),
    )
    return known.with_rollouts([rollout for rollout, _ in rewarded], [reward for _, reward in rewarded], grpo.weights)
