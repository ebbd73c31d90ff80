"""A run as API and MCP give it: plain JSON values, without pictures, the whole run so far."""

from typing import TypedDict

from vrthinker_core.protocols.label_probabilities import label_probabilities
from vrthinker_core.types import Dimension, Reply, Verdict
from vrthinker_core.types.order import check_order
from vrthinker_core.types.progress import Pace
from vrthinker_core.types.settings import SETTINGS
from vrthinker_core.types.wording import branch_name, order_unchecked
from vrthinker_core.ui import words
from vrthinker_core.ui.page_json import Probabilities, remarks, state_probabilities, status_line
from vrthinker_core.ui.run_state import RunState, state_in_first_sides


class LabelsJson(TypedDict):
    """0 tie, 1 video 1, 2 video 2, None not said."""

    TA: int | None
    MQ: int | None
    VQ: int | None
    OA: int | None


class ProbabilitiesJson(TypedDict):
    """How likely the judge was to write 0, 1 and 2, adding up to at most 1; None if not known."""

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
    outside_scope: bool  # the judge cannot judge such videos: no label counts, and none is given
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
    """Return the run so far, `seconds` after it began."""
    finished, started, vote = state.finished, state.started, state.vote
    notes = [*started.notes, *words.clip_notes(started.clips)] if started else []
    notes += finished.notes if finished else ()
    voted: VoteJson | None = None
    if vote:
        voted = {
            "at": vote.at.isoformat(),
            "labels": _labels(vote.labels),
            "agrees": vote.agrees,
            "slots": list(vote.slots),
            "note": vote.note,
            "blind": vote.blind,
        }
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
        "vote": voted,
    }


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
    """Return a run that never began, because of what was asked for."""
    return {**run_json(RunState()), "status": words.READY, "stop": "failed", "error": sentence}


def settings_json() -> list[SettingJson]:
    """Return every setting, in the order of the table."""
    return [
        SettingJson(
            name=row.name, label=row.label, help=row.help, range=row.range, default=row.default
        )
        for row in SETTINGS
    ]


def _labels(verdict: Verdict) -> LabelsJson:
    return LabelsJson(TA=verdict.TA, MQ=verdict.MQ, VQ=verdict.VQ, OA=verdict.OA)


def _probabilities(known: Probabilities) -> ProbabilitiesJson | None:
    if not known:
        return None
    shares = {each: list(known[each]) if each in known else None for each in Dimension}
    return ProbabilitiesJson(
        TA=shares[Dimension.TA],
        MQ=shares[Dimension.MQ],
        VQ=shares[Dimension.VQ],
        OA=shares[Dimension.OA],
    )


def _turns(state: RunState) -> list[TurnJson]:
    turns: list[TurnJson] = []
    outside = state.finished is not None and state.finished.outside_scope
    for turn_state in state.turns:
        turn, labels, probabilities = turn_state.turn, None, None
        reply = turn.reply if turn else Reply("")
        if turn and not outside:
            labels = _labels(reply.verdict) if reply.verdict else None
            known = label_probabilities(turn.completion, reply.verdict)
            probabilities = _probabilities(known)
        frames = [
            FrameJson(
                video=int(frame.ref.side),
                number=frame.number,
                index=frame.index,
                seconds=frame.seconds,
                until=frame.until,
            )
            for frame in turn_state.frames
        ]
        turns.append(
            {
                "number": turn_state.number,
                "frames": frames,
                "snapshot": reply.snapshot,
                "think": reply.think,
                "requested": list(reply.wants.indices) if reply.wants else [],
                "labels": labels,
                "probabilities": probabilities,
                "confidence": reply.confidence,
                "remarks": remarks(turn_state),
                "text": turn_state.text,
                "reasoning": turn.completion.reasoning if turn else "",
                "over": turn is not None,
            }
        )
    return turns
