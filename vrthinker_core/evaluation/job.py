"""An evaluation: its folder, judge, results, figures and estimate."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrthinker_core.backends import Backend, default_choice, open_backend
from vrthinker_core.backends.base import RemoteBackend, not_cancelled
from vrthinker_core.backends.devices import peak_memory_gb
from vrthinker_core.backends.judge_name import JUDGES, parse_judge
from vrthinker_core.errors import BadInput, JudgeError, VideoError, os_errors
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.protocols.factory import for_data_set
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.open_dataset import read_dataset, take_some
from vrthinker_core.results.result import (
    RESULTS,
    ROW_FAULT,
    RUN,
    TABLE,
    TRACES,
    EvaluationRun,
    PairResult,
    ResultFile,
    RunStart,
    broken_row,
    final_results,
    installed_versions,
    latest_results,
    pairs_digest,
    read_run,
    resolved_judge,
    write_run,
    write_table,
)
from vrthinker_core.runner import PAIRS_IN_HAND, check_pairs_in_hand, pairs_in_hand
from vrthinker_core.storage import hold_folder
from vrthinker_core.system import allow_pairs
from vrthinker_core.types import Settings
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.words import count, duration, encodable

if TYPE_CHECKING:
    from vrthinker_core.evaluation.summary import Summary

Engine = Callable[[Iterable[EvaluationPair]], Iterator[PairResult]]
"""Judges pairs and gives results as they come, in any order; one for each pair."""


@contextmanager
def open_out(
    out: Path, run: EvaluationRun, *, resume: bool, pairs: Iterable[EvaluationPair] = ()
) -> Iterator[Path]:
    """Prepare the folder `out` and hold it until the block ends.

    If the process dies, the folder is free again. `resume` continues the same run, or begins one in
    an empty folder. The run counts as the same if only broken rows of the data set have changed;
    `pairs` holds the whole data set. Raises BadInput for a folder that another process writes,
    that holds anything else, or that holds a run and is not to be resumed.
    """
    with ExitStack() as held:
        with os_errors(f"Cannot write to {out}"):
            held.enter_context(hold_folder(out))
            before = _earlier_run(out, run, resume, pairs)
            write_run(out, replace(run, starts=(*(before.starts if before else ()), *run.starts)))
            (out / TRACES).mkdir(exist_ok=True)
        yield out


def _earlier_run(
    out: Path, run: EvaluationRun, resume: bool, pairs: Iterable[EvaluationPair]
) -> EvaluationRun | None:
    """Return the run that the folder holds, or None. Raises BadInput."""
    if not any(out.iterdir()):
        return None
    if not (out / RUN).exists():
        raise BadInput(f"{out} holds other files and no evaluation: name a new folder with --out.")
    before, judged = read_run(out), (out / RESULTS).exists()
    if before.digest != run.digest:
        # The data set with its broken rows as they were when they got their results
        last = latest_results(out / RESULTS).items()
        broken = {name: result.pair for name, result in last if result.fault == ROW_FAULT}
        if pairs_digest(broken.get(pair.id, pair) for pair in pairs) == before.digest:
            before = replace(before, digest=run.digest)
    difference = before.difference(run)
    if (difference or not resume) and not judged:
        return None  # a start that was refused before its first pair
    if difference:
        raise BadInput(
            f"{out} holds another evaluation, with {difference}: name a new folder with --out."
        )
    if not resume:
        raise BadInput(
            f"{out} holds this evaluation already: go on with --resume, or name a new folder with "
            "--out."
        )
    return before


def results_so_far(pairs: Iterable[EvaluationPair], out: Path) -> dict[str, PairResult]:
    """Read the results that count, by the ids of their pairs.

    A transient failure does not count, nor does a broken row that has been mended: these are judged
    again. So is a video that cannot be read, if an earlier version kept the result and did not say
    which one it is. Raises BadInput for a file that holds anything else.
    """
    mended = {pair.id for pair in pairs if not pair.fault}
    return {
        name: result
        for name, result in latest_results(out / RESULTS).items()
        if not (result.is_transient or (result.fault == ROW_FAULT and name in mended))
        and (result.unreadable or result.fault != VideoError.__name__)
    }


def judge_rows(
    pairs: Sequence[EvaluationPair],
    engine: Engine,
    judge: str,
    out: Path,
    done: Mapping[str, PairResult],
    stopped: Callable[[], bool] = not_cancelled,
) -> Iterator[PairResult]:
    """Judge what is not `done`; gives each result once `out` keeps it.

    A broken row, or one that is left out, has a result at once, in the name of `judge`. Once
    `stopped`, no pair is begun any more, and pairs in hand are kept only if they have a result.
    Raises BadInput if the folder cannot be written.
    """
    left = [pair for pair in pairs if pair.id not in done]
    broken = [broken_row(pair, judge) for pair in left if pair.fault or pair.left_out]
    sound = [pair for pair in left if not (pair.fault or pair.left_out)]
    judged = engine(takewhile(lambda _: not stopped(), sound))
    with os_errors(f"Cannot write to {out}"):
        file = ResultFile(out / RESULTS)
    try:
        for result in chain(broken, judged):
            if result.is_transient and not result.judged and stopped():
                continue
            with os_errors(f"Cannot write to {out}"):
                file.add(result)
            yield result
    finally:
        with os_errors(f"Cannot write to {out}"):
            file.close()


def write_final_table(out: Path, pairs: Iterable[EvaluationPair]) -> list[PairResult]:
    """Write the table of these pairs; return their results by row.

    Raises BadInput.
    """
    chosen = {pair.id for pair in pairs}
    results = [result for result in final_results(out / RESULTS) if result.pair.id in chosen]
    with os_errors(f"Cannot write to {out}"):
        write_table(results, out / TABLE)
    return results


@dataclass(frozen=True, slots=True)
class EvaluationJob:
    """An evaluation to do: judge, settings, folder and engine.

    Raises BadInput for wrong values or a missing package.
    """

    judge: Backend | str  # open, or as it was chosen
    settings: Settings
    out: Path
    concurrency: int | None = None  # None: see `pairs_in_hand`
    engine: str = "local"  # or ray, or ray:ADDRESS

    def __post_init__(self) -> None:
        check_pairs_in_hand("concurrency", self.concurrency)
        if self.engine != "local" and self.engine.partition(":")[0] != "ray":
            raise BadInput(f"There is no engine {self.engine!r}. Choose local, ray or ray:ADDRESS.")
        if self.engine != "local" and not isinstance(self.judge, str):
            raise BadInput("A cluster opens its judges itself: give the name of the judge.")
        if find_spec("pyarrow") is None:
            raise BadInput(
                "An evaluation writes its table with pyarrow: run pip install -e '.[evaluate]'."
            )
        if self.engine == "local":
            allow_pairs(self.concurrency or PAIRS_IN_HAND)

    @property
    def served(self) -> bool:
        """Whether a server generates the replies."""
        if isinstance(self.judge, str):
            return JUDGES[parse_judge(self.judge).kind].served
        return isinstance(self.judge, RemoteBackend)

    def describe(
        self, dataset: str, path: Path, pairs: Sequence[EvaluationPair], limit: int | None
    ) -> EvaluationRun:
        """Describe the run for its folder; `pairs` are the whole data set."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        start = RunStart(at, self.engine, self.concurrency, limit, installed_versions())
        where, own = encodable(str(path)), self.judge
        judge = resolved_judge(own if isinstance(own, str) else own.name)
        return EvaluationRun(
            dataset, where, len(pairs), pairs_digest(pairs), judge, self.settings, (start,)
        )

    def open_engine(self, stopped: Callable[[], bool]) -> tuple[str, Engine]:
        """Open the judge; gives its name and engine. Raises BadInput and CheckpointError."""
        how: dict[str, Any] = {"settings": self.settings, "out": self.out}
        if self.engine == "local":
            backend = open_backend(self.judge) if isinstance(self.judge, str) else self.judge
            allow_pairs(live := pairs_in_hand(self.concurrency, backend))
            how |= {"concurrency": live, "backend": backend, "cancelled": stopped}
            return backend.name, partial(judge_locally, **how)
        from vrthinker_core.evaluation.ray_engine import judge_on_ray

        address, live = self.engine.partition(":")[2] or None, self.concurrency or PAIRS_IN_HAND
        if self.concurrency is None and self.served:
            with suppress(JudgeError):  # The nodes may reach a server that this machine does not
                live = pairs_in_hand(None, open_backend(str(self.judge)))
        name = str(self.judge)
        how |= {"judge": name, "address": address, "concurrency": live, "stopped": stopped}
        return name, partial(judge_on_ray, **how)

    def start(
        self, pairs: Sequence[EvaluationPair], stopped: Cancelled
    ) -> tuple[list[PairResult], Iterator[PairResult]]:
        """Return earlier results, and an iterator that judges the others."""
        done = results_so_far(pairs, self.out)
        before = [done[pair.id] for pair in pairs if pair.id in done]
        if len(before) == len(pairs):
            return before, iter(())
        name, engine = self.open_engine(stopped)
        return before, self._measured(judge_rows(pairs, engine, name, self.out, done, stopped))

    def _measured(self, results: Iterator[PairResult]) -> Iterator[PairResult]:
        """Pass on the results, and keep at the end what this start cost."""
        began, judged = time.monotonic(), 0
        try:
            for result in results:
                judged += not (result.fault == ROW_FAULT or result.left_out)
                yield result
        finally:
            run, here = read_run(self.out), self.engine == "local" and not self.served
            seconds, peak = time.monotonic() - began, peak_memory_gb() if here else None
            start = replace(run.starts[-1], judged=judged, seconds=seconds, peak_gb=peak)
            with os_errors(f"Cannot write to {self.out}"):
                write_run(self.out, replace(run, starts=(*run.starts[:-1], start)))


def read_pairs(
    dataset: str, path: Path, limit: int | None
) -> tuple[list[EvaluationPair], list[EvaluationPair]]:
    """Return a data set and its pairs to judge; raise `BadInput`."""
    whole = read_dataset(dataset, path)
    pairs = take_some(whole, limit)
    if all(pair.fault or pair.left_out for pair in pairs):
        raise BadInput(f"No row can be judged. Row {pairs[0].row}: {pairs[0].fault or 'no label'}")
    return whole, pairs


def evaluate(
    dataset: str,
    path: Path | str,
    judge: Backend | str | None = None,
    settings: Settings = Settings(),
    *,
    out: Path | str,
    limit: int | None = None,
    concurrency: int | None = None,
    engine: str = "local",
    resume: bool = False,
    on_result: Callable[[PairResult], object] | None = None,
) -> Summary:
    """Judge a labelled data set and return its figures.

    `dataset` is the layout of `path`: "videogen-reward", "genai-bench", "mj-bench-video" or "csv".
    `judge` is as in `compare`, `engine` is "local", "ray" or "ray:ADDRESS". `limit` takes only so
    many pairs. `concurrency` pairs are judged at the same time; None means 8, or as many as a server
    takes. `on_result` gets each new result.

    Writes results, `traces/` and a report into `out`: a new folder, or with `resume` that of the
    same evaluation. Raises `BadInput` for a wrong argument, data set or folder, and `JudgeError`
    for a judge that cannot be opened.
    """
    from vrthinker_core.evaluation.summary import summarize
    from vrthinker_core.evaluation.write_report import write_report

    path, out = Path(path), Path(out)
    whole, pairs = read_pairs(dataset, path, limit)
    settings = for_data_set(settings, dataset)
    job = EvaluationJob(judge or default_choice(), settings, out, concurrency, engine)
    run = job.describe(dataset, path, whole, limit)
    with open_out(out, run, resume=resume, pairs=whole):
        for result in job.start(pairs, not_cancelled)[1]:
            if on_result is not None:
                on_result(result)
        results = write_final_table(out, pairs)
    summary = summarize(results, read_run(out))
    write_report(out, summary, results)
    return summary


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
