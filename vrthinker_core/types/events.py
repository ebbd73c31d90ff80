"""What happens in a run, as typed records. Live page and stored trace share all but `Opening`: a replay yields the same events."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Literal, Protocol, Self

from annotated_types import Interval

from vrthinker_core.types.bounds import MAX_TURNS, Amount, AtMost, Few, Natural, PerFrame, PerToken
from vrthinker_core.types.comparison import Side, Verdict, Vote
from vrthinker_core.types.frames import ClipInfo, FrameRef, Thumbnail
from vrthinker_core.types.messages import Completion
from vrthinker_core.types.replies import CUT_PROBLEMS, Problem, Reply
from vrthinker_core.types.settings import Settings


class StopReason(StrEnum):
    """Why a run ended: exactly one ends every trace."""

    ANSWERED = "answered"
    NO_ANSWER = "no answer"
    TURN_LIMIT = "turn limit"
    TOKEN_LIMIT = "token limit"
    CONTEXT_FULL = "context full"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the judge, with what it was shown before."""

    number: int  # 1-based
    told: str  # The text that was sent before this reply, without the system prompt
    frames: PerFrame[Thumbnail]  # The frames that were sent with it, in order
    completion: Completion
    reply: Reply
    forced: bool = False  # The engine had asked for the answer now
    in_view: Few[FrameRef] = ()  # Every frame the judge could see while it wrote this reply
    note: str = ""  # Why the judge was asked for this reply twice
    abandoned: PerToken[
        str
    ] = ()  # The pieces of text that came the first time; they count for nothing

    @property
    def cut_short(self) -> Literal["", "stopped", "broken off"]:
        """How a reply ended that was not the judge's to end, and that gives nothing to act on; "" for every other one."""
        if self.reply.kind != "invalid" or not self._was_cut:
            return ""
        return "stopped" if self.completion.stop == "cancelled" else "broken off"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the reply. One that was stopped, or broken off, is not blamed for being half a reply."""
        return tuple(
            problem
            for problem in self.reply.problems
            if not (self._was_cut and problem.kind in CUT_PROBLEMS)
        )

    @property
    def _was_cut(self) -> bool:
        return self.completion.stop in ("cancelled", "failed")


@dataclass(frozen=True, slots=True)
class Opening:
    """The videos are still being opened. Comes now and then before `Started`, where that takes long, and is kept in no trace."""

    shares: tuple[float, float]  # How much of each video has been read, 0 to 1


@dataclass(frozen=True, slots=True)
class Origin:
    """What a branch must say of the run that it comes from, to say what differs."""

    prompt: str
    judge: str
    settings: Settings  # With every default filled in
    name: str = ""  # Where that run is a branch itself, its name


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a run leaves its origin, and with what; prompt, judge and settings of its own stand in its `Started`."""

    origin: Origin
    turn: Annotated[int, Interval(ge=1, le=MAX_TURNS + 1)]
    """The first that was generated anew, 1-based; those before it are the origin's, taken over as they were."""
    frames: PerFrame[
        Natural
    ] = ()  # Shown in that turn instead of those that the turn before asked for, as the protocol counts
    no_tool: bool = False  # The answer is asked for in that turn


@dataclass(frozen=True, slots=True)
class Started:
    """First event that is kept: what is compared, by whom, under which rules."""

    prompt: str
    judge: str
    dialect: str
    settings: Settings  # With every default filled in
    clips: tuple[ClipInfo | None, ClipInfo | None]
    system: str = ""  # The system prompt as sent
    rules: Few[
        str
    ] = ()  # Which of the card's open points was decided how: grid rule, first frames, packing
    notes: Few[str] = ()
    branch: Branch | None = None  # Where this run leaves its origin; None for one that has none

    def is_taken_over(self, turn: int) -> bool:
        """Whether the turn of that number is the origin's."""
        return self.branch is not None and turn < self.branch.turn


@dataclass(frozen=True, slots=True)
class FramesShown:
    """Frames are on their way to the judge; they come before any text about them."""

    turn: int
    told: str
    frames: tuple[Thumbnail, ...]
    forced: bool = False
    note: str = ""  # Why this turn begins anew: the text that came of it so far counts for nothing


@dataclass(frozen=True, slots=True)
class TextArrived:
    """A piece of the reply."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The reply is complete and read."""

    turn: Turn


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event: why the run ended, and the verdict if there is one."""

    stop: StopReason
    verdict: Verdict | None = None  # Whole for `answered`; may be partial otherwise
    provisional: bool = False  # No final answer came: this is the last recommended one
    forced: bool = False  # The answer came because the engine asked for it now
    outside_scope: bool = False  # The judge cannot judge such videos: its labels stay in the turns and make no verdict
    error: str = ""  # What went wrong and what to do, for `failed` and `context full`
    fault: str = ""  # Name of the error in `errors.py`, "" when nothing failed
    notes: Few[str] = ()
    seconds: Amount = 0.0
    unreadable: Few[
        Side
    ] = ()  # Videos that are missing or cannot be decoded, if that ended the run


def second_run_follows(settings: Settings, finished: Finished) -> bool:
    """Whether the pair is judged again with its sides swapped after this end of its first run."""
    return settings.swap == "on" and finished.verdict is not None


RunEvent = Opening | Started | FramesShown | TextArrived | TurnEnded | Finished


@dataclass(frozen=True, slots=True)
class Swapped:
    """An event of the second run, in which the pair is judged with its sides swapped; it comes after the first has finished."""

    event: RunEvent  # As the judge had it: its video 1 is the pair's second video


JudgeEvent = RunEvent | Swapped  # All that judging a pair yields


@dataclass(frozen=True, slots=True)
class Voted:
    """A person has voted on the pair, in the sides of the first run; of several votes the last one counts."""

    vote: Vote


Event = JudgeEvent | Voted


def turn_events(turn: Turn) -> Iterator[RunEvent]:
    """The very events of a turn, in order; where it was asked more than twice, `FramesShown` comes for its first and last time."""
    shown = FramesShown(turn.number, turn.told, turn.frames, turn.forced)
    yield shown
    if turn.note:
        yield from (TextArrived(turn.number, piece) for piece in turn.abandoned)
        yield replace(shown, note=turn.note)
    yield from (TextArrived(turn.number, piece) for piece in turn.completion.split())
    yield TurnEnded(turn)


@dataclass(frozen=True, slots=True)
class Run:
    """One run from its first event to its last."""

    started: Started
    turns: Annotated[tuple[Turn, ...], AtMost(MAX_TURNS)] = ()
    finished: Finished | None = (
        None  # None when the run was killed before it could say how it ended
    )

    @property
    def final_verdict(self) -> Verdict | None:
        """The verdict of its final answer, whole or not; None where there is none, or only a recommended one."""
        return self.finished.verdict if self.finished and not self.finished.provisional else None

    @property
    def last_labels(self) -> Verdict | None:
        """The labels of the last reply that gives any, also if they make no verdict."""
        given = (turn.reply.verdict for turn in reversed(self.turns))
        return next((verdict for verdict in given if verdict is not None), None)

    @property
    def whole_answer(self) -> Verdict | None:
        """The verdict of its final answer where that ended it and no label is missing."""
        answered = self.finished is not None and self.finished.stop is StopReason.ANSWERED
        return (
            self.final_verdict
            if answered and self.final_verdict and self.final_verdict.whole
            else None
        )

    def with_event(self, event: RunEvent) -> Self:
        """The run after one more event; the very same after one that is not kept by itself."""
        if isinstance(event, TurnEnded):
            return replace(self, turns=(*self.turns, event.turn))
        return replace(self, finished=event) if isinstance(event, Finished) else self

    def run_events(self) -> Iterator[RunEvent]:
        """The very events of the live run, in order."""
        yield self.started
        for turn in self.turns:
            yield from turn_events(turn)
        if self.finished is not None:
            yield self.finished


@dataclass(frozen=True, slots=True)
class Trace(Run):
    """A run as it is kept: the truth of which page, replay, table and report are views."""

    format: Literal["vr-thinker-trace/1"] = "vr-thinker-trace/1"
    swapped: Run | None = None  # The second run, where the order was checked
    vote: Vote | None = None  # A person's, where one was given

    @property
    def runs(self) -> tuple[Run, ...]:
        """The run, and the second one where the order was checked."""
        return (self,) if self.swapped is None else (self, self.swapped)

    def with_event(self, event: Event) -> "Trace":
        """The same for both runs and the vote."""
        if isinstance(event, Voted):
            return replace(self, vote=event.vote)
        if not isinstance(event, Swapped):
            return Run.with_event(self, event)
        if isinstance(event.event, Started):
            return replace(self, swapped=Run(event.event))
        swapped = self.swapped and self.swapped.with_event(event.event)
        return self if swapped is self.swapped else replace(self, swapped=swapped)

    def events(self) -> Iterator[Event]:
        """The very events of the live run, in order; after them those of the second run, then the vote."""
        yield from self.run_events()
        if self.swapped is not None:
            yield from map(Swapped, self.swapped.run_events())
        if self.vote is not None:
            yield Voted(self.vote)


class _ShownTurn(Protocol):
    @property
    def frames(self) -> tuple[Thumbnail, ...]: ...


class _ShownRun(Protocol):
    @property
    def turns(self) -> Sequence[_ShownTurn]: ...


def shown_slots(runs: Iterable[_ShownRun]) -> set[int]:
    """The slots of all frames that the turns of these runs show, ended or not: what a vote on them may mark."""
    return {frame.ref.slot for run in runs for turn in run.turns for frame in turn.frames}


def add_event(trace: Trace | None, event: Event) -> Trace | None:
    """The trace after one more event of a run; None before the run has started."""
    return Trace(event) if isinstance(event, Started) else trace and trace.with_event(event)
