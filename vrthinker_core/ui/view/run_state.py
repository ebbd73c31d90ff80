"""Events folded into a state. Pure: a live run and a replayed trace go through the same fold and look the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from vrthinker_core.types import FrameRef, Thumbnail
from vrthinker_core.types.events import Event, Finished, FramesShown, Started, TextArrived, Turn, TurnEnded


@dataclass(frozen=True, slots=True)
class TurnState:
    """A turn as far as it has come; `turn` is None until it has ended."""

    number: int
    told: str
    frames: tuple[Thumbnail, ...]
    forced: bool
    text: str = ""
    turn: Turn | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything that happened so far."""

    started: Started | None = None
    turns: tuple[TurnState, ...] = ()
    finished: Finished | None = None


def fold(state: RunState, event: Event) -> RunState:
    """The state after one more event."""
    match event:
        case Started():
            return RunState(event)
        case FramesShown():
            return replace(state, turns=(*state.turns, TurnState(event.turn, event.told, event.frames, event.forced)))
        case TextArrived():
            return _with_last(state, lambda last: replace(last, text=last.text + event.text))
        case TurnEnded():
            return _with_last(state, lambda last: replace(last, text=event.turn.completion.text, turn=event.turn))
        case Finished():
            return replace(state, finished=event)


def fold_all(events: Iterable[Event]) -> RunState:
    """The state after a whole run."""
    state = RunState()
    for event in join_text(events):
        state = fold(state, event)
    return state


def join_text(events: Iterable[Event]) -> Iterator[Event]:
    """The same events with neighbouring pieces of one text joined: a stranger's trace may hold a million of them."""
    for turn, group in groupby(events, key=lambda event: event.turn if isinstance(event, TextArrived) else None):
        if turn is None:
            yield from group
        else:
            yield TextArrived(turn, "".join(event.text for event in group if isinstance(event, TextArrived)))


def frames_in_view(state: RunState) -> frozenset[FrameRef]:
    """The frames that the judge sees now: those of the last reply that was read, and what has been sent since."""
    seen: set[FrameRef] = set()
    for shown in state.turns:
        if shown.turn is not None:
            seen = set(shown.turn.in_view)
        seen.update(frame.ref for frame in shown.frames)
    return frozenset(seen)


def _with_last(state: RunState, change: Callable[[TurnState], TurnState]) -> RunState:
    if not state.turns:
        return state
    return replace(state, turns=(*state.turns[:-1], change(state.turns[-1])))
