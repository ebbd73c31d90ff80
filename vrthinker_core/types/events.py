"""The typed events of a run; a replay yields all but `Opening`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from operator import or_
from typing import Annotated, Literal, Self

from annotated_types import Interval

from vrthinker_core.types.frames import ClipInfo, FrameRef, Side, Thumbnail
from vrthinker_core.types.messages import (
    CUT_PROBLEMS,
    Completion,
    Problem,
    Reply,
    Retrying,
    Verdict,
    Vote,
)
from vrthinker_core.types.settings import (
    MAX_TURNS,
    Amount,
    AtMost,
    Few,
    Natural,
    PerFrame,
    PerToken,
    Settings,
)


class StopReason(StrEnum):
    """The reason why a run ended; every trace ends with exactly one."""

    ANSWERED = "answered"
    NO_ANSWER = "no answer"
    TURN_LIMIT = "turn limit"
    TOKEN_LIMIT = "token limit"
    CONTEXT_FULL = "context full"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply of the judge, with the frames shown before it.

    Attributes:
        told: Text sent before this reply, without the system prompt.
        forced: The engine had asked for the answer.
        in_view: Every frame the judge could see for this reply.
        note: Why the judge was asked again.
        abandoned: Pieces of the first attempt's text; they count for nothing.
    """

    number: int
    told: str
    frames: PerFrame[Thumbnail]
    completion: Completion
    reply: Reply
    forced: bool = False
    in_view: Few[FrameRef] = ()
    note: str = ""
    abandoned: PerToken[str] = ()

    @property
    def cut_short(self) -> Literal["", "stopped", "broken off"]:
        """How an unusable reply was cut short; "" for every other reply.

        "stopped" means cancelled; "broken off" means that the judge failed.
        """
        if self.reply.kind != "invalid" or not self._was_cut:
            return ""
        return "stopped" if self.completion.stop == "cancelled" else "broken off"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the reply. A cut reply is not blamed for being incomplete."""
        excused = CUT_PROBLEMS if self._was_cut else ()
        return tuple(problem for problem in self.reply.problems if problem.kind not in excused)

    @property
    def _was_cut(self) -> bool:
        return self.completion.stop in ("cancelled", "failed")


@dataclass(frozen=True, slots=True)
class Opening:
    """The progress of a slow opening: the share of each video that was read. No trace keeps it."""

    shares: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Origin:
    """The facts of a branch's origin that show what differs."""

    prompt: str
    judge: str
    settings: Settings  # With every default filled in
    name: str = ""  # The origin's name, if it is itself a branch


@dataclass(frozen=True, slots=True)
class Branch:
    """The turn and the changes with which a run leaves its origin.

    `turn` is the branch's first own turn, from 1. It shows `frames`, if any, in place of the
    requested ones. `no_tool` asks for the answer there.
    """

    origin: Origin
    turn: Annotated[int, Interval(ge=1, le=MAX_TURNS + 1)]
    frames: PerFrame[Natural] = ()
    no_tool: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """The first stored event: the pair, the judge and the rules.

    `settings` have every default filled in, and `system` is the system prompt as sent. `rules` say
    how the card's open points were decided: grid rule, first frames, packing.
    """

    prompt: str
    judge: str
    dialect: str
    settings: Settings
    clips: tuple[ClipInfo | None, ClipInfo | None]
    system: str = ""
    rules: Few[str] = ()
    notes: Few[str] = ()
    branch: Branch | None = None

    def is_taken_over(self, turn: int) -> bool:
        """Return whether the turn of this number is the origin's."""
        return self.branch is not None and turn < self.branch.turn


@dataclass(frozen=True, slots=True)
class FramesShown:
    """Frames on their way to the judge. A `note` says why the turn begins anew."""

    turn: int
    told: str
    frames: PerFrame[Thumbnail]
    forced: bool = False
    note: str = ""
    # Every frame the judge can see for its reply. In a replay: for its last try
    in_view: Few[FrameRef] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Called:
    """The frames that a call asks for, in the protocol's numbers."""

    asked: PerFrame[Natural] = ()
    new: PerFrame[Natural] = ()  # Those that come: the judge will not see them otherwise

    @property
    def again(self) -> tuple[int, ...]:
        """Those that are in view already."""
        return tuple(index for index in self.asked if index not in self.new)


@dataclass(frozen=True, slots=True)
class TextArrived:
    """A piece of the reply; `called`, if known, is what its call brings so far."""

    turn: int
    text: str
    called: Called | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The end of a turn: the reply is complete and read."""

    turn: Turn
    called: Called | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn without an end, which only memory holds."""

    shown: FramesShown | None = None  # None while its frames are on their way
    text: str = ""  # The reply so far
    called: Called | None = None  # What the newest call brings: this turn's, or the last one's


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event: why the run ended, and the verdict if any.

    Attributes:
        verdict: Whole for `answered`; may be partial otherwise.
        provisional: The verdict is the last recommended one: no final answer came.
        forced: The engine had asked for the answer.
        outside_scope: The judge cannot judge such a pair: the labels in its turns are no verdict.
        error: Cause and what to do, for `failed` and `context full`.
        fault: Name of the error class in `errors.py`; "" if nothing failed.
        unreadable: Videos whose missing or unreadable file ended the run.
        scripted: A person wrote the replies as an example: the labels judge nothing.
    """

    stop: StopReason
    verdict: Verdict | None = None
    provisional: bool = False
    forced: bool = False
    outside_scope: bool = False
    error: str = ""
    fault: str = ""
    notes: Few[str] = ()
    seconds: Amount = 0.0
    unreadable: Few[Side] = ()
    scripted: bool = False


def second_run_follows(settings: Settings, finished: Finished) -> bool:
    """Return whether a run with swapped sides follows this end."""
    return settings.swap == "on" and finished.verdict is not None


RunEvent = Opening | Retrying | Started | FramesShown | TextArrived | TurnEnded | Finished


@dataclass(frozen=True, slots=True)
class Swapped:
    """An event of the second run, in the judge's sides: its video 1 is the pair's second video."""

    event: RunEvent


JudgeEvent = RunEvent | Swapped  # Every event that judging a pair yields


@dataclass(frozen=True, slots=True)
class Voted:
    """A person's vote in the first run's sides; the last vote counts."""

    vote: Vote


Event = JudgeEvent | Voted


def turn_events(turn: Turn) -> Iterator[RunEvent]:
    """Yield the events of a turn, as they came live.

    If the turn was asked more than twice, `FramesShown` comes only for the first and the last time.
    """
    shown = FramesShown(turn.number, turn.told, turn.frames, turn.forced, in_view=turn.in_view)
    yield shown
    if turn.note:
        yield from (TextArrived(turn.number, piece) for piece in turn.abandoned)
        yield replace(shown, note=turn.note)
    yield from (TextArrived(turn.number, piece) for piece in turn.completion.split())
    yield TurnEnded(turn)


@dataclass(frozen=True, slots=True)
class Run:
    """A run from its first event on; `finished` is None if the run goes on or was killed.

    Attributes:
        open: The turn that goes on, which is never stored.
    """

    started: Started
    turns: Annotated[tuple[Turn, ...], AtMost(MAX_TURNS)] = ()
    finished: Finished | None = None
    open: OpenTurn | None = None

    @property
    def labels(self) -> dict[str, int]:
        """The labels of the verdict, final or provisional: `{"TA": 1, "MQ": 0}`."""
        return self.finished.verdict.labels if self.finished and self.finished.verdict else {}

    @property
    def final_verdict(self) -> Verdict | None:
        """The final answer's verdict, whole or partial; never a recommended one."""
        return self.finished.verdict if self.finished and not self.finished.provisional else None

    @property
    def left_view(self) -> list[bool]:
        """For each turn, whether the judge no longer saw a frame that was shown by then."""
        shown = accumulate(({frame.ref for frame in turn.frames} for turn in self.turns), or_)
        both = zip(shown, self.turns, strict=True)
        return [not seen.issubset(turn.in_view) for seen, turn in both]

    @property
    def last_labels(self) -> Verdict | None:
        """The labels of the last reply with any, even without a verdict."""
        given = (turn.reply.verdict for turn in reversed(self.turns))
        return next((verdict for verdict in given if verdict is not None), None)

    @property
    def whole_answer(self) -> Verdict | None:
        """The verdict of a complete final answer that ended the run."""
        answered = self.finished is not None and self.finished.stop is StopReason.ANSWERED
        verdict = self.final_verdict
        return verdict if answered and verdict and verdict.whole else None

    def with_event(self, event: RunEvent) -> Self:
        """Return the run with one more event."""
        match event:
            case FramesShown():
                return replace(self, open=OpenTurn(event))
            case TextArrived() if self.open is not None:
                called = event.called or self.open.called
                return replace(
                    self, open=replace(self.open, text=self.open.text + event.text, called=called)
                )
            case TurnEnded():
                return replace(
                    self, turns=(*self.turns, event.turn), open=OpenTurn(called=event.called)
                )
            case Finished():
                return replace(self, finished=event, open=None)
        return self

    def run_events(self) -> Iterator[RunEvent]:
        """Yield the events of the run, as they came live."""
        yield self.started
        for turn in self.turns:
            yield from turn_events(turn)
        if self.finished is not None:
            yield self.finished


@dataclass(frozen=True, slots=True)
class Trace(Run):
    """A stored run, with the second run (`swapped`) if the order was checked, and a person's vote.

    Page, replay, table and report are views of it.
    """

    format: Literal["vr-thinker-trace/1"] = "vr-thinker-trace/1"
    swapped: Run | None = None
    vote: Vote | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The run and, if the order was checked, the second run."""
        return (self,) if self.swapped is None else (self, self.swapped)

    @property
    def over(self) -> bool:
        """Whether the run has ended, and the second one if it follows."""
        if self.finished is None or not second_run_follows(self.started.settings, self.finished):
            return self.finished is not None
        return self.swapped is not None and self.swapped.finished is not None

    def with_event(self, event: Event) -> "Trace":
        """Return the trace with one more event of either run, or vote."""
        if isinstance(event, Voted):
            return replace(self, vote=event.vote)
        if not isinstance(event, Swapped):
            return Run.with_event(self, event)
        if isinstance(event.event, Started):
            return replace(self, swapped=Run(event.event))
        swapped = self.swapped and self.swapped.with_event(event.event)
        return self if swapped is self.swapped else replace(self, swapped=swapped)

    def events(self) -> Iterator[Event]:
        """Yield the live events of both runs, then the vote."""
        yield from self.run_events()
        if self.swapped is not None:
            yield from map(Swapped, self.swapped.run_events())
        if self.vote is not None:
            yield Voted(self.vote)


def shown_slots(runs: Iterable[Run]) -> set[int]:
    """Return the slots of all frames shown in these runs. A vote may mark them."""
    shown = [turn.frames for run in runs for turn in run.turns]
    shown += [run.open.shown.frames for run in runs if run.open and run.open.shown]
    return {frame.ref.slot for frames in shown for frame in frames}


def add_event(trace: Trace | None, event: Event) -> Trace | None:
    """Return the trace after one more event; None before `Started`."""
    return Trace(event) if isinstance(event, Started) else trace and trace.with_event(event)


@dataclass(frozen=True, slots=True)
class Pace:
    """The times of a live run, in seconds since its beginning."""

    turns: tuple[float, ...] = ()  # Start of each turn
    taken: int = 0  # Turns taken over by a branch: too fast to predict later ones
    latest: float = 0.0  # When the judge was last heard, or sent something
    retrying: Retrying | None = None  # What came last, if a request is sent again

    def after(self, event: Event, seconds: float) -> "Pace":
        """Return the pace after an event; a second run has its own."""
        if isinstance(event, Swapped):
            return self.after(event.event, seconds)
        if isinstance(event, Started):
            return Pace(taken=event.branch.turn - 1 if event.branch else 0)
        if isinstance(event, FramesShown):
            turns = self.turns if event.note else (*self.turns, seconds)
            return Pace(turns, self.taken, seconds)
        if isinstance(event, Retrying):
            return replace(self, retrying=event)
        return replace(self, latest=seconds, retrying=None)

    def seconds_left(self, seconds: float, turns: int | None) -> float | None:
        """Estimate the seconds left if the run takes all its `turns`.

        Each turn is taken to last as long as the average of the turns that have ended. Returns None
        in the first turn, and if `turns` is None.
        """
        ended = len(self.turns) - 1 - self.taken
        if ended < 1 or turns is None:
            return None
        each = (self.turns[-1] - self.turns[self.taken]) / ended
        later = max(0, turns - len(self.turns))
        return each * later + max(0.0, each - (seconds - self.turns[-1]))
