"""How far training is: a bar with rate and time left in a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vrthinker_core.commands.arguments import progress_line
from vrthinker_core.commands.pair_progress import rate_parts

if TYPE_CHECKING:
    from vrthinker_core.training.monitor.metrics import StepMetrics


@dataclass(slots=True)
class StepPace:
    """Counts the steps of each stage as they come, and says how fast those of the newest one do."""

    minutes: float | None = None  # That the whole may take
    stage: str = ""
    done: int = 0
    total: int = 0
    reward: float | None = None
    begun: float = field(default_factory=time.monotonic)
    starts: dict[str, tuple[int, float]] = field(
        default_factory=dict
    )  # Steps before this start, and when it was, by stage

    def add(self, step: "StepMetrics", total: int) -> None:
        """Count one more."""
        before = (
            step.step - 1 if step.seconds else step.step
        )  # Where it says no time, it is not counted
        self.starts.setdefault(step.stage, (before, time.monotonic() - step.seconds))
        self.stage, self.done, self.total, self.reward = (
            step.stage,
            step.step,
            total,
            step.reward_total,
        )

    @property
    def line(self) -> str:
        """`grpo: 12 of 100 steps, 8.1 s each, 11 min left, reward 1.52`."""
        first, begun = self.starts.get(self.stage, (self.done, time.monotonic()))
        seconds, made = time.monotonic() - begun, self.done - first
        parts = [f"{self.stage}: {self.done:,} of {self.total:,}"]
        if made > 0 and seconds > 0:
            rate = made / seconds
            parts += rate_parts(rate, min((self.total - self.done) / rate, self._until_end()))
        return ", ".join(
            [*parts, *([f"reward {self.reward:.2f}"] if self.reward is not None else [])]
        )

    def _until_end(self) -> float:
        return (
            float("inf")
            if self.minutes is None
            else max(0.0, self.begun + self.minutes * 60 - time.monotonic())
        )


@contextmanager
def step_progress(pace: StepPace) -> Iterator[Callable[["StepMetrics", int], None]]:
    """Show the pace on standard error as it changes; gives the function for each step."""
    from rich.progress import BarColumn

    with progress_line("steps", (BarColumn(), "{task.description}")) as update:

        def tell(step: "StepMetrics", total: int) -> None:
            first = not pace.starts
            pace.add(step, total)
            update(step.step, total, pace.line, first)

        yield tell
