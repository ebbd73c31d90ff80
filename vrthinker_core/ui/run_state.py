"""Events folded into a state. Pure: a live run and a replayed trace take the same fold."""

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
    """Return a reader of unfinished replies; None without a known protocol."""
    protocol = protocol_of(started)
    return None if protocol is None else lambda text: protocol.parse(text, cut=True)


def grid_json(started: Started) -> GridJson | None:
    """Return how the run counts frames; None without a known protocol."""
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
    """Return the run's protocol with its settings; None if not known."""
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
    already_shown: tuple[int, ...] = ()  # asked for and not sent: the judge sees them already


@dataclass(frozen=True, slots=True)
class RunState:
    """A run so far."""

    started: Started | None = None
    turns: tuple[TurnState, ...] = ()
    finished: Finished | None = None
    swapped: "RunState | None" = None  # the second run, in its own sides, once it has begun
    opening: tuple[float, float] | None = None  # share of each video read, before it has started
    vote: Vote | None = None  # a person's, the last one

    @property
    def runs(self) -> "tuple[RunState, ...]":
        """The run, and the second one once it has begun."""
        return (self,) if self.swapped is None else (self, self.swapped)


def fold(state: RunState, event: Event) -> RunState:
    """Return the state after one more event."""
    match event:
        case Opening():
            return RunState(opening=event.shares)
        case Started():
            return RunState(event)
        case FramesShown():
            before = state.turns[:-1] if event.note else state.turns
            again = _already_shown(state.started, before, event)
            shown = TurnState(event.turn, event.told, event.frames, event.forced, "", None, again)
            return replace(state, turns=(*before, shown))
        case TextArrived() | TurnEnded():
            if not state.turns:
                return state
            *others, last = state.turns
            if isinstance(event, TextArrived):
                last = replace(last, text=last.text + event.text)
            else:
                last = replace(last, text=event.turn.completion.text, turn=event.turn)
            return replace(state, turns=(*others, last))
        case Finished():
            return replace(state, finished=event)
        case Swapped():
            return replace(state, swapped=fold(state.swapped or RunState(), event.event))
        case Voted():
            return replace(state, vote=event.vote)


def fold_all(events: Iterable[Event]) -> RunState:
    """Return the state after a whole run."""
    return reduce(fold, join_text(events), RunState())


def join_text(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the same events with neighbouring pieces of one text joined.

    An uploaded trace may hold a million of them.
    """

    def inner(event: Event) -> Event:
        return event.event if isinstance(event, Swapped) else event

    def text_key(event: Event) -> tuple[int | None, bool]:
        piece = inner(event)
        return piece.turn if isinstance(piece, TextArrived) else None, piece is not event

    for (turn, swapped), group in groupby(events, key=text_key):
        if turn is None:
            yield from group
        else:
            pieces = map(inner, group)
            joined = "".join(piece.text for piece in pieces if isinstance(piece, TextArrived))
            text = TextArrived(turn, joined)
            yield Swapped(text) if swapped else text


def state_in_first_sides(state: RunState) -> RunState:
    """Return a second run in the sides of the first."""
    started = state.started
    if started:
        started = replace(started, clips=(started.clips[1], started.clips[0]))
    turns = tuple(
        replace(turn, frames=swap_frames(turn.frames), turn=turn.turn and swap_turn(turn.turn))
        for turn in state.turns
    )
    return RunState(started, turns, swap_end(state.finished))


def frames_in_view(state: RunState) -> frozenset[FrameRef]:
    """Return the frames in view after the last turn, or sent since."""
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
    reply = last.reply if last and last.reply.kind == "tool" else None
    asked = reply.wants.indices if reply and reply.wants else ()
    if branch and branch.turn == shown.turn:
        asked = branch.frames or asked
    brought = {frame.number for frame in shown.frames}
    return tuple(index for index in asked if str(index) not in brought)
