"""The engine for a cluster: Ray Data with one actor for each judge."""

import atexit
import logging
import math
import os
import pickle
import socket
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, cast

from vrthinker_core.backends import open_backend
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.judge_name import JUDGES, parse_judge
from vrthinker_core.errors import BackendFailed, BadInput, JudgeError, VrThinkerError
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import TRACES, PairResult, failed_result
from vrthinker_core.storage import owned_folder, write_atomically
from vrthinker_core.system import allow_open_files
from vrthinker_core.traces import check_replaceable
from vrthinker_core.types import Settings

TRIES = 4  # of what the judge's process dies over, before it is given up

RayRow = dict[str, bytes | str]
"""A row: `pair` (pickled) to the judge; `result` (pickled), `trace` (JSON), `refusal` from it."""


def _answer(result: PairResult | None, trace: bytes = b"", refusal: str = "") -> RayRow:
    return {"result": pickle.dumps(result), "trace": trace, "refusal": refusal}


class AttemptCounter:
    """Counts what began and did not end, as killed processes cannot."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()

    def begin(self, key: str) -> int:
        """Count a beginning; gives how many there were."""
        self._begun[key] += 1
        return self._begun[key]

    def end(self, key: str) -> None:
        """Forget what came to an end."""
        del self._begun[key]


class ClusterJudge:
    """One judge; if it cannot be opened, it answers with the cause."""

    def __init__(self, choice: str | None, settings: Settings, live: int, beginnings: Any) -> None:
        import ray

        self._settings, self._live, self._beginnings = settings, live, beginnings
        self._waiting: SimpleQueue[EvaluationPair] = SimpleQueue()
        self._answers: dict[str, Future[RayRow]] = {}
        self._refusal = ""
        try:
            # The id is the same if Ray has started the judge again.
            me = str(ray.get_runtime_context().get_actor_id())
            if self._count(me) > TRIES:
                raise JudgeError(
                    f"The judge's process died {TRIES} times while the judge was opened: it needs "
                    "more memory."
                )
            allow_open_files()
            self._backend = open_backend(choice)
            self._beginnings.end.remote(me)
        except VrThinkerError as error:
            self._refusal = f"{error} (On the node {socket.gethostname()}.)"
        else:
            Thread(target=self._run, name="judge", daemon=True).start()

    def _count(self, key: str) -> int:
        import ray

        return int(ray.get(self._beginnings.begin.remote(key)))

    def __call__(self, row: RayRow) -> RayRow:
        """Judge the pair of a row; returns once its run ends."""
        if self._refusal:
            return _answer(None, refusal=self._refusal)
        pair: EvaluationPair = pickle.loads(bytes(row["pair"]))  # type: ignore[arg-type] # bytes
        absent = [name for name in (pair.first, pair.second) if not Path(name).is_file()]
        if absent:  # the table has it: once the folder is shared, the pair can be judged
            problem = (
                f"The node {socket.gethostname()} has no file {absent[0]}: share the folder of the "
                "videos with every node, under the same path, and go on with --resume."
            )
        elif self._count(pair.id) > TRIES:
            problem = (
                f"The judge's process died {TRIES} times while this pair was judged: it needs more "
                "memory."
            )
        else:
            answer = self._answers[pair.id] = Future()
            self._waiting.put(pair)
            return answer.result()
        return _answer(failed_result(pair, self._backend.name, BackendFailed(problem)))

    def _run(self) -> None:
        with ExitStack() as stack:
            atexit.register(stack.close)  # the loop goes on until the process ends
            folder = stack.enter_context(owned_folder("vr-thinker-ray-"))
            (folder / TRACES).mkdir()
            while True:
                self._judge_waiting(self._waiting.get(), folder)

    def _judge_waiting(self, first: EvaluationPair, folder: Path) -> None:
        """Judge a pair and all that come meanwhile; answer each, whatever happens."""
        taken: dict[str, EvaluationPair] = {}

        def take() -> Iterator[EvaluationPair]:
            pair = first
            with suppress(Empty):
                while True:
                    taken[pair.id] = pair
                    yield pair
                    pair = self._waiting.get(timeout=0.2)  # for one more to join

        try:
            for result in judge_locally(take(), self._backend, self._settings, folder, self._live):
                answer = self._answers.pop(taken.pop(result.pair.id).id)
                path = folder / result.trace
                try:
                    trace = path.read_bytes()
                except OSError:
                    trace = b""
                else:
                    path.unlink()
                answer.set_result(_answer(result, trace))
        except Exception as error:  # noqa: BLE001 - no answer would be waited for
            for pair in taken.values():
                failure = failed_result(pair, self._backend.name, error)
                self._answers.pop(pair.id).set_result(_answer(failure))


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
    """Choose how many judges the cluster holds, and what each takes.

    `nodes` have their "CPU" and "GPU". A model takes a GPU, or some processors if the cluster has
    none, and has `concurrency` pairs in hand. A server gets `concurrency` pairs in all, from as few
    processes as can decode and send so many. Raises BadInput if there is no room.
    """
    cpus, gpus = (sum(int(node.get(kind, 0)) for node in nodes) for kind in ("CPU", "GPU"))
    kind = parse_judge(judge or "nano").kind
    if JUDGES[kind].served:
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
    """Judge pairs on a Ray cluster; yield one result for each.

    Traces lie below `out`. `address` None starts a Ray on this machine and stops it afterwards;
    "auto" or HOST:PORT names a cluster. If a judge dies, Ray starts it again with the pairs it had
    in hand. A pair over which it dies again and again fails. Once `stopped`, the pairs in hand are
    dropped. Raises BadInput without Ray or a cluster, JudgeError if the judge cannot be opened.
    """
    left = {pair.id: pair for pair in pairs}
    if not left:
        return
    name = parse_judge(judge or "nano")
    if name.kind in ("scripted", "hf") and Path(name.what).exists():  # a node works elsewhere
        judge = str(replace(name, what=str(Path(name.what).absolute())))
    with connected(address) as nodes:
        import ray
        from ray.data.exceptions import ExecutionTimeoutError
        from ray.exceptions import RayError

        judges = place_judges(judge, concurrency, len(left), nodes)
        counter = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(AttemptCounter)
        opening = (judge, settings, judges.live, counter.remote())  # all nodes reach the counter
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
