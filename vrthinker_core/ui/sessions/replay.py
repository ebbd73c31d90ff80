"""A saved run in the place of a live one, and a live one as it is saved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vrthinker_core.types.events import Trace, Turn, TurnEnded
from vrthinker_core.types.messages import Completion
from vrthinker_core.ui.view.dialect_lookup import reply_reader
from vrthinker_core.ui.view.run_state import RunState, fold, fold_all, frames_in_view


class Replay:
    """A saved run: the same events through the same fold, and over before it begins."""

    over = True

    def __init__(self, trace: Trace) -> None:
        self.state = fold_all(trace.events())

    @property
    def seconds(self) -> float:
        """How long the run took when it was live; 0 when it never ended."""
        return self.state.finished.seconds if self.state.finished else 0.0

    def request_stop(self) -> None:
        """Nothing runs."""

    def stop(self) -> RunState:
        """What there is."""
        return self.state

    def join(self, timeout: float) -> bool:  # noqa: ARG002 - as a run has it
        """It has ended long ago."""
        return True


def trace_of(state: RunState) -> Trace | None:
    """The run as it is saved: its whole turns; None before it has begun."""
    if state.started is None:
        return None
    return Trace(state.started, tuple(shown.turn for shown in state.turns if shown.turn is not None), state.finished)


def end_open_turn(state: RunState) -> RunState:
    """The state with its last turn ended as far as it had come, so that a judge which hangs takes nothing along.

    A judge that stops by itself has ended the turn already; then nothing changes.
    """
    read = reply_reader(state.started)
    if read is None or not state.turns or state.turns[-1].turn is not None:
        return state
    last = state.turns[-1]
    completion = Completion(last.text, "cancelled", pieces=(len(last.text),))
    turn = Turn(last.number, last.told, last.frames, completion, read(last.text), last.forced, tuple(sorted(frames_in_view(state))))
    return fold(state, TurnEnded(turn))


def matching_videos(trace: Trace, at_hand: Iterable[Path]) -> tuple[Path | None, Path | None]:
    """The very files that were compared, as far as they are at hand: known by their content, never by a path from the trace."""
    known = {file_digest(path): path for path in at_hand if path.is_file()}
    first, second = (None if clip is None else known.get(clip.digest) for clip in trace.started.clips)
    return first, second


def file_digest(path: Path) -> str:
    """A file's content as a trace names it; "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
