"""Progress of an evaluation: rate, time left and failures.

A terminal shows a bar; elsewhere a line comes now and then.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from vrthinker_core.commands.arguments import print_error, progress_line
from vrthinker_core.results.result import ROW_FAULT, PairResult
from vrthinker_core.types.progress import count

NAMED = 20  # failures that are printed; the table holds all


@dataclass(slots=True)
class ProgressCounts:
    """Counts of results, and their rate."""

    total: int
    done: int = 0  # rows with a result, also from earlier starts
    failed: int = 0
    judged: int = 0  # in this start, with failures of the judge; the base of the rate
    begun: float = field(default_factory=time.monotonic)
    seconds: float = 0.0  # length of this start, once it has ended

    def add(self, result: PairResult) -> str:
        """Count a result; return the sentence of its failure, or ""."""
        self.done += 1
        self.judged += not (result.fault == ROW_FAULT or result.left_out)
        if result.judged or result.left_out:
            return ""
        self.failed += 1
        return f"Row {result.pair.row}: {result.error or result.stop.value}"

    @property
    def line(self) -> str:
        """Progress with rate, time left and failures, in one line."""
        seconds = time.monotonic() - self.begun
        parts = [f"{self.done:,} of {count(self.total, 'pair')}"]
        if self.judged and seconds > 0:
            rate = self.judged / seconds
            parts += rate_parts(rate, (self.total - self.done) / rate)
        return ", ".join([*parts, *([f"{self.failed:,} failed"] if self.failed else [])])


def rate_parts(rate: float, left: float) -> list[str]:
    """Return the rate (per second or seconds each) and time left."""
    return [
        f"{rate:.1f} a second" if rate >= 1 else f"{1 / rate:.1f} s each",
        f"{time_left(left)} left",
    ]


def time_left(seconds: float) -> str:
    """Return a duration as `40 s`, `12 min`, `2 h 20 min`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"


@contextmanager
def pair_progress(counts: ProgressCounts) -> Iterator[Callable[[PairResult], None]]:
    """Show counts and first failures; yield the function for each result."""
    from rich.progress import BarColumn

    with progress_line("pairs", (BarColumn(), "{task.description}")) as update:
        named = 0

        def add(result: PairResult) -> None:
            nonlocal named
            if failure := counts.add(result):
                named += 1
                print_error(failure if named <= NAMED else "")
                print_error(
                    "Further failures are only counted; the table names each."
                    if named == NAMED
                    else ""
                )
            update(counts.done, counts.total, counts.line, False)

        yield add
