"""An evaluation as it was asked for: which judge, where it runs, and where its results go."""

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.evaluation.run import Engine
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import PairResult, check_pyarrow
from vrthinker_core.results.run_file import (
    EvaluationRun,
    RunStart,
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
    """Who judges, how and where. Raises BadInput for what cannot be, or where something is not installed."""

    judge: str  # As it was chosen
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
        """The run as its folder tells it; `pairs` are those of the whole data set."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        start = RunStart(at, self.engine, self.concurrency, limit, installed_versions())
        where, judge = encodable(str(path)), resolved_judge(self.judge)
        return EvaluationRun(
            dataset, where, len(pairs), pairs_digest(pairs), judge, self.settings, (start,)
        )

    def open_engine(self, stopped: Callable[[], bool]) -> tuple[str, Engine]:
        """The judge's name and the engine that asks it. Raises BadInput, and CheckpointError for a judge that cannot be opened."""
        if self.engine == "local":
            from vrthinker_core.backends import open_backend

            backend = open_backend(self.judge)
            engine: Engine = partial(
                judge_locally,
                backend=backend,
                settings=self.settings,
                out=self.out,
                concurrency=self.concurrency,
                cancelled=stopped,
            )
            return backend.name, engine
        from vrthinker_core.evaluation.ray_engine import judge_on_ray

        spread = partial(
            judge_on_ray,
            judge=self.judge,
            settings=self.settings,
            out=self.out,
            concurrency=self.concurrency,
            address=self.engine.partition(":")[2] or None,
        )
        return self.judge, lambda pairs: _until(stopped, spread(pairs))


def _until(
    stopped: Callable[[], bool], results: Generator[PairResult, None, None]
) -> Iterator[PairResult]:
    """The results up to the next one after `stopped`: what a cluster has in hand then is left."""
    with closing(results):
        for result in results:
            yield result
            if stopped():
                return


SEED = 0
RESAMPLES = 2000  # Of the bootstrap
SHARES = (0.025, 0.5, 0.975)  # The ends and the middle of a 95 % interval

Interval = tuple[float, float, float]
"""Low end, middle, high end."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Totals of a whole data set, each with its 95 % interval."""

    sample: int  # Pairs that were judged for it
    failed: int  # Of these
    seconds: float  # That they took together
    pairs: int  # Of the whole
    turns: Interval
    prompt_tokens: Interval
    new_tokens: Interval
    hours: Interval

    def lines(self) -> Iterator[str]:
        """The estimate as a person reads it."""
        yield f"{count(self.sample, 'pair')} judged in {duration(self.seconds)}, {self.failed} failed."
        yield "The whole, with 95 % intervals:"
        yield f"  pairs           {self.pairs:,}"
        yield f"  turns           {_interval_text(self.turns)}"
        yield f"  tokens read     {_interval_text(self.prompt_tokens)}"
        yield f"  tokens written  {_interval_text(self.new_tokens)}"
        yield f"  hours           {_interval_text(self.hours, 2 if self.hours[1] < 10 else 0)}"


def take_sample(pairs: Sequence[EvaluationPair], size: int) -> list[EvaluationPair]:
    """That many of the pairs that can be judged, drawn at random and always the same."""
    fit = sorted(
        (pair for pair in pairs if not (pair.fault or pair.left_out)), key=lambda pair: pair.id
    )
    return random.Random(SEED).sample(fit, min(size, len(fit)))


def estimate(sample: Sequence[PairResult], pairs: int, seconds: float) -> Estimate:
    """What `pairs` pairs take, from the results of at least one of them, judged in `seconds` as all will be.

    Intervals are those of the mean of the sample, by bootstrap: they say nothing of a machine that grows slower.
    """
    import numpy as np

    values = np.array(
        [[r.turns, r.prompt_tokens, r.new_tokens, r.seconds] for r in sample], dtype=float
    ).T
    drawn = np.random.default_rng(SEED).integers(0, len(sample), (RESAMPLES, len(sample)))
    totals = values[:, drawn].mean(axis=2) * pairs
    own = values[3].sum()
    totals[3] *= (seconds / own if own else 0.0) / 3600
    turns, prompt_tokens, new_tokens, hours = (
        _interval(np.quantile(row, SHARES).tolist()) for row in totals
    )
    failed = sum(not result.judged for result in sample)
    return Estimate(len(sample), failed, seconds, pairs, turns, prompt_tokens, new_tokens, hours)


def _interval(values: list[float]) -> Interval:
    low, middle, high = values
    return low, middle, high


def _interval_text(interval: Interval, decimals: int = 0) -> str:
    low, middle, high = (f"{value:,.{decimals}f}" for value in interval)
    return f"{middle} ({low} to {high})"
