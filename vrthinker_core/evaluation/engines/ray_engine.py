"""The engine that spreads pairs over a cluster: Ray Data with one actor a judge, many pairs in hand in each."""

import pickle
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vrthinker_core.errors import BadInput, JudgeError
from vrthinker_core.evaluation.engines.ray_cluster import (
    Judges,
    absolute_choice,
    connected,
    first_line,
    place_judges,
)
from vrthinker_core.evaluation.engines.ray_worker import ClusterJudge, make_beginnings, pair_row
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result import PairResult, failed_result
from vrthinker_core.storage import write_atomically
from vrthinker_core.traces import check_replaceable
from vrthinker_core.types import Settings

if TYPE_CHECKING:
    from ray.data import Dataset


class _Opening(NamedTuple):
    """What each judge is made with."""

    choice: str | None
    settings: Settings
    live: int
    beginnings: Any  # See `make_beginnings`


def judge_on_ray(
    pairs: Iterable[EvaluationPair],
    *,
    judge: str | None,
    settings: Settings,
    out: Path,
    concurrency: int,
    address: str | None,
) -> Generator[PairResult, None, None]:
    """Judge pairs on a Ray cluster; results come in the order in which they end, and traces are written below `out`.

    `address` None starts a Ray on this machine and stops it after; "auto" or HOST:PORT names a cluster. Each pair has one result.
    A judge that dies costs what it had in hand: Ray starts it again and hands it those pairs once more. A pair over which it dies
    again and again is a named failure. Raises BadInput without Ray or a cluster, JudgeError where the judge cannot be opened.
    """
    left = {pair.id: pair for pair in pairs}
    if not left:
        return
    with connected(address) as nodes:
        judges = place_judges(judge, concurrency, len(left), nodes)
        for result, trace in _answers(
            left, _Opening(absolute_choice(judge), settings, judges.live, make_beginnings()), judges
        ):
            yield _keep(replace(result, pair=left.pop(result.pair.id)), trace, out)


def _answers(
    left: dict[str, EvaluationPair], opening: "_Opening", judges: Judges
) -> Iterator[tuple[PairResult, bytes]]:
    """What the judges answer. Where Ray stops before all is done, it begins anew with those that are left, if any were answered."""
    from ray.data.exceptions import ExecutionTimeoutError
    from ray.exceptions import RayError

    while left:
        before, cause = len(left), ""
        try:
            yield from _read(_dataset(list(left.values()), opening, judges))
        except (RayError, ExecutionTimeoutError) as error:
            cause = first_line(error)
        if len(left) == before:
            raise JudgeError(f"No judge answers on the cluster. {cause}")


def _dataset(pairs: list[EvaluationPair], opening: _Opening, judges: Judges) -> "Dataset":
    """One row a block: what a judge that dies had in hand is its rows, and each result comes as soon as it is there."""
    import ray.data

    rows = [
        pair_row(replace(pair, first=_absolute(pair.first), second=_absolute(pair.second)))
        for pair in pairs
    ]
    calls = 2 * judges.live + 4  # Those that wait in the actor take the places of those that end
    with _quiet_context():
        return ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            ClusterJudge,  # type: ignore[arg-type] # its rows are of `bytes`
            fn_constructor_args=opening,
            compute=ray.data.ActorPoolStrategy(
                size=judges.count,
                max_tasks_in_flight_per_actor=calls,
                max_concurrent_calls_per_actor=calls,
                enable_true_multi_threading=True,
            ),
            num_cpus=judges.cpus,
            num_gpus=judges.gpus,
        )


def _absolute(name: str) -> str:
    return str(Path(name).absolute())


@contextmanager
def _quiet_context() -> Iterator[None]:
    """How a data set of ours runs: Ray Data keeps the settings that hold when it is made."""
    from ray.data import DataContext

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Ray's own: its context warns of one of its own fields
        context = DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    with DataContext.current(context):
        yield


def _read(dataset: "Dataset") -> Iterator[tuple[PairResult, bytes]]:
    for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        for row in cast(Any, block).to_pylist():
            if row["refusal"]:
                raise JudgeError(row["refusal"])
            yield pickle.loads(row["result"]), row["trace"]


def _keep(result: PairResult, trace: bytes, out: Path) -> PairResult:
    """The result, with its trace on the disk."""
    if not trace:
        return replace(result, trace="")
    path = out / result.trace
    try:
        check_replaceable(path)
        write_atomically(path, trace)
    except BadInput as error:
        return failed_result(result.pair, result.judge, error)
    except OSError as error:
        return replace(
            result,
            trace="",
            error=result.error or f"The trace could not be saved: {error.strerror or error}.",
        )
    return result
