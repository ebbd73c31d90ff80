"""One record for every step of training: JSON lines in the run's folder, and trackio's curves."""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from vrthinker_core.errors import BadInput, data_errors, os_errors, type_adapter
from vrthinker_core.storage import LineFile, whole_lines
from vrthinker_core.training.rewards import (
    RewardWeights,
    RolloutReward,
    first_accuracy,
    right_labels,
)
from vrthinker_core.training.rollouts import Rollout

METRICS = "metrics.jsonl"  # In the folder of a training run


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One step. None for a figure that the stage does not have; a mean leaves out what has none."""

    __pydantic_config__: ClassVar = {"ser_json_inf_nan": "constants"}  # A loss may be NaN

    stage: str
    step: int  # From 1 on within the stage
    seconds: float  # That the step took
    loss: float
    learning_rate: float | None = None
    reward_format: float | None = None  # Means over the rollouts of the step, and so all below
    reward_accuracy: float | None = None
    reward_gain: float | None = None
    reward_exploration: float | None = None
    reward_total: float | None = None
    right: Mapping[str, float] = field(default_factory=dict)  # Share of right labels, by dimension
    first_accuracy: float | None = None  # Of a rollout's first labels: falls if the gain is gamed
    tokens: float | None = None  # Written in a rollout
    calls: float | None = None  # Turns after the first that brought frames
    frames: float | None = None  # Shown in a rollout, the first ones included
    entropy: float | None = None  # Of the learnt tokens, in nats
    kl: float | None = None  # To the reference, of the learnt tokens
    mixed: float | None = None  # Share of the groups that were played whose rewards differ
    redrawn: int | None = None  # Groups that were played in place of others
    left: float | None = None  # Share of turns before which frames had left the view
    held_out: Mapping[str, float] = field(default_factory=dict)
    """Shares of right labels on held-out pairs, greedy: by dimension, and `all` of a pair."""

    def with_rollouts(
        self, rewarded: Sequence[tuple[Rollout, RolloutReward]], weights: RewardWeights
    ) -> "StepMetrics":
        """Add the figures of rollouts and of their rewards by these weights."""
        if not rewarded:
            return self
        figures, right = defaultdict[str, list[float]](list), defaultdict[str, list[bool]](list)
        for rollout, reward in rewarded:
            run, truth = rollout.run, rollout.pair.truth
            written = (turn.completion for turn in run.turns)
            parts = ("format", "accuracy", "gain", "exploration", "total")
            found = {f"reward_{part}": getattr(reward, part) for part in parts} | {
                "first_accuracy": first_accuracy(run, truth, weights),
                "tokens": sum(len(one.tokens) or one.new_tokens or 0 for one in written),
                "calls": sum(bool(turn.frames) for turn in run.turns[1:]),
                "frames": sum(len(turn.frames) for turn in run.turns),
            }
            for name, value in found.items():
                if value is not None:
                    figures[name].append(value)
            for each, is_right in right_labels(run.final_verdict, truth).items():
                right[each.value].append(is_right)
            figures["left"] += run.left_view
        means: dict[str, Any] = {name: fmean(values) for name, values in figures.items()}
        return replace(self, right={name: fmean(each) for name, each in right.items()}, **means)

    @property
    def figures(self) -> dict[str, float]:
        """Every figure that is known, by the name of its curve."""
        found: dict[str, float] = {}
        for name, value in asdict(self).items():
            if isinstance(value, Mapping):
                found |= {f"{name}_{key}": share for key, share in value.items()}
            elif value is not None and name not in ("stage", "step"):
                found[name] = value
        return found


class MetricsWriter(AbstractContextManager["MetricsWriter"]):
    """Writes a line for each step to a stage's folder, and curves to trackio.

    Each line outlives this process. The first record replaces the lines of the steps that are made
    again; a curve keeps its point of such a step.
    """

    def __init__(self, folder: Path, curves: str | None = None) -> None:
        """Open file and curves; `curves` is the run's name in trackio.

        Raises BadInput if the file cannot be read or written, or trackio is wanted and missing.
        """
        self._path = folder / METRICS
        self._curves: Any = None
        if curves:
            try:
                import trackio
            except ImportError:
                raise BadInput(
                    "Curves take trackio: run pip install -e '.[train]', or train without "
                    "--set trackio=true."
                ) from None
            quiet = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
            with redirect_stdout(sys.stderr):
                self._curves = trackio.init("vr-thinker", name=curves, resume="allow", **quiet)
        with os_errors(f"Cannot write {self._path}"):
            folder.mkdir(parents=True, exist_ok=True)
            self._lines = LineFile(self._path)
        self._earlier = [each.step for each in read_metrics(folder)]
        self._drawn = max(self._earlier, default=0)

    def write(self, metrics: StepMetrics) -> None:
        """Add a record. Raises BadInput if the disk is full, and then leaves none of it."""
        with os_errors(f"Cannot write {self._path}"):
            if self._earlier:
                self._lines.keep(sum(step < metrics.step for step in self._earlier))
                self._earlier = []
            self._lines.append(type_adapter(StepMetrics).dump_json(metrics))
        if self._curves is not None and metrics.step > self._drawn:
            figures = {f"{metrics.stage}/{name}": value for name, value in metrics.figures.items()}
            self._curves.log(figures, step=metrics.step)

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        if self._curves is not None:
            with redirect_stdout(sys.stderr):
                self._curves.finish()


def read_metrics(folder: Path) -> list[StepMetrics]:
    """Return the records of a stage, without a partial last line. Raises BadInput."""
    path, found = folder / METRICS, []
    with os_errors(f"Cannot read {path}"):
        lines = whole_lines(path)
    for number, line in enumerate(lines, start=1):
        with data_errors(f"Line {number} of {path} is no record of a training step"):
            found.append(type_adapter(StepMetrics).validate_json(line))
    return found
