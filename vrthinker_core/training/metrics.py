"""One record for every step of training: JSON lines in the run's folder, and trackio where a person wants curves."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.storage import LineFile, whole_lines
from vrthinker_core.training.rewards import RewardWeights, RolloutReward, first_accuracy
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.types import Dimension

METRICS = "metrics.jsonl"  # In the folder of a training run


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One step. None where a figure does not belong to the stage, or cannot be known; a mean leaves out what has none."""

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
    right: Mapping[str, float] = field(
        default_factory=dict
    )  # Share of right labels, by the dimension's name
    first_accuracy: float | None = (
        None  # Of the first labels a rollout states: it falls where the CoT gain is being gamed
    )
    tokens: float | None = None  # Written in a rollout
    calls: float | None = None  # Turns after the first that brought frames
    frames: float | None = None  # Shown in a rollout, the first ones included
    entropy: float | None = None  # Of the learnt tokens, in nats
    kl: float | None = None  # To the reference, of the learnt tokens
    mixed: float | None = None  # Share of the groups that were played whose rewards differ

    def with_rollouts(
        self, rewarded: Sequence[tuple[Rollout, RolloutReward]], weights: RewardWeights
    ) -> "StepMetrics":
        """The same step with the figures of its rollouts and of their rewards, which these weights gave."""
        if not rewarded:
            return self
        rollouts, rewards = zip(*rewarded, strict=True)
        runs = [rollout.run for rollout in rollouts]
        return replace(
            self,
            reward_format=_mean([reward.format for reward in rewards]),
            reward_accuracy=_mean([reward.accuracy for reward in rewards]),
            reward_gain=_mean([reward.gain for reward in rewards]),
            reward_exploration=_mean([reward.exploration for reward in rewards]),
            reward_total=_mean([reward.total for reward in rewards]),
            right=_right(rollouts),
            first_accuracy=_mean(
                [first_accuracy(rollout.run, rollout.pair.truth, weights) for rollout in rollouts]
            ),
            tokens=fmean(
                sum(
                    _length(turn.completion.tokens, turn.completion.new_tokens)
                    for turn in run.turns
                )
                for run in runs
            ),
            calls=fmean(sum(bool(turn.frames) for turn in run.turns[1:]) for run in runs),
            frames=fmean(sum(len(turn.frames) for turn in run.turns) for run in runs),
        )

    @property
    def figures(self) -> dict[str, float]:
        """Every figure that is known, by the name of its curve."""
        values: dict[str, float | None] = {
            name: value for name, value in asdict(self).items() if name not in NO_FIGURES
        }
        values |= {f"right_{name}": value for name, value in self.right.items()}
        return {name: value for name, value in values.items() if value is not None}


NO_FIGURES = ("stage", "step", "right")


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _length(tokens: Sequence[int], counted: int | None) -> int:
    return len(tokens) or counted or 0


def _right(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """The share of right final labels in each dimension that is known of some pair; a label not given is wrong."""
    found: dict[str, list[bool]] = {}
    for rollout in rollouts:
        given = dict(rollout.run.final_verdict or ())
        for dimension, label in rollout.pair.truth:
            if label is not None:
                found.setdefault(dimension.value, []).append(given.get(dimension) is label)
    return {each.value: fmean(found[each.value]) for each in Dimension if each.value in found}


class MetricsWriter(AbstractContextManager["MetricsWriter"]):
    """Appends the records of a training run to a file in its folder, a line each, and gives them to trackio where that is wanted.

    Each line is handed to the system at once, so it outlives this process. What a killed process left of a line is cut off first,
    and so are, with the first record, the lines of steps that are made again. A curve keeps the point that it has of such a step.
    """

    def __init__(self, folder: Path, curves: str = "") -> None:
        """`curves`: the name of the run in trackio, "" where there are to be none.

        Raises BadInput where the file cannot be read or written, or trackio is wanted and not installed.
        """
        self._path = folder / METRICS
        self._curves = TrackioCurves(curves) if curves else None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lines = LineFile(self._path)
        except OSError as error:
            raise _unwritable(self._path, error) from None
        self._there = [
            (each.stage, each.step) for each in _read_lines(self._path)
        ]  # Lines of earlier starts
        self._drawn = frozenset(self._there)

    def write(self, metrics: StepMetrics) -> None:
        """Add a record. Raises BadInput where the disk is full, and then leaves none of it."""
        again = (
            number
            for number, (stage, step) in enumerate(self._there)
            if stage == metrics.stage and step >= metrics.step
        )
        try:
            if (first := next(again, None)) is not None:
                self._lines.keep(first)
            self._there = []
            self._lines.append(json.dumps(asdict(metrics), allow_nan=True).encode())
        except OSError as error:
            raise _unwritable(self._path, error) from None
        if self._curves and (metrics.stage, metrics.step) not in self._drawn:
            self._curves.add(
                metrics.step,
                {f"{metrics.stage}/{name}": value for name, value in metrics.figures.items()},
            )

    def close(self) -> None:
        """Close the file and what trackio holds. May be called again."""
        self._lines.close()
        if self._curves:
            self._curves.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def read_metrics(folder: Path) -> list[StepMetrics]:
    """The records of a run in the order of their steps; of a step that was made again after a stop, the last one counts.

    Raises BadInput for a file that cannot be read or holds anything else. A last line that is not whole is left out.
    """
    found: dict[tuple[str, int], StepMetrics] = {}
    for metrics in _read_lines(folder / METRICS):
        found.pop((metrics.stage, metrics.step), None)
        found[metrics.stage, metrics.step] = metrics
    return list(found.values())


def _read_lines(path: Path) -> Iterator[StepMetrics]:
    try:
        lines = whole_lines(path)
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None
    names = {each.name for each in fields(StepMetrics)}
    for number, line in enumerate(lines, start=1):
        try:
            values: dict[str, Any] = json.loads(line)
            yield StepMetrics(**{name: value for name, value in values.items() if name in names})
        except (ValueError, TypeError, AttributeError):
            raise BadInput(f"Line {number} of {path} is no record of a training step.") from None


def _unwritable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"Cannot write {path}: {error.strerror or error}.")


PROJECT = "vr-thinker"


def name_of(folder: Path) -> str:
    """What a folder and the one above it call its run; folders elsewhere may have the same name."""
    absolute = folder.absolute()
    return f"{absolute.parent.name}-{absolute.name}".strip("-")


class TrackioCurves:
    """The curves of one training run; a run that is resumed goes on with its own."""

    def __init__(self, name: str) -> None:
        """`name`: of the run. Raises BadInput where trackio is not installed."""
        try:
            trackio = import_module("trackio")
        except ImportError:
            raise BadInput(
                "Curves take trackio: run pip install -e '.[train]', or train without --set trackio=true."
            ) from None
        with redirect_stdout(sys.stderr):
            self._run: Any = trackio.init(
                PROJECT,
                name=name,
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def add(self, step: int, figures: dict[str, float]) -> None:
        """One point of each curve."""
        self._run.log(figures, step=step)

    def close(self) -> None:
        """Write what is still on its way."""
        with redirect_stdout(sys.stderr):
            self._run.finish()
