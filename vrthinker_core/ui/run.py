"""One run on the page, which goes on in a thread or was saved."""

import contextvars
import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.errors import describe
from vrthinker_core.protocols.factory import protocol_of
from vrthinker_core.types import Settings, VideoPair, Vote
from vrthinker_core.types.events import (
    Finished,
    JudgeEvent,
    Opening,
    Pace,
    Run,
    Started,
    StopReason,
    Swapped,
    Trace,
    Turn,
    TurnEnded,
    Voted,
    add_event,
    second_run_follows,
)
from vrthinker_core.types.messages import Completion
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.visitors import UNKNOWN, Visitor


def cut_turn(run: Run, readable: str | None = None) -> Turn | None:
    """Return the turn that goes on, as if it were stopped now; None between two turns.

    Only the `readable` part of the reply, if given, is read.
    """
    protocol = protocol_of(run.started)
    if protocol is None or run.open is None or (shown := run.open.shown) is None:
        return None
    text = run.open.text
    completion = Completion(text, "cancelled", pieces=(len(text),))
    reply = protocol.parse(text if readable is None else readable, cut=True)
    sent = shown.turn, shown.told, shown.frames
    return Turn(*sent, completion, reply, shown.forced, shown.in_view, shown.note)


STOP_SECONDS = 0.4  # for a stopped judge to end by itself; then the run is over without it
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
FoundVideos = tuple[Path | None, Path | None]  # the compared videos; None if one is not at hand


class Replay:
    """A saved run with the interface of `BackgroundRun`, over from the start."""

    is_replay: Literal[True] = True
    over, begun, judge, changes = True, True, "", 0
    ended, is_check = None, False

    def __init__(self, trace: Trace, videos: FoundVideos = (None, None)) -> None:
        self.trace, self.videos = trace, videos
        self.prompt, self.settings = trace.started.prompt, trace.started.settings

    def request_stop(self) -> None:
        """Do nothing: nothing runs."""

    stop = request_stop

    def add_vote(self, vote: Vote) -> None:
        """Keep the visitor's vote with their own copy of the run."""
        self.trace = self.trace.with_event(Voted(vote))

    def join(self, timeout: float) -> bool:  # noqa: ARG002 - as of a run that goes on
        """Return True at once: nothing runs."""
        return True


class BackgroundRun:
    """A job in a thread of its own, so that no page slows the judge."""

    is_replay: Literal[False] = False

    def __init__(
        self,
        job: RunJob,
        run_job: JobRunner,
        queue: JudgeQueue,
        first: Trace | None = None,
        visitor: Visitor = UNKNOWN,
    ) -> None:
        """Prepare the run. `first`: the run whose order is checked; the job's is the second one."""
        self.job, self.is_check = job, first is not None
        self.trace = first and replace(first, swapped=None)
        # The share of each video that was read, before it starts
        self.opening: tuple[float, float] | None = None
        self.ended: Finished | None = None  # how it ended, if it never started
        self.changes = 0  # of what is above
        pair = job.pair.swapped() if first else job.pair  # in the order of the first run
        self.videos: FoundVideos = Path(pair.first), Path(pair.second)
        self.prompt, self.settings, self.judge = pair.prompt, job.settings, job.judge
        self.begun = False  # it has left the queue
        self.pace = Pace()
        self._run_job, self._queue, self._visitor = run_job, queue, visitor
        self._started_at = time.monotonic()
        self._lock = threading.RLock()
        self._stop_deadline = math.inf
        self._over = threading.Event()
        run = contextvars.copy_context().run  # ZeroGPU charges the visitor of this request
        self._thread = threading.Thread(target=run, args=(self._work,), name="run", daemon=True)

    def start(self, on_turn: Callable[[], object] = lambda: None) -> None:
        """Join the queue. Raises BadInput if too many runs wait.

        `on_turn` is called, without a lock, when the run begins and when a turn or the run ends.
        """
        self._queue.join(self, self.judge, self._visitor)
        with suppress(OSError):  # on a full disk the run goes on, and says that it has no trace
            self.job.trace.parent.mkdir(exist_ok=True)
        self._on_turn = on_turn
        self._thread.start()

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

    def stop(self) -> None:
        """Stop, and end the run after `STOP_SECONDS` at the latest."""
        self.request_stop()
        self._over.wait(STOP_SECONDS)
        self._end()

    def add_vote(self, vote: Vote) -> None:
        """Keep the visitor's vote, also while the run goes on."""
        with self._lock:
            self.trace = self.trace and self.trace.with_event(Voted(vote))
            self.changes += 1

    def join(self, timeout: float) -> bool:
        """Wait until the thread has ended; False if `timeout` seconds were not enough."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _work(self) -> None:
        """Run the job in the thread."""
        try:
            while not self._queue.take(self):
                if self._stop_deadline < math.inf:
                    return
                time.sleep(POLL_SECONDS)
            self._started_at = time.monotonic()
            self.begun = True
            with closing(self._run_job(self.job)) as events:
                for event in events:
                    if self.is_check and not isinstance(event, Swapped):
                        event = Swapped(event)
                    if not self._add(event) or time.monotonic() > self._stop_deadline:
                        break
        except Exception as error:  # noqa: BLE001 - every run ends with a sentence
            self._end(StopReason.FAILED, error=describe(error), fault=type(error).__name__)
        finally:
            self._queue.leave(self)
            self._end()

    def _end(
        self, stop: StopReason = StopReason.CANCELLED, error: str = "", fault: str = ""
    ) -> None:
        """End the run, or its second one if the first has finished."""
        finished = Finished(stop, error=error, fault=fault, seconds=self.seconds)
        second = self.trace is not None and self.trace.finished is not None
        self._add(Swapped(finished) if second else finished)

    def _add(self, event: JudgeEvent) -> bool:
        """Add an event to the trace; False if the run was already over."""
        second = isinstance(event, Swapped)
        last = event.event if isinstance(event, Swapped) else event
        with self._lock:
            if self.over:
                return False
            self.pace = self.pace.after(event, self.seconds)
            self.opening = last.shares if isinstance(last, Opening) else None
            self.changes += 1
            if isinstance(last, Finished):
                run = self.trace and (self.trace.swapped if second else self.trace)
                if run is None:
                    self.ended = last
                elif cut := cut_turn(run):
                    turn = TurnEnded(cut)
                    self.trace = add_event(self.trace, Swapped(turn) if second else turn)
            self.trace = add_event(self.trace, event)
            if isinstance(last, Finished) and (
                second or not second_run_follows(self.settings, last)
            ):
                self._over.set()
        if isinstance(last, Started | TurnEnded | Finished):
            self._on_turn()
        return True
