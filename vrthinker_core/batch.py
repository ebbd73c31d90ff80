"""Many comparisons side by side: one step of the model serves them all, where the backend can."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator

from vrthinker_core.backends.base import Backend, Chorus, Question, Said, never
from vrthinker_core.errors import BackendFailed
from vrthinker_core.events import Event, TurnEnded
from vrthinker_core.judge import Run, Step, judge
from vrthinker_core.messages import Cancelled
from vrthinker_core.types import Settings, VideoPair


def judge_many(
    pairs: Iterable[VideoPair],
    backend: Backend,
    settings: Settings = Settings(),
    *,
    live: int = 8,
    cancelled: Cancelled = never,
) -> Iterator[tuple[int, Event]]:
    """Compare many pairs, `live` at a time and turn by turn; each event comes with its pair's position.

    Each pair's own events are those of `judge`. Pairs are taken from the iterable only as they are needed.
    """
    if isinstance(backend, Chorus):
        yield from _together(pairs, backend, settings, live, cancelled)
        return
    waiting = enumerate(pairs)
    running: deque[tuple[int, Iterator[Event]]] = deque()
    while True:
        while len(running) < live and (following := next(waiting, None)) is not None:
            running.append((following[0], judge(following[1], backend, settings, cancelled=cancelled)))
        if not running:
            return
        position, events = running.popleft()
        for event in events:
            yield position, event
            if isinstance(event, TurnEnded):
                running.append((position, events))
                break


def _together(
    pairs: Iterable[VideoPair], backend: Chorus, settings: Settings, live: int, cancelled: Cancelled
) -> Iterator[tuple[int, Event]]:
    waiting = enumerate(pairs)
    running: list[_Row] = []
    try:
        while True:
            while len(running) < live and (following := next(waiting, None)) is not None:
                running.append(_Row(following[0], Run(following[1], backend, settings, cancelled, ())))
            if not running:
                return
            for row in running:
                yield from row.ask()
            running = [row for row in running if row.question is not None]
            yield from _round(backend, running)
    finally:
        for row in running:
            row.close()


class _Row:
    """One pair among others."""

    def __init__(self, position: int, run: Run) -> None:
        self._position = position
        self._run = run
        self._steps: Generator[Step] = run.recorded()
        self.question: Question | None = None
        """What it waits for; None once the run is over."""
        self.waits = False

    def ask(self) -> Iterator[tuple[int, Event]]:
        """Go on to the next question."""
        self.question = None
        for step in self._steps:
            if isinstance(step, Question):
                self.question, self.waits = step, True
                return
            yield self._position, step

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
        self._steps.close()


def _round(backend: Chorus, rows: list[_Row]) -> Iterator[tuple[int, Event]]:
    """One reply of every row. Whatever a backend does, each row has its end."""
    failure: Exception = BackendFailed("The judge stopped before it had answered.")
    answers = backend.stream_together([row.question for row in rows if row.question is not None])
    while any(row.waits for row in rows):
        try:
            said = next(answers, None)
        except Exception as error:  # noqa: BLE001 - told by every row that still waits
            failure, said = error, None
        if said is None:
            break
        yield from rows[said[0]].hear(said[1])
    for row in rows:
        if row.waits:
            yield from row.hear(failure)
