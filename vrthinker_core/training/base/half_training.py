"""What vision tower and language model share in training: batches made ahead, steps until it is time to save, and gates."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from typing import Protocol, TypeVar

from vrthinker_core.training.run.config import LanguageGates, VisionGates

Batch = TypeVar("Batch")
Stopped = Callable[[], bool]  # Whether somebody asked the training to stop


class HalfState(Protocol):
    """How far one half of the model has come."""

    step: int
    seconds: float


class HalfOptions(Protocol):
    """How long one half is trained."""

    @property
    def minutes(self) -> float:
        """At most, over all sittings."""

    @property
    def save_seconds(self) -> float:
        """Between two checkpoints."""


def steps_until_save(state: HalfState, options: HalfOptions, stopped: Stopped) -> Iterator[float]:
    """Yield the share of the time that is spent, before each step; one at least. Counts steps and seconds in `state`."""
    start, before, first = time.monotonic(), state.seconds, True
    while first or not (time.monotonic() - start >= options.save_seconds or is_over(state, options) or stopped()):
        yield min(1.0, state.seconds / (options.minutes * 60))
        state.step, state.seconds, first = state.step + 1, before + time.monotonic() - start, False


def is_over(state: HalfState, options: HalfOptions) -> bool:
    """The time is spent."""
    return state.seconds >= options.minutes * 60


def missed_gates(report: Mapping[str, float], gates: VisionGates | LanguageGates) -> list[str]:
    """The figures of a report that are below their gate; what the report does not say is."""
    least = {name.replace("_", " "): share for name, share in asdict(gates).items()}
    return [name for name, share in least.items() if report.get(name, 0.0) < share]


@contextmanager
def made_ahead(make: Callable[[int], Batch], step: int) -> Iterator[Iterator[Batch]]:
    """The batches of the steps from `step` on; the next ones are made in a second thread meanwhile."""

    def made() -> Iterator[Batch]:
        coming = [pool.submit(make, step + ahead) for ahead in range(2)]
        number = step + 2
        while True:
            yield coming.pop(0).result()
            coming.append(pool.submit(make, number))
            number += 1

    with ThreadPoolExecutor(1) as pool:
        yield made()
