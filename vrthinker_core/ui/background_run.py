"""One run in a thread, so that no page slows the judge."""

import contextvars
import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.errors import describe
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import (
    Finished,
    JudgeEvent,
    StopReason,
    Swapped,
    Voted,
    second_run_follows,
)
from vrthinker_core.types.progress import Pace
from vrthinker_core.ui.replay import end_open_turn
from vrthinker_core.ui.run_state import RunState, fold

# For a stopped judge to end by itself; after that the run counts as over without it
STOP_SECONDS = 0.4
POLL_SECONDS = 0.05  # between two looks whether a run may begin


@dataclass(frozen=True, slots=True)
class RunJob:
    """What to compare, and how; it is pickled for the GPU's process."""

    pair: VideoPair
    settings: Settings
    trace: Path  # where the trace is written, turn by turn
    stop_file: Path  # the judge stops as soon as this file exists
    judge: str = ""  # the name of the judge that was chosen, "" for the default
    plan: BranchPlan | None = None  # if the run is a branch of another one


JobRunner = Callable[[RunJob], Generator[JudgeEvent, None, None]]  # runs one comparison


def always(_judge: str) -> bool:
    """Return True: every judge is loaded."""
    return True


class BackgroundRun:
    """A job in a thread, with immutable `state` and `pace` so far."""

    def __init__(
        self,
        job: RunJob,
        run_job: JobRunner,
        judge_slots: threading.Semaphore,
        is_loaded: Callable[[str], bool] = always,
        first: RunState | None = None,
    ) -> None:
        """Start the run, which takes a judge slot once its judge `is_loaded`.

        `judge_slots`: one for each judge that may run at once; a stopped judge holds its slot until
        its thread has ended. `first`: the run whose order is checked; the job's is the second one.
        """
        self.job = job
        self._first = first
        self.state = RunState() if first is None else replace(first, swapped=RunState())
        self.pace = Pace()
        self._run_job = run_job
        self._judge_slots = judge_slots
        self._is_loaded = is_loaded
        self._started_at = time.monotonic()
        self._lock = threading.RLock()
        self._stop_deadline = math.inf
        self._over = threading.Event()
        context = contextvars.copy_context()  # ZeroGPU charges the visitor of this request
        self._thread = threading.Thread(
            target=context.run, args=(self._work,), name="run", daemon=True
        )
        self._thread.start()

    @property
    def pair(self) -> VideoPair:
        """The pair, in the order of the first run."""
        pair = self.job.pair
        return pair if self._first is None else pair.swapped()

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._started_at

    @property
    def over(self) -> bool:
        """Whether the run has ended; `state` changes no more."""
        return self._over.is_set()

    def request_stop(self) -> None:
        """Ask the judge to stop; returns at once."""
        self._stop_deadline = min(self._stop_deadline, time.monotonic() + STOP_SECONDS)
        with suppress(OSError):  # without the file it stops at the first event after the deadline
            self.job.stop_file.touch()

    def stop(self) -> RunState:
        """Stop, and return the final state, after `STOP_SECONDS` at the latest."""
        self.request_stop()
        self._over.wait(STOP_SECONDS)
        self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))
        return self.state

    def wait(self, timeout: float) -> bool:
        """Wait until the run is over; False if `timeout` seconds were not enough."""
        return self._over.wait(timeout)

    def add_vote(self, vote: Vote) -> None:
        """Keep the visitor's vote, also while the run goes on."""
        with self._lock:
            self.state = fold(self.state, Voted(vote))

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended; False if `timeout` seconds were not enough."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        """Run the job in the thread."""
        loaded, slots = self._is_loaded, self._judge_slots
        while not loaded(self.job.judge) or not slots.acquire(timeout=POLL_SECONDS):
            if self._stop_deadline < math.inf:
                self._end(Finished(StopReason.CANCELLED))
                return
            time.sleep(POLL_SECONDS)
        try:
            with closing(self._run_job(self.job)) as events:
                for event in events:
                    if self._first is not None and not isinstance(event, Swapped):
                        event = Swapped(event)
                    if not self._add(event) or time.monotonic() > self._stop_deadline:
                        break
        except Exception as error:  # noqa: BLE001 - every run ends with a sentence
            fault, failed = type(error).__name__, StopReason.FAILED
            self._end(Finished(failed, error=describe(error), fault=fault, seconds=self.seconds))
        finally:
            self._judge_slots.release()
            self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))

    def _end(self, finished: Finished) -> None:
        """End the run, or its second one if the first has finished."""
        with self._lock:
            self._add(finished if self.state.finished is None else Swapped(finished))

    def _add(self, event: JudgeEvent) -> bool:
        """Fold an event into the state; False if the run was already over."""
        with self._lock:
            if self._over.is_set():
                return False
            self.pace = self.pace.after(event, self.seconds)
            last = event.event if isinstance(event, Swapped) else event
            if not isinstance(last, Finished):
                self.state = fold(self.state, event)
                return True
            self.state = fold(end_open_turn(self.state), event)
            if last is not event or not second_run_follows(self.job.settings, last):
                self._over.set()
            return True
