"""The drivers of comparisons: one, a branch, or many side by side."""

import operator
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import SupportsIndex

from vrthinker_core.backends import open_backend
from vrthinker_core.backends.base import (
    Backend,
    BatchBackend,
    GenerationRequest,
    RemoteBackend,
    StreamItem,
    not_cancelled,
)
from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.comparison import Comparison, complete
from vrthinker_core.errors import BadInput, judge_failure
from vrthinker_core.system import cpu_count
from vrthinker_core.types import Settings, Trace, VideoPair
from vrthinker_core.types.events import JudgeEvent, add_event
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video import DecoderPool

PAIRS_IN_HAND = 8  # With a judge in this process

# Pairs of a batch that are opened ahead of their first turn; also the threads that open videos
OPEN_AHEAD = 4


def judge(
    pair: VideoPair,
    backend: Backend,
    settings: Settings = Settings(),
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Iterator[JudgeEvent]:
    """Compare two videos and yield an event at each step.

    Yields `Opening` events while slow videos load, then `Started`, and exactly one `Finished` last.
    Bad files and a failing judge do not raise: they end the run as `failed` with a sentence.
    Closing the generator ends the run as `cancelled`. If the judge fails in a turn, the turn is
    retried once: its `FramesShown` comes again, with a note.

    `trace` names a file that is written turn by turn. The file must be new or an earlier trace: no
    other file is replaced. `decoder_pool` supplies the decoding processes. Keep one pool for
    several comparisons: their videos open faster.

    With `settings.swap` a run with a verdict is followed by a second run over the same opened
    videos with the sides swapped. Its events, `Started` to `Finished`, come as `Swapped`.

    Raises `BadInput` at once for a name in place of a backend, wrong settings or no pair.
    """
    return run_events(
        Comparison(
            pair, backend, settings, cancelled=cancelled, decoder_pool=decoder_pool, trace=trace
        )
    )


def compare(
    pair: VideoPair,
    judge: Backend | str | None = None,
    settings: Settings = Settings(),
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Trace:
    """Compare two videos and return the finished trace.

    A `judge` named as on the command line is opened for this call: give a `Backend` to ask more
    than once. None is the best judge here. With `settings.swap` the trace has both runs. All else
    is as in `judge`. Raises `BadInput` for an unknown judge, `JudgeError` if it cannot be opened.
    """
    backend = open_backend(judge) if judge is None or isinstance(judge, str) else judge
    comparison = Comparison(
        pair, backend, settings, cancelled=cancelled, decoder_pool=decoder_pool, trace=trace
    )
    deque(run_events(comparison), maxlen=0)
    assert comparison.trace is not None
    return comparison.trace


def judge_branch(
    plan: BranchPlan,
    pair: VideoPair,
    backend: Backend,
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Iterator[JudgeEvent]:
    """Run a branch: first yield the events of turns taken over.

    The branch's own events follow. Everything else is as in `judge`. Replies of turns taken over
    are not generated again: they are history, prefilled with the first request. Without changes,
    the branch repeats the origin's turns.
    """
    return run_events(
        Comparison(
            pair, backend, plan=plan, cancelled=cancelled, decoder_pool=decoder_pool, trace=trace
        )
    )


def run_events(comparison: Comparison) -> Generator[JudgeEvent, None, None]:
    """Yield all events of a comparison; the judge streams one reply after another."""
    with closing(comparison):
        while True:
            yield from comparison.advance()
            if (request := comparison.request) is None:
                return
            with closing(stream_items(request)) as items:
                for item in items:
                    if (event := comparison.add(item)) is not None:
                        yield event
                    if comparison.reply is None or comparison.reply.failure:
                        break


def stream_items(request: GenerationRequest) -> Generator[StreamItem, None, None]:
    """Stream one reply; yield an exception as the last item. Closing closes the stream."""
    with ExitStack() as resources:
        try:
            stream = request.conversation.stream(
                request.messages, request.sampling, request.cancelled
            )
            resources.callback(getattr(stream, "close", lambda: None))
            yield from stream
        except Exception as error:  # noqa: BLE001 - the run itself says what happened, and keeps what was written so far
            yield error


def judge_many(
    pairs: Iterable[VideoPair],
    backend: Backend,
    settings: Settings = Settings(),
    *,
    live: int | None = None,
    cancelled: Cancelled = not_cancelled,
    trace_of: Callable[[int], Path | str | None] = lambda _: None,
) -> Iterator[tuple[int, JudgeEvent]]:
    """Compare many pairs, `live` at a time; yield (position, event).

    By default `live` is 8, or as many as a server takes: see `RemoteBackend`. Each pair has the
    same events as with `judge`. A judge that generates in batches in this process has all live
    pairs in one batch, turn by turn. Any other judge is asked by a thread for each pair, so that no
    pair waits for the slowest reply of all. Closing the generator ends every unfinished run as
    `cancelled`. Pairs are taken from the iterable lazily: besides the live ones, the videos of a
    few more may be being opened. `trace_of(position)` names the trace file of a pair; None keeps no
    trace.

    Raises `BadInput` at once as `judge` does, and if `live` is not a whole number from 1 up.
    """
    complete(settings, backend)
    check_pairs_in_hand("live", live)
    most = pairs_in_hand(live, backend)
    if isinstance(pairs, VideoPair | str):
        raise BadInput("Give a list of pairs, not one.")

    def events() -> Generator[tuple[int, JudgeEvent], None, None]:
        with DecoderPool() as pool:
            comparisons = (
                Comparison(
                    pair,
                    backend,
                    settings,
                    cancelled=cancelled,
                    decoder_pool=pool,
                    trace=trace_of(position),
                )
                for position, pair in enumerate(pairs)
            )
            yield from run_many(comparisons, backend, most)

    return events()


def whole_traces(events: Iterable[tuple[int, JudgeEvent]]) -> Iterator[tuple[int, Trace]]:
    """Yield (position, trace) of each pair of `judge_many` that is over."""
    traces: dict[int, Trace | None] = {}
    for position, event in events:
        traces[position] = trace = add_event(traces.get(position), event)
        if trace is not None and trace.over:
            del traces[position]
            yield position, trace


def run_many(
    comparisons: Iterable[Comparison], backend: Backend, live: int
) -> Generator[tuple[int, JudgeEvent], None, None]:
    """Yield (position, event) of comparisons with one judge, `live` at a time."""
    if isinstance(backend, BatchBackend) and not isinstance(backend, RemoteBackend):
        return _run_batch(comparisons, backend, live)
    return _run_threads(comparisons, live)


def _run_threads(
    comparisons: Iterable[Comparison], live: int
) -> Generator[tuple[int, JudgeEvent], None, None]:
    """Run each comparison in a thread of its own; another begins when the end of one was taken."""
    events: SimpleQueue[tuple[int, JudgeEvent | BaseException | None]] = SimpleQueue()
    waiting, running = enumerate(comparisons), dict[int, Comparison]()

    def run(position: int, comparison: Comparison) -> None:
        end: BaseException | None = None
        try:
            for event in run_events(comparison):
                events.put((position, event))
        except BaseException as error:  # noqa: BLE001 - raised by whoever takes it
            end = error
        events.put((position, end))

    with ThreadPoolExecutor(live, "comparison") as executor:
        try:
            while True:
                for position, comparison in islice(waiting, live - len(running)):
                    running[position] = comparison
                    executor.submit(run, position, comparison)
                if not running:
                    return
                position, event = events.get()
                if isinstance(event, BaseException):
                    raise event
                if event is None:
                    del running[position]
                else:
                    yield position, event
        finally:
            for comparison in running.values():
                comparison.stopped = True


def _run_batch(
    comparisons: Iterable[Comparison], backend: BatchBackend, live: int
) -> Generator[tuple[int, JudgeEvent], None, None]:
    """Generate the replies of all comparisons together; between two, threads fetch their frames."""
    rows: dict[int, Comparison] = {}
    waiting = enumerate(comparisons)
    with (
        ThreadPoolExecutor(OPEN_AHEAD, "opening") as opening,
        ThreadPoolExecutor(cpu_count(), "stepping") as stepping,
        closing(_Steps(stepping, rows)) as steps,
    ):
        while True:
            for position, row in islice(waiting, live + OPEN_AHEAD - len(rows)):
                rows[position] = row
                row.open_ahead(opening)
            running = dict(islice(rows.items(), live))
            if not running:
                return
            for position, row in running.items():
                if row.request is None and position not in steps.going:
                    steps.begin(position, row)
            yield from steps.events(wait=True)
            over = [position for position, row in running.items() if row.request is None]
            for position in over:
                rows.pop(position).close()
            if not over:  # Otherwise their places are filled before the next batch
                yield from _generate(running, backend, steps)


class _Steps:
    """The steps of comparisons between two replies, each in a thread."""

    def __init__(self, executor: Executor, rows: Mapping[int, Comparison]) -> None:
        self._executor, self._rows = executor, rows
        self.going: dict[int, Future[list[JudgeEvent]]] = {}

    def close(self) -> None:
        """Wait for the last steps, and close all comparisons."""
        wait([each for each in self.going.values() if not each.cancel()])
        for row in self._rows.values():
            row.close()

    def begin(self, position: int, row: Comparison) -> None:
        """Begin the next step of a comparison."""
        self.going[position] = self._executor.submit(lambda: list(row.advance()))

    def events(self, *, wait: bool) -> Iterator[tuple[int, JudgeEvent]]:
        """Yield the events of the steps that have ended, or of all."""
        for position in [n for n, each in self.going.items() if wait or each.done()]:
            for event in self.going.pop(position).result():
                yield position, event


def _generate(
    rows: dict[int, Comparison], backend: BatchBackend, steps: _Steps
) -> Iterator[tuple[int, JudgeEvent]]:
    """Yield the events of one reply for every row; each goes on as soon as its reply has ended.

    A reply without an end when the stream stops counts as failed.
    """
    left = dict(rows)
    requests = [row.request for row in rows.values() if row.request is not None]
    positions = list(rows)
    for number, item in _stream_batch(requests, backend):
        if (row := left.get(position := positions[number])) is not None:
            if (event := row.add(item)) is not None:
                yield position, event
            if row.reply is not None and row.reply.ended:
                steps.begin(position, left.pop(position))
        yield from steps.events(wait=False)
        if not left:
            return
    for position, row in left.items():
        steps.begin(position, row)


def _stream_batch(
    requests: Sequence[GenerationRequest], backend: BatchBackend
) -> Iterator[tuple[int, StreamItem]]:
    """Stream all replies; yield an exception as the last item of each that still waits."""
    try:
        yield from backend.stream_batch(requests)
    except Exception as error:  # noqa: BLE001 - every row that still waits says what happened
        for number in range(len(requests)):
            yield number, judge_failure(error)


def pairs_in_hand(many: int | None, backend: Backend) -> int:
    """Return the number of pairs to judge at the same time, if `many` is None the backend's own."""
    if many is not None:
        return many
    return backend.pairs_in_hand if isinstance(backend, RemoteBackend) else PAIRS_IN_HAND


def check_pairs_in_hand(name: str, many: object) -> None:
    """Raise `BadInput` unless the parameter `name` is a number of pairs, or None."""
    if many is None:
        return
    if not isinstance(many, SupportsIndex) or operator.index(many) < 1:
        raise BadInput(f"{name}={many} is no number of pairs: give a whole number from 1 up.")
