"""The engine for a cluster: Ray Data with one actor a judge."""

import logging
import math
import os
import pickle
import socket
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.judge_name import SERVED, parse_judge
from vrthinker_core.errors import BadInput, JudgeError
from vrthinker_core.evaluation.ray_worker import ClusterJudge, RayRow, make_beginnings
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import PairResult, failed_result
from vrthinker_core.storage import write_atomically
from vrthinker_core.traces import check_replaceable
from vrthinker_core.types import Settings


@dataclass(frozen=True, slots=True)
class Judges:
    """How the judges of a run are spread."""

    count: int  # Ray actors, each with a judge of its own
    live: int  # pairs that each has in hand at a time
    cpus: float
    gpus: float = 0.0


def place_judges(
    judge: str | None, concurrency: int, pairs: int, nodes: list[dict[str, float]]
) -> Judges:
    """Place judges on `nodes`, each with its "CPU" and "GPU". Raises BadInput for no room.

    A model takes a GPU, or some processors if the cluster has no GPU, and has `concurrency` pairs
    in hand. Pairs for a server are `concurrency` in all, in as few processes as can decode and
    send so many.
    """
    cpus, gpus = (sum(int(node.get(kind, 0)) for node in nodes) for kind in ("CPU", "GPU"))
    kind = parse_judge(judge or "nano").kind
    if kind in SERVED:
        wanted = min(math.ceil(concurrency / 16), pairs)  # a process decodes and sends 16 at a time
        count = max(1, min(wanted, cpus))
        return Judges(count, math.ceil(concurrency / count), 1.0 if cpus else 0.0)
    if gpus and kind != "scripted":
        return Judges(min(gpus, pairs), concurrency, 1.0 if cpus >= gpus else 0.0, 1.0)
    if not cpus:
        raise BadInput(
            "The cluster has no processor for a judge: start its nodes with --num-cpus, or add "
            "nodes."
        )
    each = [int(node.get("CPU", 0)) for node in nodes]
    share = min(1 if kind == "scripted" else 4, max(each))
    return Judges(min(sum(own // share for own in each), pairs), concurrency, share)


@contextmanager
def connected(address: str | None) -> Iterator[list[dict[str, float]]]:
    """Start a Ray or join the cluster at `address`; gives its nodes.

    None starts one of its own; "auto" is the cluster that this machine belongs to. A Ray that was
    started here is stopped at the end, a cluster is only left. Raises BadInput.
    """
    # Ray's C++ part writes on the terminal whatever it takes for an error; exceptions tell enough.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError:
        raise BadInput(
            "Ray is not installed: run pip install -e '.[cluster]' on every node."
        ) from None
    # Ray Data's messages on the terminal are for its developers; its log files keep all of them.
    for handler in logging.getLogger("ray.data").handlers:
        to_file = isinstance(handler, logging.FileHandler)
        if isinstance(handler, logging.StreamHandler) and not to_file:
            handler.setLevel(logging.CRITICAL + 1)
    started = not ray.is_initialized()
    if started:
        _connect(address)
    try:
        nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call] # Ray's own
        yield [node["Resources"] for node in nodes if node["Alive"]]
    finally:
        if started:
            ray.shutdown()


def _connect(address: str | None) -> None:
    import ray
    from ray.exceptions import RayError

    # Bytes of the store of a Ray for one run: traces pass through it one by one.
    own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": 512 * 2**20}
    host, _, port = (address or "").rpartition(":")
    try:
        if host and port.isdecimal() and "://" not in host:
            # Ray itself may wait for ever if nobody listens there.
            socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
        with _without_stderr():
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **(own if address is None else {}),
            )
    except (RuntimeError, ValueError, OSError, OverflowError, RayError) as error:
        cause = _first_line(error)
        if address is None:
            raise BadInput(f"Ray could not be started on this machine: {cause}") from None
        raise BadInput(
            f"Ray cannot be reached at {address}: start it with ray start --head, and where it "
            "asks for a token set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here, too. "
            f"Cause: {cause}"
        ) from None


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Drop standard error, on which Ray's C++ part writes at its start."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _first_line(error: BaseException) -> str:
    """Shorten an error of Ray to a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:300]


def judge_on_ray(
    pairs: Iterable[EvaluationPair],
    *,
    judge: str | None,
    settings: Settings,
    out: Path,
    concurrency: int,
    address: str | None,
    stopped: Callable[[], bool] = not_cancelled,
) -> Generator[PairResult, None, None]:
    """Judge pairs on a Ray cluster, with traces below `out`; gives results as they end.

    Each pair has one result. `address` None starts a Ray on this machine and stops it after; "auto"
    or HOST:PORT names a cluster. A judge that dies costs what it had in hand: Ray starts it again
    and hands it those pairs once more. A pair over which it dies again and again is a named
    failure. Once `stopped`, what the cluster has in hand is left. Raises BadInput without Ray or a
    cluster, JudgeError if the judge cannot be opened.
    """
    left = {pair.id: pair for pair in pairs}
    if not left:
        return
    name = parse_judge(judge or "nano")
    if name.kind in ("scripted", "hf") and Path(name.what).exists():  # a node works elsewhere
        judge = str(replace(name, what=str(Path(name.what).absolute())))
    with connected(address) as nodes:
        from ray.data.exceptions import ExecutionTimeoutError
        from ray.exceptions import RayError

        judges = place_judges(judge, concurrency, len(left), nodes)
        opening = (judge, settings, judges.live, make_beginnings())
        while left:  # if Ray stops before all is done, begin anew with those that are left
            before, cause = len(left), ""
            try:
                for row in _rows(list(left.values()), opening, judges):
                    if row["refusal"]:
                        raise JudgeError(row["refusal"])
                    result: PairResult = pickle.loads(row["result"])
                    result = replace(result, pair=left.pop(result.pair.id))
                    yield _keep(result, row["trace"], out)
                    if stopped():
                        return
            except (RayError, ExecutionTimeoutError) as error:
                cause = _first_line(error)
            if len(left) == before:
                raise JudgeError(f"No judge answers on the cluster. {cause}")


def _rows(
    pairs: list[EvaluationPair], opening: tuple[object, ...], judges: Judges
) -> Iterator[dict[str, Any]]:
    """Give what judges answer; `opening` are the arguments of each `ClusterJudge`."""
    import ray.data
    from ray.data import DataContext

    rows: list[RayRow] = []
    for pair in pairs:
        first, second = (str(Path(name).absolute()) for name in (pair.first, pair.second))
        rows.append({"pair": pickle.dumps(replace(pair, first=first, second=second))})
    calls = 2 * judges.live + 4  # those that wait in the actor take the places of those that end
    with warnings.catch_warnings():
        # Ray's own: its context warns of one of its own fields.
        warnings.simplefilter("ignore", DeprecationWarning)
        context = DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    with DataContext.current(context):  # a data set keeps the settings that hold when it is made
        # One row a block: a judge that dies loses only its rows, and each result comes at once.
        dataset = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
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
    for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        yield from cast(Any, block).to_pylist()


def _keep(result: PairResult, trace: bytes, out: Path) -> PairResult:
    """Keep the trace on the disk; gives the result that says so."""
    if not trace:
        return replace(result, trace="")
    path = out / result.trace
    try:
        check_replaceable(path)
        write_atomically(path, trace)
    except BadInput as error:
        return failed_result(result.pair, result.judge, error)
    except OSError as error:
        unsaved = f"The trace could not be saved: {error.strerror or error}."
        return replace(result, trace="", error=result.error or unsaved)
    return result
