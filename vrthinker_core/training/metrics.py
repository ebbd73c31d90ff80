"""One record for every step of training: JSON lines in the run's folder, and trackio's curves."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.storage import LineFile, whole_lines
from vrthinker_core.training.rewards import RewardWeights, RolloutReward, first_accuracy
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.types import Dimension, FrameRef, Run

METRICS = "metrics.jsonl"  # In the folder of a training run


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One step. None for a figure that the stage does not have; a mean leaves out what has none."""

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
        """The same step with the figures of its rollouts and of their rewards by these weights."""
        if not rewarded:
            return self
        rollouts, rewards = zip(*rewarded, strict=True)
        runs = [rollout.run for rollout in rollouts]
        parts = ("format", "accuracy", "gain", "exploration", "total")
        means: dict[str, Any] = {
            f"reward_{part}": _mean([getattr(reward, part) for reward in rewards]) for part in parts
        }
        found: dict[Dimension, list[bool]] = {}
        for rollout in rollouts:  # a label not given is wrong
            given = dict(rollout.run.final_verdict or ())
            for dimension, label in rollout.pair.truth:
                if label is not None:
                    found.setdefault(dimension, []).append(given.get(dimension) is label)
        firsts = [first_accuracy(each.run, each.pair.truth, weights) for each in rollouts]
        written = [[turn.completion for turn in run.turns] for run in runs]
        return replace(
            self,
            **means,
            right={each.value: fmean(found[each]) for each in Dimension if each in found},
            first_accuracy=_mean(firsts),
            tokens=fmean(
                sum(len(one.tokens) or one.new_tokens or 0 for one in each) for each in written
            ),
            calls=fmean(sum(bool(turn.frames) for turn in run.turns[1:]) for run in runs),
            frames=fmean(sum(len(turn.frames) for turn in run.turns) for run in runs),
            left=fmean(each for run in runs for each in frames_left(run)),
        )

    @property
    def figures(self) -> dict[str, float]:
        """Every figure that is known, by the name of its curve."""
        values = asdict(self) | {
            f"{kind}_{name}": value
            for kind, shares in (("right", self.right), ("held_out", self.held_out))
            for name, value in shares.items()
        }
        others = ("stage", "step", "right", "held_out")
        known = (each for each in values.items() if each[0] not in others)
        return {name: value for name, value in known if value is not None}


def frames_left(run: Run) -> list[bool]:
    """Return for each turn whether frames shown before had left the judge's view."""
    shown, left = set[FrameRef](), []
    for turn in run.turns:
        shown |= {frame.ref for frame in turn.frames}
        left.append(not shown <= set(turn.in_view))
    return left


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


class MetricsWriter(AbstractContextManager["MetricsWriter"]):
    """Appends the records of a run to a file in its folder, a line each, and gives them to trackio.

    Each line is handed to the system at once, so it outlives this process. What a killed process
    left of a line is cut off first, and so are, with the first record, the lines of steps that are
    made again. A curve keeps the point that it has of such a step.
    """

    def __init__(self, folder: Path, curves: str = "") -> None:
        """`curves`: the name of the run in trackio, which a resumed run goes on with; "" for none.

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
            with redirect_stdout(sys.stderr):
                self._curves = trackio.init(
                    "vr-thinker",
                    name=curves,
                    resume="allow",
                    embed=False,
                    auto_log_gpu=False,
                    auto_log_cpu=False,
                )
        with os_errors(f"Cannot write {self._path}"):
            folder.mkdir(parents=True, exist_ok=True)
            self._lines = LineFile(self._path)
        # Lines of earlier starts
        self._there = [(each.stage, each.step) for each in _read_lines(self._path)]
        self._drawn = frozenset(self._there)

    def write(self, metrics: StepMetrics) -> None:
        """Add a record. Raises BadInput if the disk is full, and then leaves none of it."""
        with os_errors(f"Cannot write {self._path}"):
            for number, (stage, step) in enumerate(self._there):
                if stage == metrics.stage and step >= metrics.step:
                    self._lines.keep(number)
                    break
            self._there = []
            self._lines.append(json.dumps(asdict(metrics), allow_nan=True).encode())
        if self._curves is not None and (metrics.stage, metrics.step) not in self._drawn:
            figures = {f"{metrics.stage}/{name}": value for name, value in metrics.figures.items()}
            self._curves.log(figures, step=metrics.step)

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        if self._curves is not None:
            with redirect_stdout(sys.stderr):
                self._curves.finish()


def read_metrics(folder: Path) -> list[StepMetrics]:
    """The records of a run in the order of their steps; of a step made again the last one counts.

    Raises BadInput for a file that cannot be read or holds anything else. A last line that is not
    whole is left out.
    """
    found: dict[tuple[str, int], StepMetrics] = {}
    for metrics in _read_lines(folder / METRICS):
        found.pop((metrics.stage, metrics.step), None)
        found[metrics.stage, metrics.step] = metrics
    return list(found.values())


def _read_lines(path: Path) -> Iterator[StepMetrics]:
    with os_errors(f"Cannot read {path}"):
        lines = whole_lines(path)
    names = {each.name for each in fields(StepMetrics)}
    for number, line in enumerate(lines, start=1):
        try:
            values: dict[str, Any] = json.loads(line)
            yield StepMetrics(**{name: value for name, value in values.items() if name in names})
        except (ValueError, TypeError, AttributeError):
            raise BadInput(f"Line {number} of {path} is no record of a training step.") from None


def name_of(folder: Path) -> str:
    """The name of a folder and the one above; folders elsewhere may have the same."""
    absolute = folder.absolute()
    return f"{absolute.parent.name}-{absolute.name}".strip("-")
