"""One run in a thread of its own, so that a page which draws slowly never slows the judge."""

from __future__ import annotations

import contextvars
import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.errors import VrThinkerError
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event, Finished, StopReason
from vrthinker_core.ui.sessions.replay import cut_off
from vrthinker_core.ui.view.run_state import State, fold

GRACE = 0.4
"""Seconds that a stopped judge has to end by itself; after that the page goes on without it."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be judged. It crosses process borders, so it holds values and paths only."""

    pair: VideoPair
    settings: Settings
    trace: Path
    """The record, written turn by turn."""
    halt: Path
    """The judge stops as soon as this file exists."""
    judge: str = ""
    """The name of the judge that was chosen, "" for the default."""


Judging = Callable[[Job], Generator[Event, None, None]]
"""Does a job: the events of one comparison."""


class Run:
    """A job being done. `state` is what has happened so far, a value that is replaced and never changed."""

    def __init__(self, job: Job, judging: Judging, seats: threading.Semaphore) -> None:
        """`seats` counts how many judges may think at once; a stopped judge keeps its seat until it has really ended."""
        self.job = job
        self.state = State()
        self._judging = judging
        self._seats = seats
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._patience = math.inf
        self._over = threading.Event()
        asking = contextvars.copy_context()  # a lent GPU counts against the quota of the visitor whose request this is
        self._thread = threading.Thread(target=asking.run, args=(self._work,), name="run", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Time since the run began."""
        return time.monotonic() - self._began

    @property
    def over(self) -> bool:
        """Nothing more will happen."""
        return self._over.is_set()

    def halt(self) -> None:
        """Ask the judge to stop; returns at once."""
        self._patience = min(self._patience, time.monotonic() + GRACE)
        try:
            self.job.halt.touch()
        except OSError:
            return  # the file is the quick way; the thread loses its patience after every event as well

    def stop(self) -> State:
        """Stop, and return what is kept, at the latest after `GRACE` seconds."""
        self.halt()
        self._over.wait(GRACE)
        self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))
        return self.state

    def join(self, timeout: float) -> bool:
        """Wait until the judge has really ended; False when it has not."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._seats.acquire(timeout=0.1):
            if self._patience < math.inf:
                self._end(Finished(StopReason.CANCELLED))
                return
        try:
            self._judge()
        except Exception as error:  # noqa: BLE001 - the border of the thread: every run ends with a sentence
            self._end(Finished(StopReason.FAILED, error=_sentence(error), fault=type(error).__name__, seconds=self.seconds))
        finally:
            self._seats.release()
            self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))

    def _judge(self) -> None:
        with closing(self._judging(self.job)) as events:
            for event in events:
                if not self._add(event) or time.monotonic() > self._patience:
                    break

    def _add(self, event: Event) -> bool:
        """Fold an event; False when the run was already over."""
        with self._lock:
            if self._over.is_set():
                return False
            self.state = fold(cut_off(self.state) if isinstance(event, Finished) else self.state, event)
            if isinstance(event, Finished):
                self._over.set()
            return True

    def _end(self, finished: Finished) -> None:
        """End the run unless it has ended."""
        self._add(finished)


def _sentence(error: Exception) -> str:
    if isinstance(error, VrThinkerError):
        return str(error)
    return f"The comparison stopped unexpectedly ({type(error).__name__}). What had happened before is kept; compare again."
