"""An evaluation as it was asked for: which judge, where it runs, and where its results go."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.evaluation.run import Engine
from vrthinker_core.results.pair import EvaluationPair
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
