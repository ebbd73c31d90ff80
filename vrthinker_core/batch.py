"""Many comparisons side by side: one step of the model serves them all, where the backend can."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from itertools import islice

from vrthinker_core.backends.base import Backend, BatchBackend, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.cpus import cpu_count
from vrthinker_core.errors import BackendFailed
from vrthinker_core.judge import Run, Step, judge
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event, TurnEnded
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.video import DecoderPool

AHEAD = 4
"""Pairs whose videos are opened before it is their turn, and videos that are opened at the same time."""


def judge_many(
    pairs: Iterable[VideoPair],
    backend: Backend,
    settings: Settings = Settings(),
    *,
    live: int = 8,
    cancelled: Cancelled = not_cancelled,
) -> Iterator[tuple[int, Event]]:
    """Compare many pairs, `live` at a time and turn by turn; each event comes with its pair's position.

    Each pair's own events are those of `judge`. Pairs are taken from the iterable only as they are needed: besides those that are
    being judged, the videos of a few more are being opened.
    """
    with DecoderPool() as decoders:
        if isinstance(backend, BatchBackend):
            rows = (_Row(n, Run(pair, backend, settings, cancelled, decoders=decoders)) for n, pair in enumerate(pairs))
            yield from _together(rows, backend, live)
        else:
            runs = (judge(pair, backend, settings, cancelled=cancelled, decoders=decoders) for pair in pairs)
            yield from _in_turns(enumerate(runs), live)


def _in_turns(waiting: Iterator[tuple[int, Iterator[Event]]], live: int) -> Iterator[tuple[int, Event]]:
    """A turn of each, one after another."""
    running: deque[tuple[int, Iterator[Event]]] = deque()
    while True:
        running.extend(islice(waiting, live - len(running)))
        if not running:
            return
        position, events = running.popleft()
        for event in events:
            yield position, event
            if isinstance(event, TurnEnded):
                running.append((position, events))
                break


def _together(waiting: Iterator[_Row], backend: BatchBackend, live: int) -> Iterator[tuple[int, Event]]:
    """A turn of all at once. While they speak, the videos of the next ones are opened, and whoever has spoken gets new frames."""
    rows: deque[_Row] = deque()
    opening = ThreadPoolExecutor(AHEAD, thread_name_prefix="opening")
    asking = ThreadPoolExecutor(cpu_count(), thread_name_prefix="asking")
    try:
        while True:
            for row in islice(waiting, live + AHEAD - len(rows)):
                rows.append(row)
                row.open_ahead(opening)
            speaking = list(islice(rows, live))
            if not speaking:
                return
            for row in speaking:
                row.begin(asking)
            for row in speaking:
                yield from row.come()
            if not any(row.over for row in speaking):  # else others take their places first
                yield from _round(backend, speaking, asking)
            rows = deque(row for row in rows if not row.over)
    finally:
        for row in rows:
            row.close()
        opening.shutdown()
        asking.shutdown()


class _Row:
    """One pair among others. Between two questions it goes on in a thread of its own: frames are fetched there."""

    def __init__(self, position: int, run: Run) -> None:
        self._position = position
        self._run = run
        self._steps: Generator[Step] = run.recorded()
        self._coming: Future[list[Step]] | None = None
        self._begun = False
        self.question: GenerationRequest | None = None
        """What it waits for."""

    @property
    def over(self) -> bool:
        """Everything that happens has happened, and is told."""
        return self._begun and self._coming is None and self.question is None

    def open_ahead(self, pool: Executor) -> None:
        """Begin to open the videos."""
        self._run.open_ahead(pool)

    def begin(self, pool: Executor) -> None:
        """Begin to go on to the first question, unless it has begun before."""
        if not self._begun:
            self._begun = True
            self.go_on(pool, None)

    def go_on(self, pool: Executor, said: StreamItem | None) -> None:
        """Begin to go on to the next question, with the end of a reply if there was one."""
        self.question = None
        self._run.hear(said)
        self._coming = pool.submit(self._next)

    def come(self, *, wait: bool = True) -> Iterator[tuple[int, Event]]:
        """What happens up to the next question, once: now, or (without `wait`) as soon as it has happened."""
        if self._coming is None or not (wait or self._coming.done()):
            return
        steps, self._coming = self._coming.result(), None
        for step in steps:
            if isinstance(step, GenerationRequest):
                self.question = step
            else:
                yield self._position, step

    def hear(self, piece: str) -> Iterator[tuple[int, Event]]:
        """Take a piece of the reply."""
        self._run.hear(piece)
        for step in self._next():
            if not isinstance(step, GenerationRequest):
                yield self._position, step

    def close(self) -> None:
        """End the run where it stands."""
        if self._coming is not None and not self._coming.cancel():
            wait([self._coming])
        self._steps.close()
        self._run.close()

    def _next(self) -> list[Step]:
        """Every step up to a question, or to the end."""
        steps: list[Step] = []
        for step in self._steps:
            steps.append(step)
            if isinstance(step, GenerationRequest):
                break
        return steps


def _round(backend: BatchBackend, rows: list[_Row], asking: Executor) -> Iterator[tuple[int, Event]]:
    """One reply of every row. Whatever a backend does, each row has its end, and goes on to its next question."""
    failure: Exception = BackendFailed("The judge stopped before it had answered.")
    answers = backend.stream_batch([row.question for row in rows if row.question is not None])
    left = dict(enumerate(rows))
    while left:
        try:
            position, said = next(answers, (-1, None))
        except Exception as error:  # noqa: BLE001 - told by every row that still waits
            position, failure = -1, error
        if position < 0:
            break
        if isinstance(said, str):
            yield from left[position].hear(said)
        else:
            left.pop(position).go_on(asking, said)
        for row in rows:
            yield from row.come(wait=False)
    for row in left.values():
        row.go_on(asking, failure)
