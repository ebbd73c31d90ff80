"""Saved runs: a trace with the interface of a live run, a live run as a trace, and the videos of a trace."""

import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

from vrthinker_core.types import Vote
from vrthinker_core.types.events import Run, Trace, Turn, TurnEnded, Voted, shown_slots
from vrthinker_core.types.messages import Completion
from vrthinker_core.types.progress import Pace
from vrthinker_core.ui.run_state import RunState, fold, fold_all, frames_in_view, reply_reader
from vrthinker_core.video.files import file_digest


class Replay:
    """A saved run with the interface of `BackgroundRun`: over from the start, its events folded as those of a live run."""

    over = True
    pace = Pace()  # of a run that is over

    def __init__(self, trace: Trace) -> None:
        self.state = fold_all(trace.events())
        self.seconds = (
            trace.finished.seconds if trace.finished else 0.0
        )  # of the live run; 0 when it was cut off

    def request_stop(self) -> None:
        """Nothing to do: nothing runs."""

    def stop(self) -> RunState:
        """The whole run."""
        return self.state

    def add_vote(self, vote: Vote) -> None:
        """Keep the visitor's vote with their own copy of the run."""
        self.state = fold(self.state, Voted(vote))

    def join(self, timeout: float) -> bool:  # noqa: ARG002 - the interface of `BackgroundRun`
        """True at once: nothing runs."""
        return True


def trace_of(state: RunState) -> Trace | None:
    """The run as a trace, without turns that have not ended; None before the run has begun."""
    if state.started is None:
        return None
    trace = Trace(
        state.started,
        _ended_turns(state),
        state.finished,
        swapped=_run_of(state.swapped),
        vote=state.vote,
    )
    return _with_shown_slots(trace)


def merge_traces(latest: Trace, stored: Trace) -> Trace:
    """`latest` with what only `stored` has of the same first run: another page may have checked its order, or voted on it."""
    if latest.started != stored.started:
        return latest
    votes = sorted(
        (vote for vote in (stored.vote, latest.vote) if vote is not None), key=lambda vote: vote.at
    )
    checked = latest.swapped or (stored.swapped if latest.finished == stored.finished else None)
    return _with_shown_slots(replace(latest, swapped=checked, vote=votes[-1] if votes else None))


def _with_shown_slots(trace: Trace) -> Trace:
    """The trace, whose vote marks only frames that its turns show: that of a run that goes on may mark those of an open turn."""
    if trace.vote is None:
        return trace
    shown = shown_slots(trace.runs)
    return replace(
        trace,
        vote=replace(trace.vote, slots=tuple(slot for slot in trace.vote.slots if slot in shown)),
    )


def _run_of(state: RunState | None) -> Run | None:
    return (
        None
        if state is None or state.started is None
        else Run(state.started, _ended_turns(state), state.finished)
    )


def _ended_turns(state: RunState) -> tuple[Turn, ...]:
    return tuple(turn_state.turn for turn_state in state.turns if turn_state.turn is not None)


def end_open_turn(state: RunState) -> RunState:
    """The state with its open turn, where there is one, ended as a cancelled one: the text of a judge that hangs is kept."""
    if state.swapped is not None:
        return replace(state, swapped=end_open_turn(state.swapped))
    read_reply = reply_reader(state.started)
    if read_reply is None or not state.turns or state.turns[-1].turn is not None:
        return state
    last = state.turns[-1]
    completion = Completion(last.text, "cancelled", pieces=(len(last.text),))
    in_view = tuple(sorted(frames_in_view(state)))
    turn = Turn(
        last.number, last.told, last.frames, completion, read_reply(last.text), last.forced, in_view
    )
    return fold(state, TurnEnded(turn))


def matching_videos(trace: Trace, candidates: Iterable[Path]) -> tuple[Path | None, Path | None]:
    """The files that were compared, those among `candidates`: found by their digests, never by a path from the trace."""
    by_digest = {file_digest(path): path for path in candidates if path.is_file()}
    first, second = (
        None if clip is None else by_digest.get(clip.digest) for clip in trace.started.clips
    )
    return first, second


def memory_of(value: object) -> int:
    """Bytes of memory that a value of our types takes."""
    parts: tuple[object, ...] = value if isinstance(value, tuple) else ()
    if is_dataclass(value):
        parts = tuple(getattr(value, field.name) for field in fields(value))
    return sys.getsizeof(value) + sum(map(memory_of, parts))
