"""A judge on a node of a Ray cluster: it is handed one pair a call, many calls at a time, and judges them side by side."""

import atexit
import pickle
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from socket import gethostname
from threading import Thread
from typing import Any

from vrthinker_core.backends import open_backend
from vrthinker_core.backends.base import Backend
from vrthinker_core.errors import BackendFailed, CheckpointError, VrThinkerError
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import TRACES, PairResult, failed_result
from vrthinker_core.storage import allow_open_files, owned_folder
from vrthinker_core.types import Settings

TRIES = 4  # of what the judge's process dies over, before it is given up
GATHER_SECONDS = 0.2  # How long the pairs that are being judged wait for one more to join them

RayRow = dict[str, bytes | str]
"""A row of Ray Data. To the judge: `pair`; from it: `result`, `trace` and `refusal`. The first two are pickled, a trace is JSON."""


def pair_row(pair: EvaluationPair) -> RayRow:
    """What a judge is sent."""
    return {"pair": pickle.dumps(pair)}


def _answer(result: PairResult | None, trace: bytes = b"", refusal: str = "") -> RayRow:
    return {"result": pickle.dumps(result), "trace": trace, "refusal": refusal}


class Beginnings:
    """How often something was begun and did not end: what kills a process can count nothing there. One for all judges of a run."""

    def __init__(self) -> None:
        self._begun: Counter[str] = Counter()

    def begin(self, key: str) -> int:
        """Count a beginning; gives how many there were."""
        self._begun[key] += 1
        return self._begun[key]

    def end(self, key: str) -> None:
        """It came to an end."""
        del self._begun[key]


def make_beginnings() -> Any:
    """The handle of a `Beginnings` that all nodes reach."""
    import ray

    return ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Beginnings).remote()


class ClusterJudge:
    """One judge, opened where Ray put it. A judge that cannot be opened says why in answer to every pair."""

    def __init__(self, choice: str | None, settings: Settings, live: int, beginnings: Any) -> None:
        self._settings, self._live, self._beginnings = settings, live, beginnings
        self._waiting: SimpleQueue[EvaluationPair] = SimpleQueue()
        self._answers: dict[str, Future[RayRow]] = {}
        self._refusal = ""
        try:
            self._backend = self._open(choice)
        except VrThinkerError as error:
            self._refusal = f"{error} (On the node {gethostname()}.)"
        else:
            Thread(target=self._run, name="judge", daemon=True).start()

    def _open(self, choice: str | None) -> Backend:
        import ray

        me = str(ray.get_runtime_context().get_actor_id())  # The same when Ray has started it again
        if self._count(me) > TRIES:
            raise CheckpointError(
                f"The judge's process died {TRIES} times while the judge was opened: it needs more memory."
            )
        allow_open_files()
        backend = open_backend(choice)
        self._beginnings.end.remote(me)
        return backend

    def _count(self, key: str) -> int:
        import ray

        return int(ray.get(self._beginnings.begin.remote(key)))

    def __call__(self, row: RayRow) -> RayRow:
        """Judge the pair of a row; comes back once its run has ended."""
        if self._refusal:
            return _answer(None, refusal=self._refusal)
        pair: EvaluationPair = pickle.loads(bytes(row["pair"]))  # type: ignore[arg-type] # `pair_row` made it
        error = _missing(pair)
        if error is None and self._count(pair.id) > TRIES:
            error = BackendFailed(
                f"The judge's process died {TRIES} times while this pair was judged: it needs more memory."
            )
        if error is not None:
            return _answer(failed_result(pair, self._backend.name, error))
        answer = self._answers[pair.id] = Future()
        self._waiting.put(pair)
        return answer.result()

    def _run(self) -> None:
        with ExitStack() as stack:
            atexit.register(stack.close)  # the loop goes on until the process ends
            folder = stack.enter_context(owned_folder("vr-thinker-ray-"))
            (folder / TRACES).mkdir()
            while True:
                self._judge_those_that_wait(self._waiting.get(), folder)

    def _judge_those_that_wait(self, first: EvaluationPair, folder: Path) -> None:
        """Judge a pair and all that come while there is one to judge. Each of them is answered, whatever happens."""
        taken: dict[str, EvaluationPair] = {}
        try:
            for result in judge_locally(
                self._take(first, taken), self._backend, self._settings, folder, self._live
            ):
                self._answers.pop(taken.pop(result.pair.id).id).set_result(
                    _answer(result, _take_file(folder / result.trace))
                )
        except Exception as error:  # noqa: BLE001 - a judge that answers nothing would be waited for
            for pair in taken.values():
                self._answers.pop(pair.id).set_result(
                    _answer(failed_result(pair, self._backend.name, error))
                )

    def _take(
        self, first: EvaluationPair, taken: dict[str, EvaluationPair]
    ) -> Iterator[EvaluationPair]:
        pair = first
        with suppress(Empty):
            while True:
                taken[pair.id] = pair
                yield pair
                pair = self._waiting.get(timeout=GATHER_SECONDS)


def _take_file(path: Path) -> bytes:
    """The bytes of a trace, which is removed; none where it could not be kept."""
    try:
        data = path.read_bytes()
    except OSError:
        return b""
    path.unlink()
    return data


def _missing(pair: EvaluationPair) -> BackendFailed | None:
    """A file that this node has not: the table has it, so that the pair can be judged once the folder is shared."""
    for name in (pair.first, pair.second):
        if not Path(name).is_file():
            what_to_do = "share the folder of the videos with every node, under the same path, and go on with --resume"
            return BackendFailed(f"The node {gethostname()} has no file {name}: {what_to_do}.")
    return None
