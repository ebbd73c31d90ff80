"""Many comparisons side by side, batched if the backend supports it."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import SupportsIndex, TypeVar

from vrthinker_core.backends.base import (
    Backend,
    BatchBackend,
    GenerationRequest,
    StreamItem,
    not_cancelled,
)
from vrthinker_core.comparison import Comparison, PendingTurn
from vrthinker_core.errors import BadInput, judge_failure
from vrthinker_core.judge import ReplyCollector, check_opened, stream_items
from vrthinker_core.system import cpu_count
from vrthinker_core.traces import TraceWriter
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import JudgeEvent, RunEvent, Swapped
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video import DecoderPool

# Pairs that are opened ahead of their first turn; also the number of threads that open videos
OPEN_AHEAD = 4

StreamBatch = Callable[[Sequence[GenerationRequest]], Iterator[tuple[int, StreamItem]]]

Item = TypeVar("Item")
Result = TypeVar("Result")


def judge_many(
    pairs: Iterable[VideoPair],
    backend: Backend,
    settings: Settings = Settings(),
    *,
    live: int = 8,
    cancelled: Cancelled = not_cancelled,
    trace_of: Callable[[int], Path | str | None] = lambda _: None,
) -> Iterator[tuple[int, JudgeEvent]]:
    """Compare many pairs, `live` at a time; yield (position, event).

    The comparisons advance together, turn by turn. The events of each pair are those of `judge`.
    Closing the generator ends every unfinished run as `cancelled`. Pairs are taken from the
    iterable lazily: besides the live ones, the videos of a few more are being opened.
    `trace_of(position)` names the trace file of a pair; None keeps no trace.

    Raises `BadInput` if `live` is not a whole number from 1 up, or if `backend` is only the name of
    a judge.
    """
    check_opened(backend)
    check_pairs_in_hand("live", live)
    stream_batch = backend.stream_batch if isinstance(backend, BatchBackend) else stream_one_by_one
    rows: list[_Row] = []
    with (
        DecoderPool() as pool,
        ThreadPoolExecutor(OPEN_AHEAD, "opening") as opening,
        ThreadPoolExecutor(cpu_count(), "stepping") as stepping,
    ):
        waiting = (
            _Row(
                position,
                Comparison(pair, backend, settings, cancelled, pool),
                TraceWriter(trace_of(position)),
            )
            for position, pair in enumerate(pairs)
        )
        try:
            while True:
                for row in islice(waiting, live + OPEN_AHEAD - len(rows)):
                    rows.append(row)
                    row.comparison.open_ahead(opening)
                running = rows[:live]
                if not running:
                    return
                for row in running:
                    row.start(stepping)
                for row in running:
                    yield from row.events()
                # Fill the places of finished rows before the next batch
                if not any(row.over for row in running):
                    yield from _run_turn(running, stream_batch, stepping)
                rows = [row for row in rows if not row.over]
        finally:
            for row in rows:
                row.close()


def check_pairs_in_hand(name: str, many: object) -> None:
    """Raise `BadInput` unless the parameter `name` is a number of pairs."""
    if not isinstance(many, SupportsIndex) or operator.index(many) < 1:
        raise BadInput(f"{name}={many} is no number of pairs: give a whole number from 1 up.")


def imap_unordered(
    submit: Callable[[Item], Future[Result]], items: Iterable[Item], many: int
) -> Iterator[Result]:
    """Submit items and yield their results as they finish.

    Items are taken lazily: at most `many` are in flight. Raises the exception of a failed item.
    """
    waiting, running = iter(items), set[Future[Result]]()
    while True:
        running.update(submit(item) for item in islice(waiting, many - len(running)))
        if not running:
            return
        ended, running = wait(running, return_when=FIRST_COMPLETED)
        for future in ended:
            yield future.result()


def imap(
    submit: Callable[[Item], Future[Result]], items: Iterable[Item], many: int
) -> Iterator[Result]:
    """Submit items and yield their results in the order of the items.

    Items are taken lazily: at most `many` are in flight. Raises the exception of a failed item.
    """
    waiting = iter(items)
    running = deque(map(submit, islice(waiting, many)))
    while running:
        yield running.popleft().result()
        running.extend(map(submit, islice(waiting, 1)))


def stream_one_by_one(requests: Sequence[GenerationRequest]) -> Iterator[tuple[int, StreamItem]]:
    """Stream replies one after another, shaped like `BatchBackend.stream_batch`."""
    for position, request in enumerate(requests):
        for item in stream_items(request):
            yield position, item


def _run_turn(
    rows: Sequence[_Row], stream_batch: StreamBatch, executor: Executor
) -> Iterator[tuple[int, JudgeEvent]]:
    """Take one reply for every row.

    Meanwhile a row whose reply has ended fetches its next frames. A row whose reply has no end when
    the stream stops goes on, too: its reply counts as failed.
    """
    left = dict(enumerate(rows))
    for position, item in stream_items_for(left, stream_batch, [row.request for row in rows]):
        yield from left[position].add(item)
        if left[position].reply.ended:
            left.pop(position).step(executor)
        for row in rows:
            yield from row.events(wait=False)
        if not left:
            return
    for row in left.values():
        row.step(executor)


def stream_items_for(
    left: Collection[int], stream_batch: StreamBatch, requests: Sequence[GenerationRequest]
) -> Iterator[tuple[int, StreamItem]]:
    """Yield items of waiting rows, or one exception for all of them."""
    try:
        for position, item in stream_batch(requests):
            if position in left:
                yield position, item
    except Exception as error:  # noqa: BLE001 - every row that still waits says what happened
        failure = judge_failure(error)
        for position in list(left):
            yield position, failure


class _Row:
    """One pair of the batch. Between two replies a thread fetches its next frames."""

    def __init__(self, position: int, comparison: Comparison, writer: TraceWriter) -> None:
        self._position = position
        self.comparison = comparison
        self._writer = writer
        self._events: Future[list[JudgeEvent]] | None = None
        self._pending: PendingTurn | None = None
        self._started = False
        self._second = False  # The second run is going on
        self.reply = ReplyCollector(0)  # The reply that is being generated

    @property
    def over(self) -> bool:
        """Whether the run has ended and all its events were given out."""
        return self._started and self._events is None and self._pending is None

    @property
    def request(self) -> GenerationRequest:
        """The request that waits for a reply; only valid between two steps."""
        assert self._pending is not None
        return self._pending.request

    def start(self, executor: Executor) -> None:
        """Begin the first step, unless it has begun before."""
        if not self._started:
            self._started = True
            step, refused = self.comparison.start, self._writer.refused
            self._events = executor.submit(self._go_on, step, refused)

    def step(self, executor: Executor) -> None:
        """Begin the next step: read the reply and fetch the next request."""
        reply, step = self.reply, self.comparison.finish_turn
        self._events = executor.submit(self._go_on, step, reply.completion, reply.error)

    def add(self, item: StreamItem) -> Iterator[tuple[int, JudgeEvent]]:
        """Take a stream item of the reply; yield its events."""
        for event in self.reply.add(item):
            yield self._position, self._marked(event)

    def events(self, *, wait: bool = True) -> Iterator[tuple[int, JudgeEvent]]:
        """Yield the events of the last step, once. With `wait=False`, only if it has ended."""
        if self._events is not None and (wait or self._events.done()):
            events, self._events = self._events.result(), None
            for event in events:
                yield self._position, event

    def close(self) -> None:
        """Close the run, after the step that is running."""
        if self._events is not None and not self._events.cancel():
            wait([self._events])
        with closing(self.comparison):
            self._writer.close()

    def _go_on(self, step: Callable[..., RunEvent | None], *given: object) -> list[JudgeEvent]:
        """Take a step and fetch the next request; return both events."""
        event = step(*given)
        done = [] if event is None else [self._record(event)]
        self._pending = self.comparison.next_request()
        if self._pending is not None:
            self.reply = ReplyCollector(self._pending.shown.turn, self.reply.room)
            return [*done, self._record(self._pending.shown)]
        done.append(self._record(self.comparison.finish()))
        if (swapped := self.comparison.swapped()) is None:
            return done
        self.comparison, self._second, self.reply = swapped, True, ReplyCollector(0)
        return [*done, *self._go_on(swapped.start)]

    def _marked(self, event: RunEvent) -> JudgeEvent:
        return Swapped(event) if self._second else event

    def _record(self, event: RunEvent) -> JudgeEvent:
        return self._writer.record(self._marked(event))
