"""Alarms: what goes wrong in training without any error, told in a sentence while it can still be stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from vrthinker_core.training.monitor.metrics import StepMetrics

WINDOW = 10  # Steps: means over the first and the latest ones of a stage are compared
FIRST_ACCURACY_FALL = 0.05  # Of the first stated labels
GAIN_RISE = 0.01  # Of the CoT gain's reward meanwhile
FORMAT_FALL = 0.1  # Of the share of well-formed rollouts
ENTROPY_LEFT = 0.3  # At most, as a share of that at the beginning

Figure = Callable[[StepMetrics], float | None]


class Alarms:
    """Watches the steps of a stage. Each alarm is told once, and once more when it has gone and come again."""

    def __init__(self) -> None:
        self._steps: list[StepMetrics] = []
        self._told: set[str] = set()

    def add(self, metrics: StepMetrics) -> list[str]:
        """Take the next step; gives the sentences of alarms that begin with it. A new stage begins anew.

        A step that is made again after a stop takes the place of what it was, and of those that came after.
        """
        if self._steps and self._steps[-1].stage != metrics.stage:
            self._steps, self._told = [], set()
        while self._steps and self._steps[-1].step >= metrics.step:
            self._steps.pop()
        self._steps.append(metrics)
        sounding = {name: sentence for name, check in CHECKS.items() if (sentence := check(self._steps))}
        new = [sentence for name, sentence in sounding.items() if name not in self._told]
        self._told = set(sounding)
        return new


def gamed_gain(steps: Sequence[StepMetrics]) -> str:
    """The CoT gain is earned by starting wrong: first answers get worse while it rises. "" where that is not so."""
    first, gain = _change(steps, lambda step: step.first_accuracy), _change(steps, lambda step: step.reward_gain)
    if first is None or gain is None or first.by > -FIRST_ACCURACY_FALL or gain.by < GAIN_RISE:
        return ""
    return (
        f"The CoT gain is being gamed: it rose from {gain.before:.3f} to {gain.now:.3f} while the accuracy of first answers fell "
        f"from {first.before:.2f} to {first.now:.2f}; give it less weight, or stop."
    )


def collapsed_format(steps: Sequence[StepMetrics]) -> str:
    """Fewer rollouts keep to the format than at the beginning. "" where that is not so."""
    form = _change(steps, lambda step: step.reward_format)
    if form is None or form.by > -FORMAT_FALL:
        return ""
    return (
        f"The format is collapsing: {100 * form.now:.0f} % of the rollouts keep to it, {100 * form.before:.0f} % did at first; "
        "lower the learning rate."
    )


def collapsed_entropy(steps: Sequence[StepMetrics]) -> str:
    """The judge hardly tries anything any more. "" where that is not so, and where nothing was sampled: there it should fall."""
    entropy = _change(steps, lambda step: None if step.reward_format is None else step.entropy)
    if entropy is None or entropy.before <= 0 or entropy.now > ENTROPY_LEFT * entropy.before:
        return ""
    return (
        f"The entropy is collapsing: from {entropy.before:.3g} to {entropy.now:.3g} nats a token, so that the samples of a pair "
        "become the same; lower the learning rate or raise the temperature."
    )


CHECKS = {"gamed gain": gamed_gain, "format": collapsed_format, "entropy": collapsed_entropy}


@dataclass(frozen=True, slots=True)
class _Change:
    before: float
    now: float

    @property
    def by(self) -> float:
        return self.now - self.before


def _change(steps: Sequence[StepMetrics], figure: Figure) -> _Change | None:
    """The mean of the first steps and that of the latest; None before there are two windows of steps with the figure."""
    known = [value for step in steps if (value := figure(step)) is not None]
    if len(known) < 2 * WINDOW:
        return None
    return _Change(fmean(known[:WINDOW]), fmean(known[-WINDOW:]))
