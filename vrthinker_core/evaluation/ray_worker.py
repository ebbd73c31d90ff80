"""A judge on a Ray node: many calls of one pair each."""

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
from vrthinker_core.errors import BackendFailed, CheckpointError, VrThinkerError
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import TRACES, PairResult, failed_result
from vrthinker_core.storage import allow_open_files, owned_folder
from vrthinker_core.types import Settings

TRIES = 4  # of what the judge's process dies over, before it is given up

RayRow = dict[str, bytes | str]
"""A row of Ray Data: `pair` to the judge; `result`, `trace` and `refusal` from it.

`pair` and `result` are pickled, a trace is JSON.
"""


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


def make_beginnings() -> Any:
    """Make a `AttemptCounter` that all nodes reach; gives its handle."""
    import ray

    return ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(AttemptCounter).remote()


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
                raise CheckpointError(
                    f"The judge's process died {TRIES} times while the judge was opened: it needs "
                    "more memory."
                )
            allow_open_files()
            self._backend = open_backend(choice)
            self._beginnings.end.remote(me)
        except VrThinkerError as error:
            self._refusal = f"{error} (On the node {gethostname()}.)"
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
                f"The node {gethostname()} has no file {absent[0]}: share the folder of the videos "
                "with every node, under the same path, and go on with --resume."
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
