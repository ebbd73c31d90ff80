"""One run on the page: its events folded into a state, in a thread, or from a trace."""

import contextvars
import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast, get_args

from vrthinker_core.branch_plan import BranchPlan, frames_in_view
from vrthinker_core.errors import BadInput, describe
from vrthinker_core.protocols import PromptProtocol, make_protocol
from vrthinker_core.traces import with_shown_slots
from vrthinker_core.types import FrameRef, ProtocolName, Reply, Settings, VideoPair, Vote
from vrthinker_core.types.events import (
    Event,
    Finished,
    FramesShown,
    JudgeEvent,
    Opening,
    Pace,
    Run,
    Started,
    StopReason,
    Swapped,
    TextArrived,
    Trace,
    Turn,
    TurnEnded,
    Voted,
    second_run_follows,
)
from vrthinker_core.types.messages import Completion
from vrthinker_core.types.order import swap_end, swap_turn
from vrthinker_core.ui.queue import JudgeQueue


@dataclass(frozen=True, slots=True)
class RunState:
    """A run so far. A live run and a replayed trace take the same fold."""

    started: Started | None = None
    turns: tuple[Turn, ...] = ()
    finished: Finished | None = None
    swapped: "RunState | None" = None  # the second run, in its own sides, once it has begun
    opening: tuple[float, float] | None = None  # share of each video read, before it has started
    vote: Vote | None = None  # a person's, the last one
    writing: bool = False  # the last turn has not ended: its reply is not read yet

    @property
    def runs(self) -> "tuple[RunState, ...]":
        """The run, and the second one once it has begun."""
        return (self,) if self.swapped is None else (self, self.swapped)

    @property
    def protocol(self) -> PromptProtocol | None:
        """The run's protocol with its settings; None if not known."""
        started = self.started
        if started is not None and started.dialect in get_args(ProtocolName):
            with suppress(BadInput):
                return make_protocol(started.settings, cast(ProtocolName, started.dialect))
        return None

    @property
    def ended(self) -> tuple[Turn, ...]:
        """The turns that have ended."""
        return self.turns[:-1] if self.writing else self.turns

    @property
    def in_view(self) -> frozenset[FrameRef]:
        """The frames in view after the last turn, or sent since."""
        if not self.turns:
            return frozenset()
        last = self.turns[-1]
        return frozenset(last.in_view).union(frame.ref for frame in last.frames)

    @property
    def stays_in_view(self) -> set[FrameRef]:
        """The frames in view that stay when one more round of frames comes."""
        window = self.started.settings.window if self.started else None
        return frames_in_view(self.turns, window - 1 if isinstance(window, int) else window)

    def in_first_sides(self) -> "RunState":
        """Return a second run in the sides of the first."""
        started = self.started
        if started:
            started = replace(started, clips=(started.clips[1], started.clips[0]))
        turns, finished = tuple(map(swap_turn, self.turns)), swap_end(self.finished)
        return RunState(started, turns, finished, writing=self.writing)


def fold(state: RunState, event: Event) -> RunState:
    """Return the state after one more event."""
    match event:
        case Opening():
            return RunState(opening=event.shares)
        case Started():
            return RunState(event)
        case FramesShown():
            before = replace(state, turns=state.turns[:-1] if event.note else state.turns)
            in_view = tuple(sorted(before.in_view.union(frame.ref for frame in event.frames)))
            sent = event.turn, event.told, event.frames
            shown = Turn(*sent, Completion("", "cancelled"), Reply(""), event.forced, in_view)
            return replace(state, turns=(*before.turns, shown), writing=True)
        case TextArrived():
            *others, last = state.turns
            completion = replace(last.completion, text=last.completion.text + event.text)
            return replace(state, turns=(*others, replace(last, completion=completion)))
        case TurnEnded():
            return replace(state, turns=(*state.turns[:-1], event.turn), writing=False)
        case Finished():
            return replace(state, finished=event)
        case Swapped():
            return replace(state, swapped=fold(state.swapped or RunState(), event.event))
        case Voted():
            return replace(state, vote=event.vote)


def state_of(run: Run) -> RunState:
    """Return the state after the whole run."""
    second, vote = (run.swapped, run.vote) if isinstance(run, Trace) else (None, None)
    swapped = state_of(second) if second else None
    return RunState(run.started, run.turns, run.finished, swapped, vote=vote)


def _end_open_turn(state: RunState) -> RunState:
    """End an open turn as cancelled, and keep its text."""
    if state.swapped is not None:
        return replace(state, swapped=_end_open_turn(state.swapped))
    if (protocol := state.protocol) is None or not state.writing:
        return state
    text = state.turns[-1].completion.text
    completion = Completion(text, "cancelled", pieces=(len(text),))
    reply = protocol.parse(text, cut=True)
    return fold(state, TurnEnded(replace(state.turns[-1], completion=completion, reply=reply)))


def trace_of(state: RunState) -> Trace | None:
    """Return the run as a trace without open turns; None before it began."""
    if state.started is None:
        return None
    first, *second = (
        Run(each.started, each.ended, each.finished) for each in state.runs if each.started
    )
    swapped = second[0] if second else None
    trace = Trace(first.started, first.turns, first.finished, swapped=swapped, vote=state.vote)
    return with_shown_slots(trace)


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
VideosAtHand = tuple[Path | None, Path | None]  # the compared videos; None if one is not at hand


class Replay:
    """A saved run with the interface of `BackgroundRun`, over from the start."""

    over = begun = is_replay = True
    pace = Pace()  # of a run that is over
    judge = ""

    def __init__(self, trace: Trace, videos: VideosAtHand = (None, None)) -> None:
        self.state, self.videos = state_of(trace), videos
        self.prompt, self.settings = trace.started.prompt, trace.started.settings
        self.seconds = trace.finished.seconds if trace.finished else 0.0  # of the live run

    def request_stop(self) -> None:
        """Do nothing: nothing runs."""

    stop = request_stop

    def add_vote(self, vote: Vote) -> None:
        """Keep the visitor's vote with their own copy of the run."""
        self.state = fold(self.state, Voted(vote))

    def join(self, timeout: float) -> bool:  # noqa: ARG002 - as of a run that goes on
        """Return True at once: nothing runs."""
        return True


class BackgroundRun:
    """A job in a thread of its own, so that no page slows the judge."""

    is_replay = False

    def __init__(
        self, job: RunJob, run_job: JobRunner, queue: JudgeQueue, first: RunState | None = None
    ) -> None:
        """Prepare the run. `first`: the run whose order is checked; the job's is the second one."""
        self.job, self._is_check = job, first is not None
        self.state = replace(first, swapped=RunState()) if first else RunState()
        pair = job.pair.swapped() if first else job.pair  # in the order of the first run
        self.videos: VideosAtHand = Path(pair.first), Path(pair.second)
        self.prompt, self.settings, self.judge = pair.prompt, job.settings, job.judge
        self.begun = False  # it has left the queue
        self.pace = Pace()
        self._run_job, self._queue = run_job, queue
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
        self._queue.join(self, self.judge)
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
        self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))

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
        try:
            while not self._queue.take(self):
                if self._stop_deadline < math.inf:
                    return
                time.sleep(POLL_SECONDS)
            self._started_at = time.monotonic()
            self.begun = True
            with closing(self._run_job(self.job)) as events:
                for event in events:
                    if self._is_check and not isinstance(event, Swapped):
                        event = Swapped(event)
                    if not self._add(event) or time.monotonic() > self._stop_deadline:
                        break
        except Exception as error:  # noqa: BLE001 - every run ends with a sentence
            fault, failed = type(error).__name__, StopReason.FAILED
            self._end(Finished(failed, error=describe(error), fault=fault, seconds=self.seconds))
        finally:
            self._queue.leave(self)
            self._end(Finished(StopReason.CANCELLED, seconds=self.seconds))

    def _end(self, finished: Finished) -> None:
        """End the run, or its second one if the first has finished."""
        self._add(Swapped(finished) if self.state.finished else finished)

    def _add(self, event: JudgeEvent) -> bool:
        """Fold an event into the state; False if the run was already over."""
        last = event.event if isinstance(event, Swapped) else event
        with self._lock:
            if self._over.is_set():
                return False
            self.pace = self.pace.after(event, self.seconds)
            if isinstance(last, Finished):
                self.state = fold(_end_open_turn(self.state), event)
                if last is not event or not second_run_follows(self.settings, last):
                    self._over.set()
            else:
                self.state = fold(self.state, event)
        if isinstance(last, Started | TurnEnded | Finished):
            self._on_turn()
        return True
