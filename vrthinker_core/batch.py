"""Many comparisons side by side: one step of the model serves them all, where the backend can."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from itertools import islice

from vrthinker_core.backends.base import Backend, Chorus, Question, Said, never
from vrthinker_core.errors import BackendFailed
from vrthinker_core.events import Event, TurnEnded
from vrthinker_core.judge import Run, Step, judge
from vrthinker_core.machine import processors
from vrthinker_core.messages import Cancelled
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.video import Decoders

AHEAD = 4
"""Pairs whose videos are opened before it is their turn, and videos that are opened at the same time."""


def judge_many(
    pairs: Iterable[VideoPair],
    backend: Backend,
    settings: Settings = Settings(),
    *,
    live: int = 8,
    cancelled: Cancelled = never,
) -> Iterator[tuple[int, Event]]:
    """Compare many pairs, `live` at a time and turn by turn; each event comes with its pair's position.

    Each pair's own events are those of `judge`. Pairs are taken from the iterable only as they are needed: besides those that are
    being judged, the videos of a few more are being opened.
    """
    with Decoders() as decoders:
        if isinstance(backend, Chorus):
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


def _together(waiting: Iterator[_Row], backend: Chorus, live: int) -> Iterator[tuple[int, Event]]:
    """A turn of all at once. While they speak, the videos of the next ones are opened, and whoever has spoken gets new frames."""
    rows: deque[_Row] = deque()
    opening = ThreadPoolExecutor(AHEAD, thread_name_prefix="opening")
    asking = ThreadPoolExecutor(processors(), thread_name_prefix="asking")
    try:
        while True:
            for row in islice(waiting, live + AHEAD - len(rows)):
                rows.append(row)
                row.open_ahead(opening)
            if not rows:
                return
            speaking = list(islice(rows, live))
            for row in speaking:
                row.begin(asking)
            for row in speaking:
                yield from row.asked()
            yield from _round(backend, [row for row in speaking if row.question is not None], asking)
            rows = deque(row for row in rows if row.question is not None or row not in speaking)
    finally:
        for row in rows:
            row.close()
        opening.shutdown()
        asking.shutdown()


class _Row:
    """One pair among others."""

    def __init__(self, position: int, run: Run) -> None:
        self._position = position
        self._run = run
        self._steps: Generator[Step] = run.recorded()
        self._asking: Future[tuple[list[Event], Question | None]] | None = None
        self.question: Question | None = None
        """What it waits for; None once the run is over."""
        self.waits = False

    def open_ahead(self, pool: Executor) -> None:
        """Begin to open the videos."""
        self._run.open_ahead(pool)

    def begin(self, pool: Executor) -> None:
        """Begin to go on to the first question, unless it went on before."""
        if self._asking is None:
            self.ask_ahead(pool)

    def ask_ahead(self, pool: Executor) -> None:
        """Begin to go on to the next question."""
        self._asking = pool.submit(self._ask)

    def asked(self) -> Iterator[tuple[int, Event]]:
        """What happens up to the next question."""
        events, self.question = self._asking.result() if self._asking else self._ask()
        self.waits = self.question is not None
        for event in events:
            yield self._position, event

    def hear(self, said: Said) -> Iterator[tuple[int, Event]]:
        """Take an answer, up to the end of the turn."""
        self._run.hear(said)
        for step in self._steps:
            if isinstance(step, Question):
                return
            yield self._position, step
            if isinstance(step, TurnEnded):
                self.waits = False
                return

    def close(self) -> None:
        """End the run where it stands."""
        if self._asking and not self._asking.cancel():
            wait([self._asking])
        self._steps.close()
        self._run.close()

    def _ask(self) -> tuple[list[Event], Question | None]:
        events: list[Event] = []
        for step in self._steps:
            if isinstance(step, Question):
                return events, step
            events.append(step)
        return events, None


def _round(backend: Chorus, rows: list[_Row], asking: Executor) -> Iterator[tuple[int, Event]]:
    """One reply of every row. Whatever a backend does, each row has its end, and goes on to its next question."""
    failure: Exception = BackendFailed("The judge stopped before it had answered.")
    answers = backend.stream_together([row.question for row in rows if row.question is not None])
    while any(row.waits for row in rows):
        try:
            said = next(answers, None)
        except Exception as error:  # noqa: BLE001 - told by every row that still waits
            failure, said = error, None
        if said is None:
            break
        row = rows[said[0]]
        yield from row.hear(said[1])
        if not row.waits:
            row.ask_ahead(asking)
    for row in rows:
        if row.waits:
            yield from row.hear(failure)
            row.ask_ahead(asking)
