"""Saved runs as live ones, live runs as traces, videos of traces."""

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
    """A saved run with the interface of `BackgroundRun`, over from the start."""

    over = True
    pace = Pace()  # of a run that is over

    def __init__(self, trace: Trace) -> None:
        self.state = fold_all(trace.events())
        # Of the live run; 0 if it was cut off
        self.seconds = trace.finished.seconds if trace.finished else 0.0

    def request_stop(self) -> None:
        """Do nothing: nothing runs."""

    def stop(self) -> RunState:
        """Return the whole run."""
        return self.state

    def add_vote(self, vote: Vote) -> None:
        """Keep the visitor's vote with their own copy of the run."""
        self.state = fold(self.state, Voted(vote))

    def join(self, timeout: float) -> bool:  # noqa: ARG002 - the interface of `BackgroundRun`
        """Return True at once: nothing runs."""
        return True


def trace_of(state: RunState) -> Trace | None:
    """Return the run as a trace without open turns; None before it began."""
    first, second = _run_of(state), _run_of(state.swapped) if state.swapped else None
    if first is None:
        return None
    trace = Trace(first.started, first.turns, first.finished, swapped=second, vote=state.vote)
    return _with_shown_slots(trace)


def merge_traces(latest: Trace, stored: Trace) -> Trace:
    """Return `latest` with an order check or vote of `stored`."""
    if latest.started != stored.started:
        return latest
    votes = sorted(filter(None, (stored.vote, latest.vote)), key=lambda vote: vote.at)
    checked = latest.swapped or (stored.swapped if latest.finished == stored.finished else None)
    return _with_shown_slots(replace(latest, swapped=checked, vote=votes[-1] if votes else None))


def _with_shown_slots(trace: Trace) -> Trace:
    """Drop marks of the vote for frames that the trace lacks."""
    if trace.vote is None:
        return trace
    shown = shown_slots(trace.runs)
    slots = tuple(slot for slot in trace.vote.slots if slot in shown)
    return replace(trace, vote=replace(trace.vote, slots=slots))


def _run_of(state: RunState) -> Run | None:
    turns = tuple(each.turn for each in state.turns if each.turn is not None)
    return Run(state.started, turns, state.finished) if state.started else None


def end_open_turn(state: RunState) -> RunState:
    """End an open turn as cancelled, and keep its text."""
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
    """Find the compared files among `candidates` by their digests, never by a trace's path."""
    by_digest = {file_digest(path): path for path in candidates if path.is_file()}
    clips = trace.started.clips
    first, second = (None if clip is None else by_digest.get(clip.digest) for clip in clips)
    return first, second


def memory_of(value: object) -> int:
    """Return the bytes of memory that a value of our types takes."""
    parts: Iterable[object] = value if isinstance(value, tuple) else ()
    if is_dataclass(value):
        parts = (getattr(value, field.name) for field in fields(value))
    return sys.getsizeof(value) + sum(map(memory_of, parts))
