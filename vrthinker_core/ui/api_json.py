"""A run as API and MCP give it: plain JSON values, without pictures. Every item is the whole run so far, in one shape."""

from typing import TypedDict

from vrthinker_core.protocols.label_probabilities import label_probabilities
from vrthinker_core.types import Dimension, Thumbnail, Verdict, Vote
from vrthinker_core.types.order import check_order
from vrthinker_core.types.progress import Pace
from vrthinker_core.types.settings import SETTINGS
from vrthinker_core.types.wording import branch_name, order_unchecked
from vrthinker_core.ui import words
from vrthinker_core.ui.page_json import Probabilities, remarks, state_probabilities, status_line
from vrthinker_core.ui.run_state import RunState, TurnState, state_in_first_sides


class LabelsJson(TypedDict):
    """0 tie, 1 video 1, 2 video 2, None not said."""

    TA: int | None
    MQ: int | None
    VQ: int | None
    OA: int | None


class ProbabilitiesJson(TypedDict):
    """How likely the judge was to write each label: of 0, 1 and 2, adding up to at most 1; None where that is not known."""

    TA: list[float] | None
    MQ: list[float] | None
    VQ: list[float] | None
    OA: list[float] | None


class FrameJson(TypedDict):
    """A frame that the judge was shown, from `seconds` to before `until`."""

    video: int  # 1 or 2
    number: str  # what the judge calls it
    index: int  # of the frame in the file, counted from 0
    seconds: float
    until: float


class TurnJson(TypedDict):
    """One turn; what is read from the reply stays empty until `over`."""

    number: int
    frames: list[FrameJson]
    snapshot: str
    think: str
    requested: list[int]  # frame numbers that the reply asks for
    labels: LabelsJson | None
    probabilities: ProbabilitiesJson | None  # of these labels
    confidence: int | None
    remarks: list[str]  # repairs, refusals and cuts, one sentence each
    text: str  # the reply as it came, as far as it has come
    reasoning: str  # what a server told beside the reply; never sent back to the judge
    over: bool


class OrderLabelsJson(TypedDict):
    """What the order does to each label: "stable", "flips", "turns into a tie", …"""

    TA: str
    MQ: str
    VQ: str
    OA: str


class SecondRunJson(TypedDict):
    """The same pair judged with its sides swapped; labels and frames are given in the sides of the first run."""

    stop: str | None
    labels: LabelsJson | None
    probabilities: ProbabilitiesJson | None
    order: OrderLabelsJson | None  # None until both runs have a verdict
    unchecked: str  # why there is no `order`, once the second run is over; "" else
    turns: list[TurnJson]


class VoteJson(TypedDict):
    """What a person said of the pair."""

    at: str  # when, in ISO 8601
    labels: LabelsJson
    agrees: bool | None  # with the judge's verdict
    slots: list[int]  # of the pairs that decided it
    note: str
    blind: bool  # given before the verdict was seen


class RunJson(TypedDict):
    """A run so far."""

    status: str
    stop: str | None  # why the run ended, a `StopReason`; None while it is going on
    labels: LabelsJson | None
    probabilities: ProbabilitiesJson | None  # of these labels; None where none is known
    outside_scope: (
        bool  # the judge cannot judge such videos: no label of this run counts, and none is given
    )
    provisional: bool
    forced: bool
    error: str  # one sentence, "" where nothing failed
    notes: list[str]
    judge: str
    protocol: str
    prompt: str
    turns: list[TurnJson]
    branch: str  # where it leaves the run that it is a branch of, in words; "" for a run of its own
    swapped: SecondRunJson | None  # with the setting `swap`, once the first run has a verdict
    vote: VoteJson | None  # None where nobody has voted


class OfferedJudgeJson(TypedDict):
    """A judge that can be asked for by name."""

    name: str
    status: str
    error: str


class JudgeHealthJson(TypedDict):
    """Whether a judge is there, and which one."""

    status: str  # ready, loading or no judge
    judge: str
    protocol: str
    notes: list[str]
    error: str


class SettingJson(TypedDict):
    """A setting that a run can be given."""

    name: str
    label: str
    help: str
    range: str  # what it may be, in words
    default: str | int | float | None  # None is the protocol's own value


class HealthJson(JudgeHealthJson):
    """The state of the server; what `JudgeHealthJson` says is about the first judge."""

    judges: list[OfferedJudgeJson]
    judging: int  # runs that are being judged
    waiting: int  # runs that wait in the queue
    version: str  # of this package
    settings: list[SettingJson]


def run_json(state: RunState, seconds: float = 0.0, pace: Pace = Pace()) -> RunJson:
    """The run so far, `seconds` after it began."""
    finished, started = state.finished, state.started
    notes = [*started.notes, *words.clip_notes(started.clips)] if started else []
    notes += finished.notes if finished else ()
    return {
        "status": status_line(state, seconds, pace),
        "stop": str(finished.stop) if finished else None,
        "labels": _labels(finished.verdict) if finished and finished.verdict else None,
        "probabilities": _probabilities(state_probabilities(state)),
        "outside_scope": bool(finished and finished.outside_scope),
        "provisional": bool(finished and finished.provisional),
        "forced": bool(finished and finished.forced),
        "error": finished.error if finished else "",
        "notes": notes,
        "judge": started.judge if started else "",
        "protocol": started.dialect if started else "",
        "prompt": started.prompt if started else "",
        "turns": _turns(state),
        "branch": branch_name(started) if started else "",
        "swapped": _second_run(state, state.swapped) if state.swapped else None,
        "vote": _vote(state.vote) if state.vote else None,
    }


def _vote(vote: Vote) -> VoteJson:
    slots, at = list(vote.slots), vote.at.isoformat()
    return VoteJson(
        at=at,
        labels=_labels(vote.labels),
        agrees=vote.agrees,
        slots=slots,
        note=vote.note,
        blind=vote.blind,
    )


def _second_run(first: RunState, swapped: RunState) -> SecondRunJson:
    second, check = state_in_first_sides(swapped), check_order(first.finished, swapped.finished)
    end = second.finished
    return {
        "stop": str(end.stop) if end else None,
        "labels": _labels(end.verdict) if end and end.verdict else None,
        "probabilities": _probabilities(state_probabilities(second)),
        "order": OrderLabelsJson(**check.effects) if check else None,  # type: ignore[typeddict-item]
        "unchecked": order_unchecked(end) if end and check is None else "",
        "turns": _turns(second),
    }


def refused_json(sentence: str) -> RunJson:
    """A run that never began, because of what was asked for."""
    return {**run_json(RunState()), "status": words.READY, "stop": "failed", "error": sentence}


def settings_json() -> list[SettingJson]:
    """Every setting, in the order of the table."""
    return [
        SettingJson(
            name=row.name, label=row.label, help=row.help, range=row.range, default=row.default
        )
        for row in SETTINGS
    ]


def _labels(verdict: Verdict) -> LabelsJson:
    return {"TA": verdict.TA, "MQ": verdict.MQ, "VQ": verdict.VQ, "OA": verdict.OA}


def _probabilities(known: Probabilities) -> ProbabilitiesJson | None:
    if not known:
        return None
    of = {dimension: list(shares) for dimension, shares in known.items()}
    return {
        "TA": of.get(Dimension.TA),
        "MQ": of.get(Dimension.MQ),
        "VQ": of.get(Dimension.VQ),
        "OA": of.get(Dimension.OA),
    }


def _turns(state: RunState) -> list[TurnJson]:
    turns = [_turn(turn) for turn in state.turns]
    if state.finished is not None and state.finished.outside_scope:
        return [{**turn, "labels": None, "probabilities": None} for turn in turns]
    return turns


def _turn(turn_state: TurnState) -> TurnJson:
    turn = turn_state.turn
    reply = turn.reply if turn else None
    return {
        "number": turn_state.number,
        "frames": [_frame(frame) for frame in turn_state.frames],
        "snapshot": reply.snapshot if reply else "",
        "think": reply.think if reply else "",
        "requested": list(reply.wants.indices) if reply and reply.wants else [],
        "labels": _labels(reply.verdict) if reply and reply.verdict else None,
        "probabilities": _probabilities(label_probabilities(turn.completion, turn.reply.verdict))
        if turn
        else None,
        "confidence": reply.confidence if reply else None,
        "remarks": remarks(turn_state),
        "text": turn_state.text,
        "reasoning": turn.completion.reasoning if turn else "",
        "over": turn is not None,
    }


def _frame(frame: Thumbnail) -> FrameJson:
    return FrameJson(
        video=int(frame.ref.side),
        number=frame.number,
        index=frame.index,
        seconds=frame.seconds,
        until=frame.until,
    )
