"""What vision tower and language model share in training: batches made ahead, steps, learning rate, gates, reports."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

from vrthinker_core.batch import in_their_order
from vrthinker_core.files.line_file import LineFile, whole_lines
from vrthinker_core.training.drawn_world.scenes import SECOND_WORLD, WorldOptions
from vrthinker_core.training.run.config import LanguageGates, VisionGates

Batch = TypeVar("Batch")
DECAY = 0.3  # The part of a training in which its learning rate falls
Stopped = Callable[[], bool]  # Whether somebody asked the training to stop


@dataclass(slots=True)
class Progress:
    """How far one half of the model has come."""

    step: int = 0
    seconds: float = 0.0
    passed: float | None = None  # Seconds after which it passed every gate

    def figures(self) -> dict[str, float]:
        """As a report says it."""
        passed = {} if self.passed is None else {"passed after": self.passed / 60}
        return {"step": self.step, "minutes": self.seconds / 60, **passed}

    def note(self, report: Mapping[str, float], gates: VisionGates | LanguageGates) -> None:
        """When every gate was passed first."""
        if self.passed is None and not missed_gates(report, gates):
            self.passed = self.seconds

    @classmethod
    def of(cls, report: Mapping[str, float]) -> "Progress":
        """What a report said."""
        passed = report.get("passed after")
        return cls(int(report["step"]), report["minutes"] * 60, None if passed is None else passed * 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfOptions:
    """How one half is trained, whichever it is."""

    minutes: float = 60.0  # At most, over all sittings
    rate: float  # The highest learning rate
    warm_up: int  # Steps in which the rate rises to it
    decay: float = 0.05  # Weight decay
    seed: int = 1
    save_seconds: float = 180.0  # Between two checkpoints
    world: WorldOptions = SECOND_WORLD


def steps_until_save(progress: Progress, options: HalfOptions, stopped: Stopped) -> Iterator[float]:
    """Yield the share of the learning rate before each step; one at least. Counts steps and seconds in `progress`."""
    start, before, first = time.monotonic(), progress.seconds, True
    while first or not (time.monotonic() - start >= options.save_seconds or is_over(progress, options) or stopped()):
        yield rate_share(progress, options)
        progress.step, progress.seconds, first = progress.step + 1, before + time.monotonic() - start, False


def rate_share(progress: Progress, options: HalfOptions) -> float:
    """The learning rate after its warm-up, as a share of the highest: 1, and in the last part, DECAY of the whole, down to 0.

    The last part begins when every gate is passed, or so that it ends with the time. Unlike a cosine's, this end need not be known
    from the beginning, and a half that goes on with more time goes on at full rate.
    """
    end = _end(progress, options)
    return min(1.0, max(0.0, (end - progress.seconds) / (DECAY * end)))


def is_over(progress: Progress, options: HalfOptions) -> bool:
    """The time is spent, or the rate has fallen to 0 after every gate was passed."""
    return progress.seconds >= _end(progress, options)


def _end(progress: Progress, options: HalfOptions) -> float:
    """Seconds after which the rate is 0."""
    latest = options.minutes * 60
    return latest if progress.passed is None else min(latest, progress.passed / (1 - DECAY))


def missed_gates(report: Mapping[str, float], gates: VisionGates | LanguageGates) -> list[str]:
    """The figures of a report that are below their gate; what the report does not say is."""
    least = {name.replace("_", " "): share for name, share in asdict(gates).items()}
    return [name for name, share in least.items() if report.get(name, 0.0) < share]


def add_report(folder: Path, name: str, figures: Mapping[str, float]) -> None:
    """Append a line to `<name>.jsonl`; what a full disk or a killed process left of the last one is cut off first."""
    with LineFile(folder / f"{name}.jsonl") as lines:
        lines.append(json.dumps(figures).encode())


def last_report(folder: Path, name: str) -> Mapping[str, float]:
    """The last figures of a half that are whole; {} where there are none."""
    path = folder / f"{name}.jsonl"
    lines = whole_lines(path) if path.is_file() else []
    report: Mapping[str, float] = json.loads(lines[-1]) if lines else {}
    return report


def is_done(folder: Path, name: str, options: HalfOptions) -> bool:
    """Its last report says that its training is over."""
    done = last_report(folder, name)
    return bool(done) and is_over(Progress.of(done), options)


@contextmanager
def made_ahead(make: Callable[[int], Batch], step: int, threads: int = 1) -> Iterator[Iterator[Batch]]:
    """The batches of the steps from `step` on; the next ones are made in other threads meanwhile."""
    with ThreadPoolExecutor(threads) as pool:
        yield in_their_order(lambda number: pool.submit(make, number), count(step), threads + 1)
