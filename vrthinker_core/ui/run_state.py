"""Events folded into a state. Pure: a live run and a replayed trace go through the same fold and look the same."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import Literal, TypedDict, cast, get_args

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import PromptProtocol, make_protocol
from vrthinker_core.types import FrameRef, ProtocolName, Reply, Side, Thumbnail, Vote
from vrthinker_core.types.events import (
    Event,
    Finished,
    FramesShown,
    Opening,
    Started,
    Swapped,
    TextArrived,
    Turn,
    TurnEnded,
    Voted,
)
from vrthinker_core.types.order import swap_end, swap_frames, swap_turn


class GridJson(TypedDict):
    """How a run counts frames: what the rail needs to place them."""

    slots: int  # of each video
    rule: Literal["floor", "even"]  # how the slots are spread over a clip, as in `Grid`
    first: list[int]  # the number of each video's first slot
    last: str  # the number of the second video's last slot


def reply_reader(started: Started | None) -> Callable[[str], Reply] | None:
    """A function that reads an unfinished reply of this run; None where its protocol is not known."""
    protocol = protocol_of(started)
    return None if protocol is None else lambda text: protocol.parse(text, cut=True)


def grid_json(started: Started) -> GridJson | None:
    """How the run counts frames; None where its protocol is not known."""
    protocol = protocol_of(started)
    if protocol is None:
        return None
    slots = protocol.grid.slots
    return {
        "slots": slots,
        "rule": protocol.grid.rule,
        "first": [int(protocol.frame_number(FrameRef(0, side))) for side in Side],
        "last": protocol.frame_number(FrameRef(slots - 1, Side.SECOND)),
    }


def protocol_of(started: Started | None) -> PromptProtocol | None:
    """The run's protocol as its settings want it; None where it is not known."""
    if started is None or started.dialect not in get_args(ProtocolName):
        return None
    try:
        return make_protocol(started.settings, cast(ProtocolName, started.dialect))
    except BadInput:
        return None


@dataclass(frozen=True, slots=True)
class TurnState:
    """A turn so far; `turn` is None until it has ended."""

    number: int
    told: str
    frames: tuple[Thumbnail, ...]
    forced: bool
    text: str = ""
    turn: Turn | None = None
    already_shown: tuple[
        int, ...
    ] = ()  # The frames asked for that it does not bring, for the judge sees them already


@dataclass(frozen=True, slots=True)
class RunState:
    """A run so far."""

    started: Started | None = None
    turns: tuple[TurnState, ...] = ()
    finished: Finished | None = None
    swapped: "RunState | None" = (
        None  # The second run, in its own sides; None before it begins, and where there is none
    )
    opening: tuple[float, float] | None = (
        None  # how much of each video has been read, before it has started
    )
    vote: Vote | None = None  # a person's, the last one

    @property
    def runs(self) -> "tuple[RunState, ...]":
        """The run, and the second one once it has begun."""
        return (self,) if self.swapped is None else (self, self.swapped)


def fold(state: RunState, event: Event) -> RunState:
    """The state after one more event."""
    match event:
        case Opening():
            return RunState(opening=event.shares)
        case Started():
            return RunState(event)
        case FramesShown():
            before = state.turns[:-1] if event.note else state.turns
            again = _already_shown(state.started, before, event)
            shown = TurnState(
                event.turn, event.told, event.frames, event.forced, already_shown=again
            )
            return replace(state, turns=(*before, shown))
        case TextArrived():
            return _with_last(state, lambda last: replace(last, text=last.text + event.text))
        case TurnEnded():
            return _with_last(
                state, lambda last: replace(last, text=event.turn.completion.text, turn=event.turn)
            )
        case Finished():
            return replace(state, finished=event)
        case Swapped():
            return replace(state, swapped=fold(state.swapped or RunState(), event.event))
        case Voted():
            return replace(state, vote=event.vote)


def fold_all(events: Iterable[Event]) -> RunState:
    """The state after a whole run."""
    return reduce(fold, join_text(events), RunState())


def join_text(events: Iterable[Event]) -> Iterator[Event]:
    """The same events with neighbouring pieces of one text joined: an uploaded trace may hold a million of them."""
    for (turn, swapped), group in groupby(events, key=_text_key):
        if turn is None:
            yield from group
        else:
            pieces = (event.event if isinstance(event, Swapped) else event for event in group)
            text = TextArrived(
                turn, "".join(piece.text for piece in pieces if isinstance(piece, TextArrived))
            )
            yield Swapped(text) if swapped else text


def _text_key(event: Event) -> tuple[int | None, bool]:
    """(turn, in the second run) of a piece of text; (None, …) for every other event."""
    inner = event.event if isinstance(event, Swapped) else event
    return inner.turn if isinstance(inner, TextArrived) else None, isinstance(event, Swapped)


def state_in_first_sides(state: RunState) -> RunState:
    """A second run so far with its clips, frames and labels in the sides of the first."""
    started = state.started and replace(
        state.started, clips=(state.started.clips[1], state.started.clips[0])
    )
    turns = tuple(
        replace(turn, frames=swap_frames(turn.frames), turn=turn.turn and swap_turn(turn.turn))
        for turn in state.turns
    )
    return RunState(started, turns, swap_end(state.finished))


def frames_in_view(state: RunState) -> frozenset[FrameRef]:
    """The frames that the judge can see now: those in view at the last turn that has ended, and those sent since."""
    in_view: set[FrameRef] = set()
    for turn_state in state.turns:
        if turn_state.turn is not None:
            in_view = set(turn_state.turn.in_view)
        in_view.update(frame.ref for frame in turn_state.frames)
    return frozenset(in_view)


def _already_shown(
    started: Started | None, before: tuple[TurnState, ...], shown: FramesShown
) -> tuple[int, ...]:
    """What was asked for and does not come, as the protocol counts."""
    last, branch = before[-1].turn if before else None, started.branch if started else None
    asked = (
        last.reply.wants.indices if last and last.reply.kind == "tool" and last.reply.wants else ()
    )
    if branch and branch.turn == shown.turn:
        asked = branch.frames or asked
    brought = {frame.number for frame in shown.frames}
    return tuple(index for index in asked if str(index) not in brought)


def _with_last(state: RunState, change: Callable[[TurnState], TurnState]) -> RunState:
    if not state.turns:
        return state
    return replace(state, turns=(*state.turns[:-1], change(state.turns[-1])))
