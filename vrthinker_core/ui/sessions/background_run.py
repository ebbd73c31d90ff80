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
from vrthinker_core.ui.sessions.replay import end_open_turn
from vrthinker_core.ui.view.run_state import RunState, fold

STOP_SECONDS = 0.4
"""Seconds that a stopped judge has to end by itself; after that the page goes on without it."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """What is to be judged. It crosses process borders, so it holds values and paths only."""

    pair: VideoPair
    settings: Settings
    trace: Path
    """The record, written turn by turn."""
    stop_file: Path
    """The judge stops as soon as this file exists."""
    judge: str = ""
    """The name of the judge that was chosen, "" for the default."""


JobRunner = Callable[[RunJob], Generator[Event, None, None]]
"""Does a job: the events of one comparison."""


class BackgroundRun:
    """A job being done. `state` is what has happened so far, a value that is replaced and never changed."""

    def __init__(self, job: RunJob, judging: JobRunner, seats: threading.Semaphore) -> None:
        """`seats` counts how many judges may think at once; a stopped judge keeps its seat until it has really ended."""
        self.job = job
        self.state = RunState()
        self._run_job = judging
        self._judge_slots = seats
        self._started_at = time.monotonic()
        self._lock = threading.Lock()
        self._give_up_at = math.inf
        self._over = threading.Event()
        asking = contextvars.copy_context()  # a lent GPU counts against the quota of the visitor whose request this is
        self._thread = threading.Thread(target=asking.run, args=(self._work,), name="run", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Time since the run began."""
        return time.monotonic() - self._started_at

    @property
    def over(self) -> bool:
        """Nothing more will happen."""
        return self._over.is_set()

    def request_stop(self) -> None:
        """Ask the judge to stop; returns at once."""
        self._give_up_at = min(self._give_up_at, time.monotonic() + STOP_SECONDS)
        try:
            self.job.stop_file.touch()
        except OSError:
            return  # the file is the quick way; the thread loses its patience after every event as well

    def stop(self) -> RunState:
        """Stop, and return what is kept, at the latest after `GRACE` seconds."""
        self.request_stop()
        self._over.wait(STOP_SECONDS)
        self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))
        return self.state

    def join(self, timeout: float) -> bool:
        """Wait until the judge has really ended; False when it has not."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- in the thread -------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._judge_slots.acquire(timeout=0.1):
            if self._give_up_at < math.inf:
                self._end(Finished(StopReason.CANCELLED))
                return
        try:
            self._consume()
        except Exception as error:  # noqa: BLE001 - the border of the thread: every run ends with a sentence
            self._end(Finished(StopReason.FAILED, error=_sentence(error), fault=type(error).__name__, seconds=self.seconds))
        finally:
            self._judge_slots.release()
            self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))

    def _consume(self) -> None:
        with closing(self._run_job(self.job)) as events:
            for event in events:
                if not self._add(event) or time.monotonic() > self._give_up_at:
                    break

    def _add(self, event: Event) -> bool:
        """Fold an event; False when the run was already over."""
        with self._lock:
            if self._over.is_set():
                return False
            self.state = fold(end_open_turn(self.state) if isinstance(event, Finished) else self.state, event)
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
