"""An evaluation as it was asked for, and its estimate."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.evaluation.run import Engine
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import (
    EvaluationRun,
    PairResult,
    RunStart,
    check_pyarrow,
    installed_versions,
    pairs_digest,
    resolved_judge,
)
from vrthinker_core.storage import allow_pairs
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings
from vrthinker_core.types.progress import count, duration


@dataclass(frozen=True, slots=True)
class EvaluationJob:
    """Who judges, how and where. Raises BadInput for wrong values or a missing package."""

    judge: str  # as it was chosen
    settings: Settings
    out: Path
    concurrency: int
    engine: str = "local"  # or ray, or ray:ADDRESS

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise BadInput(
                f"--concurrency {self.concurrency} judges nothing: give a number from 1 up."
            )
        if self.engine != "local" and self.engine.partition(":")[0] != "ray":
            raise BadInput(f"There is no engine {self.engine!r}. Choose local, ray or ray:ADDRESS.")
        check_pyarrow()
        if self.engine == "local":
            allow_pairs(self.concurrency)

    def describe(
        self, dataset: str, path: Path, pairs: Sequence[EvaluationPair], limit: int | None
    ) -> EvaluationRun:
        """Describe the run for its folder; `pairs` are the whole data set."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        start = RunStart(at, self.engine, self.concurrency, limit, installed_versions())
        where, judge = encodable(str(path)), resolved_judge(self.judge)
        return EvaluationRun(
            dataset, where, len(pairs), pairs_digest(pairs), judge, self.settings, (start,)
        )

    def open_engine(self, stopped: Callable[[], bool]) -> tuple[str, Engine]:
        """Open the judge; gives its name and the engine that asks it.

        Raises BadInput, and CheckpointError for a judge that cannot be opened.
        """
        how: dict[str, Any] = {
            "settings": self.settings,
            "out": self.out,
            "concurrency": self.concurrency,
        }
        if self.engine == "local":
            from vrthinker_core.backends import open_backend

            backend = open_backend(self.judge)
            return backend.name, partial(judge_locally, backend=backend, cancelled=stopped, **how)
        from vrthinker_core.evaluation.ray_engine import judge_on_ray

        address = self.engine.partition(":")[2] or None
        return self.judge, partial(
            judge_on_ray, judge=self.judge, address=address, stopped=stopped, **how
        )


SEED = 0

Interval = tuple[float, float, float]  # low end, middle, high end


@dataclass(frozen=True, slots=True)
class Estimate:
    """Totals of a whole data set, each with its 95 % interval."""

    sample: int  # pairs that were judged for it
    failed: int  # of these
    seconds: float  # that they took together
    pairs: int  # of the whole
    turns: Interval
    prompt_tokens: Interval
    new_tokens: Interval
    hours: Interval

    def lines(self) -> Iterator[str]:
        """Give the estimate as a person reads it."""

        def told(interval: Interval, decimals: int = 0) -> str:
            low, middle, high = (f"{value:,.{decimals}f}" for value in interval)
            return f"{middle} ({low} to {high})"

        judged = f"{count(self.sample, 'pair')} judged in {duration(self.seconds)}"
        yield f"{judged}, {self.failed} failed."
        yield "The whole, with 95 % intervals:"
        yield f"  pairs           {self.pairs:,}"
        yield f"  turns           {told(self.turns)}"
        yield f"  tokens read     {told(self.prompt_tokens)}"
        yield f"  tokens written  {told(self.new_tokens)}"
        yield f"  hours           {told(self.hours, 2 if self.hours[1] < 10 else 0)}"


def take_sample(pairs: Sequence[EvaluationPair], size: int) -> list[EvaluationPair]:
    """Draw `size` of the pairs that can be judged, always the same."""
    fit = sorted(
        (pair for pair in pairs if not (pair.fault or pair.left_out)), key=lambda pair: pair.id
    )
    return random.Random(SEED).sample(fit, min(size, len(fit)))


def estimate(sample: Sequence[PairResult], pairs: int, seconds: float) -> Estimate:
    """Estimate `pairs` pairs from a sample that was judged in `seconds`.

    Intervals are bootstrap intervals of the sample's mean. They do not foresee a machine that slows
    down.
    """
    import numpy as np

    values = np.array([[r.turns, r.prompt_tokens, r.new_tokens, r.seconds] for r in sample]).T
    drawn = np.random.default_rng(SEED).integers(0, len(sample), (2000, len(sample)))
    totals = values[:, drawn].mean(axis=2) * pairs
    own = values[3].sum()
    totals[3] *= (seconds / own if own else 0.0) / 3600
    low, middle, high = np.quantile(totals, (0.025, 0.5, 0.975), axis=1).tolist()
    failed = sum(not result.judged for result in sample)
    return Estimate(len(sample), failed, seconds, pairs, *zip(low, middle, high, strict=True))
