"""The engine that spreads pairs over a cluster: Ray Data with one actor a judge, many pairs in hand in each."""

import pickle
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from vrthinker_core.errors import BadInput, JudgeError
from vrthinker_core.evaluation.ray_worker import ClusterJudge, make_beginnings, pair_row
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import PairResult, failed_result
from vrthinker_core.storage import write_atomically
from vrthinker_core.traces import check_replaceable
from vrthinker_core.types import Settings

if TYPE_CHECKING:
    from ray.data import Dataset

import logging
import math
import os
import socket
from dataclasses import dataclass

CPUS_PER_JUDGE = 4  # Where a model runs on processors, as far as a node has as many
CLIENT_PAIRS = 16  # Pairs that one process decodes and sends to a server at a time
CONNECT_SECONDS = 10.0  # until a cluster must have answered
OBJECT_STORE = (
    512 * 2**20
)  # Bytes, of a Ray that is started for one run; traces pass through it one by one

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
"""Environment of Ray: its C++ part writes on the terminal what it takes for an error; what stops a run is an exception besides."""


@dataclass(frozen=True, slots=True)
class Judges:
    """How the judges of a run are spread."""

    count: int  # Ray actors, each with a judge of its own
    live: int  # Pairs that each has in hand at a time
    cpus: float
    gpus: float = 0.0


def place_judges(
    judge: str | None, concurrency: int, pairs: int, nodes: list[dict[str, float]]
) -> Judges:
    """How many judges there is room for on `nodes`, each with what it has of "CPU" and "GPU". Raises BadInput for none.

    A model takes a GPU, or some processors where the cluster has no GPU, and has `concurrency` pairs in hand. Pairs for a server
    are `concurrency` in all, in as few processes as can decode and send so many.
    """
    cpus, gpus = (sum(int(node.get(kind, 0)) for node in nodes) for kind in ("CPU", "GPU"))
    kind = (judge or "").partition(":")[0]
    if kind == "server":
        wanted = min(math.ceil(concurrency / CLIENT_PAIRS), pairs)
        count = max(1, min(wanted, cpus))
        return Judges(count, math.ceil(concurrency / count), 1.0 if cpus else 0.0)
    if gpus and kind != "scripted":
        return Judges(min(gpus, pairs), concurrency, 1.0 if cpus >= gpus else 0.0, 1.0)
    if not cpus:
        raise BadInput(
            "The cluster has no processor for a judge: start its nodes with --num-cpus, or add nodes."
        )
    share = min(
        1 if kind == "scripted" else CPUS_PER_JUDGE, max(int(node.get("CPU", 0)) for node in nodes)
    )
    return Judges(
        min(sum(int(node.get("CPU", 0)) // share for node in nodes), pairs), concurrency, share
    )


def absolute_choice(judge: str | None) -> str | None:
    """The judge's own files by their whole path: a node works in another folder."""
    kind, _, rest = (judge or "").partition(":")
    return (
        f"{kind}:{Path(rest).absolute()}"
        if kind in ("scripted", "hf") and Path(rest).exists()
        else judge
    )


@contextmanager
def connected(address: str | None) -> Iterator[list[dict[str, float]]]:
    """A Ray of its own for None, else the cluster at `address` ("auto": the one this machine belongs to); gives its nodes.

    A Ray that was started here is stopped at the end, a cluster is only left. Raises BadInput.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError:
        raise BadInput(
            "Ray is not installed: run pip install -e '.[cluster]' on every node."
        ) from None
    _silence()
    started = not ray.is_initialized()
    if started:
        _connect(address)
    try:
        yield [node["Resources"] for node in _nodes() if node["Alive"]]
    finally:
        if started:
            ray.shutdown()


def _nodes() -> list[dict[str, Any]]:
    import ray

    return list(ray.nodes())  # type: ignore[no-untyped-call] # Ray's own


def _connect(address: str | None) -> None:
    import ray
    from ray.exceptions import RayError

    own: dict[str, Any] = (
        {"include_dashboard": False, "object_store_memory": OBJECT_STORE} if address is None else {}
    )
    try:
        _check_reachable(address)
        with _without_stderr():
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **own,
            )
    except (RuntimeError, ValueError, OSError, OverflowError, RayError) as error:
        raise BadInput(_unreachable(address, first_line(error))) from None


def _check_reachable(address: str | None) -> None:
    """Raises OSError where nobody listens at HOST:PORT: Ray itself may wait there for ever."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdecimal() and "://" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


def _unreachable(address: str | None, cause: str) -> str:
    if address is None:
        return f"Ray could not be started on this machine: {cause}"
    token = "and where it asks for a token set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here, too"
    return f"Ray cannot be reached at {address}: start it with ray start --head, {token}. Cause: {cause}"


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Nothing reaches this process's standard error: when Ray starts, its C++ part says there how its own log was set."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _silence() -> None:
    """What Ray Data says on the terminal is for its own developers; its log files keep all of it."""
    for handler in logging.getLogger("ray.data").handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            handler.setLevel(logging.CRITICAL + 1)


def first_line(error: BaseException) -> str:
    """What Ray says of an error, as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:300]


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
