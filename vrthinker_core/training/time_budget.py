"""A sitting: one start of a training run, until when it may go on, and who hears of its steps."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.training.metrics import StepMetrics

Listener = Callable[[StepMetrics, int], None]  # A step, and how many there will be


def ignore_step(_: StepMetrics, __: int) -> None:
    """Nobody listens."""


def ignore_line(_: str) -> None:
    """Nobody hears it."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """One start of a run, or of one stage of it."""

    stopped: Callable[[], bool] = (
        not_cancelled  # Whether somebody asked it to stop: what is left is for another sitting
    )
    deadline: float | None = (
        None  # On the clock of `time.monotonic`; the stage is done with what it has then. None for no limit
    )
    tell: Listener = ignore_step
    say: Callable[[str], None] = ignore_line  # Hears sentences on how the stage is run

    @property
    def over(self) -> bool:
        """No further step is to begin."""
        return self.stopped() or (self.deadline is not None and time.monotonic() >= self.deadline)

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline, not below 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def part(self, share: float) -> "Sitting":
        """The same sitting with that share of the time that is left."""
        left = self.seconds_left
        return self if left is None else replace(self, deadline=time.monotonic() + left * share)


def begin_sitting(
    stopped: Callable[[], bool],
    minutes: float | None,
    tell: Listener = ignore_step,
    say: Callable[[str], None] = ignore_line,
) -> Sitting:
    """A sitting that begins now and lasts so many minutes, None for as long as it takes."""
    return Sitting(stopped, None if minutes is None else time.monotonic() + minutes * 60, tell, say)
