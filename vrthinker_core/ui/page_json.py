"""A run as the page's scripts are given it: plain JSON values. Text stays text: nothing here is markup."""

from collections.abc import Callable, Mapping, Set
from datetime import UTC
from types import MappingProxyType
from typing import Generic, TypedDict, TypeVar

from vrthinker_core.protocols.frame_facts import read_frame_facts
from vrthinker_core.protocols.label_probabilities import label_probabilities, verdict_probabilities
from vrthinker_core.protocols.parser import find_sentence, frame_numbers
from vrthinker_core.types import (
    Dimension,
    FrameRef,
    Preference,
    Reply,
    Side,
    Thumbnail,
    Turn,
    Verdict,
)
from vrthinker_core.types.events import Finished, Started
from vrthinker_core.types.messages import LabelProbabilities
from vrthinker_core.types.order import OrderCheck, OrderEffect, order_of
from vrthinker_core.types.progress import Pace, duration, reading, totals, turn_figures
from vrthinker_core.types.wording import (
    BRANCH,
    DIMENSION_NAMES,
    NOT_SWAP_TESTED,
    TAKEN_OVER,
    branch_name,
    order_unchecked,
)
from vrthinker_core.ui import words
from vrthinker_core.ui.run_state import (
    GridJson,
    RunState,
    TurnState,
    frames_in_view,
    grid_json,
    state_in_first_sides,
)
from vrthinker_core.ui.tiles import ImageSources, Tile, TileJson, group_tiles
from vrthinker_core.ui.words import probability_words

Probabilities = Mapping[Dimension, LabelProbabilities]  # As far as they are known

MAX_FRAMES = 4  # that stand under a dimension


class ChipJson(TypedDict):
    """One dimension of a verdict."""

    name: str
    label: str
    value: (
        int | None
    )  # the label as a number; None where the judge did not say, or swapping the sides turned it round
    help: str
    reason: str  # the judge's own sentence about it, "" where there is none
    frames: list[str]  # labels of the tiles that decided it
    source: str  # where these frames are from, in words


class VerdictJson(TypedDict):
    """The verdict, in the order in which the page shows its dimensions; without one the headline says why, and chips is empty."""

    headline: str
    note: str  # that the order was not checked, "" else
    caveats: list[str]
    chips: list[ChipJson]


class LabelJson(TypedDict):
    """What a reply says about one dimension."""

    name: str
    label: str
    value: int | None
    probability: list[
        str
    ]  # of the label, as a percentage, and what that means; [] where it is not known or nearly certain


def verdict_json(state: RunState) -> VerdictJson | None:
    """The verdict of a run, or why it has none; None before it has ended."""
    finished = state.finished
    if finished is None:
        return None
    check = order_of(state.runs)
    line = words.headline(finished, check)
    if finished.verdict is None:
        return {"headline": line, "note": "", "caveats": [], "chips": []}
    known = state_probabilities(state)
    chips = [
        _chip(each, finished.verdict, check[each] if check else None, state, known)
        for each in words.DIMENSION_HELP
    ]
    note = "" if check else NOT_SWAP_TESTED
    return {
        "headline": line,
        "note": note,
        "caveats": words.verdict_caveats(finished),
        "chips": chips,
    }


def state_probabilities(state: RunState) -> Probabilities:
    """Of the labels of a run's verdict."""
    turns = [turn.turn for turn in state.turns if turn.turn]
    return verdict_probabilities(turns, state.finished.verdict if state.finished else None)


def _chip(
    dimension: Dimension,
    verdict: Verdict,
    effect: OrderEffect | None,
    state: RunState,
    known: Probabilities,
) -> ChipJson:
    label = dict(verdict)[dimension]
    meaning = probability_words(label, known.get(dimension))[1:]
    sentence, named = _reason(dimension, state)
    return {
        "name": DIMENSION_NAMES[dimension],
        "label": words.label_name(label, effect),
        "value": None if effect is OrderEffect.FLIPS else label,
        "help": " ".join([words.DIMENSION_HELP[dimension], words.LABEL_HELP[label], *meaning]),
        "reason": sentence,
        "frames": [tile.label for tile in named][:MAX_FRAMES],
        "source": words.NAMED_FRAMES if named else "",
    }


def _reason(dimension: Dimension, state: RunState) -> tuple[str, list[Tile]]:
    """The judge's own sentence about the dimension, and the tiles that it names."""
    sentence = find_sentence(
        dimension, (turn.turn.reply.think for turn in reversed(state.turns) if turn.turn)
    )
    tiles = [tile for turn in state.turns for tile in group_tiles(turn.frames)]
    shown = {half.number: tile for tile in tiles for half in tile.halves.values()}
    named = {
        shown[number].label: shown[number] for number in map(str, frame_numbers(sentence, shown))
    }
    return sentence, list(named.values())


def _last_tiles(state: RunState) -> list[Tile]:
    return [tile for turn in state.turns[-1:] for tile in group_tiles(turn.frames)]


def deciding_pair(state: RunState) -> dict[Side, Thumbnail]:
    """The frames that stand for a run: those that decided it overall, else in one dimension, else the last that were shown."""
    named = [tile for dimension in words.DIMENSION_HELP for tile in _reason(dimension, state)[1]]
    shown = (
        named
        or _last_tiles(state)
        or [tile for turn in state.turns for tile in group_tiles(turn.frames)]
    )
    best = next(
        (tile for tile in shown if len(tile.halves) == len(Side)), shown[0] if shown else None
    )
    return dict(best.halves) if best else {}


def labels_json(
    verdict: Verdict | None, known: Probabilities = MappingProxyType({})
) -> list[LabelJson]:
    """What an answer says about each dimension, in the order in which the page shows them; [] for none."""
    labels = dict(verdict or ())
    return [
        _label(dimension, labels[dimension], known)
        for dimension in words.DIMENSION_HELP
        if dimension in labels
    ]


def _label(dimension: Dimension, label: Preference | None, known: Probabilities) -> LabelJson:
    probability = probability_words(label, known.get(dimension))
    return LabelJson(
        name=DIMENSION_NAMES[dimension],
        label=words.label_name(label),
        value=label,
        probability=probability,
    )


class VoteRowJson(TypedDict):
    """The person's label for one dimension."""

    dimension: str
    name: str
    label: str
    value: int | None
    compared: (
        str  # whether the judge's label is the same, in a word; "" where one of them is missing
    )


class VoteViewJson(TypedDict):
    """The vote, in the order in which the page shows the dimensions."""

    rows: list[VoteRowJson]
    agrees: bool | None
    slots: list[int]
    note: str
    when: str
    blind: str  # that it was blind, "" else
    key: str  # changes with each vote


def vote_json(state: RunState) -> VoteViewJson | None:
    """The vote on a run; None where there is none."""
    vote = state.vote
    if vote is None:
        return None
    same = vote.compare(state.finished.verdict if state.finished else None)
    compared = {
        dimension: words.AGREES if equal else words.DIFFERS for dimension, equal in same.items()
    }
    labels = dict(vote.labels)
    rows = [
        VoteRowJson(
            dimension=each.value,
            name=DIMENSION_NAMES[each],
            label=words.label_name(labels[each]),
            value=labels[each],
            compared=compared.get(each, ""),
        )
        for each in words.DIMENSION_HELP
    ]
    return {
        "rows": rows,
        "agrees": vote.agrees,
        "slots": list(vote.slots),
        "note": vote.note,
        "when": vote.at.astimezone(UTC).strftime(words.VOTED_AT),
        "blind": words.BLIND if vote.blind else "",
        "key": repr(vote),
    }


TurnJsonType = TypeVar("TurnJsonType")


class OrderRowJson(TypedDict):
    """One dimension in both orders."""

    name: str
    first: LabelJson
    second: LabelJson
    effect: str  # an `OrderEffect`


class SwappedRunJson(TypedDict, Generic[TurnJsonType]):
    """What the page shows in place of the first run's turns: clips, frames and labels in the sides of the first."""

    notice: str  # that the judge's words keep the other sides
    grid: GridJson | None
    turns: list[TurnJsonType]


class OrderViewJson(TypedDict, Generic[TurnJsonType]):
    """The second run."""

    live: bool  # it goes on
    line: str  # what the order does to the overall label, or why it was not checked
    rows: list[
        OrderRowJson
    ]  # in the order in which the page shows the dimensions; [] without two verdicts
    caveats: list[str]  # why the second verdict is less than a free and complete final answer
    run: SwappedRunJson[TurnJsonType]


def order_json(
    state: RunState, turns: Callable[[RunState], list[TurnJsonType]]
) -> OrderViewJson[TurnJsonType] | None:
    """The second run of `state`; None where there is none. `turns` gives those of a run."""
    if state.swapped is None:
        return None
    second = state_in_first_sides(state.swapped)
    check = order_of(state.runs)
    live = second.finished is None
    line = (
        words.ORDER_LINES[check.overall]
        if check
        else words.CHECKING
        if live
        else order_unchecked(second.finished)
    )
    return {
        "live": live,
        "line": line,
        "rows": _rows(check) if check else [],
        "caveats": [
            words.IN_SWAPPED.format(text) for text in words.verdict_caveats(second.finished)
        ]
        if second.finished
        else [],
        "run": {"notice": words.SWAPPED_NOTICE, "grid": _grid(second), "turns": turns(second)},
    }


def _rows(check: OrderCheck) -> list[OrderRowJson]:
    effects = [check[dimension].value for dimension in words.DIMENSION_HELP]
    both = zip(labels_json(check.first), labels_json(check.second), effects, strict=True)
    return [
        OrderRowJson(name=first["name"], first=first, second=second, effect=effect)
        for first, second, effect in both
    ]


def _grid(second: RunState) -> GridJson | None:
    """How the second run counts frames, that of the person's first video before that of the second."""
    grid = grid_json(second.started) if second.started else None
    return None if grid is None else {**grid, "first": grid["first"][::-1]}


class FactsJson(TypedDict):
    """What the judge noted of each frame in fixed words, as a table."""

    columns: list[str]
    rows: list[list[str]]
    raw: str  # what its own text is called, which stands folded below the table


ReplyReader = Callable[[str], Reply]  # reads a reply that is still being written


class TurnViewJson(TypedDict):
    """One turn."""

    number: int
    state: str  # what came into view and what the reply did, in one line
    foot: str  # tokens and time; "" while the turn is going on
    confidence: list[
        str
    ]  # how sure the judge said it was, and what that means; [] where it did not say
    labels: list[
        LabelJson
    ]  # of the answer that the reply gives or recommends; [] where it gives none
    live: bool  # the judge is writing this turn now
    taken: bool  # it is the origin's: this run is a branch that begins later
    tiles: list[TileJson]
    parts: list[list[str]]  # [heading, text] of each part of the reply
    aside: list[
        str
    ]  # [heading, text, what it is] of what the judge thought beside its reply; [] where it told nothing
    facts: FactsJson | None  # the first part as a table, where it holds nothing else
    remarks: list[str]


class BallotJson(TypedDict):
    """How the visitor may vote."""

    hidden: bool  # what the judge says is hidden until they have
    own: bool  # the vote is theirs
    refusal: str  # why their vote could not be kept, "" else


class ViewJson(TypedDict, total=False):
    """A run. Before it has begun there are `turns` and `ending` alone."""

    run: str  # the session's name, by which the page asks for downloads; only on the live page
    over: bool  # nothing more will come; only on the live page
    address: str  # the name in `?trace=NAME` that leads to this run, "" where none does; only on the live page
    kept: str  # the name in `?run=NAME` by which its visitor opens it again, "" where it is not kept; only on the live page
    changed: str  # that the players hold other videos than were judged, in a sentence; only on the live page
    stills: list[
        int
    ]  # the sides of a saved run whose videos are not at hand; only on the live page
    prompt: str
    judge: str
    notes: list[str]
    health: list[str]  # notes on the two files
    fps: list[float]  # of each video; 0 where it is not known
    grid: GridJson | None
    verdict: VerdictJson | None
    order: (
        OrderViewJson[TurnViewJson] | None
    )  # the second run and what it says of the verdict; None where there is none
    no_check: str  # why its order can never be checked, "" where it can
    branches: object  # origin and branches side by side (`ui/branches/strip_json.py`), None without; only on the live page
    refusal: str  # why the order could not be checked; only on the live page, after a click
    vote: VoteViewJson | None  # a person's; None where there is none
    ballot: BallotJson  # only on the live page
    ending: str  # what a person must know about the end of the run; "" after an ordinary answer
    turns: list[TurnViewJson]


class TranscriptJson(TypedDict):
    """What was sent and what came back."""

    passages: list[list[str]]  # [heading, text] of each passage


def view_json(
    state: RunState, images: ImageSources, read_reply: ReplyReader | None = None
) -> ViewJson:
    """What the page shows of a run. Without `read_reply`, a reply that is still being written is shown raw."""
    started = state.started
    if started is None:
        return {
            "turns": [],
            "ending": words.end_notice(state.finished)
            if state.finished and state.finished.error
            else "",
        }
    return {
        "prompt": started.prompt,
        "judge": words.judge_line(started.judge),
        "notes": [
            *_branch_notes(started),
            *started.notes,
            *(state.finished.notes if state.finished else ()),
        ],
        "health": words.clip_notes(started.clips),
        "fps": [clip.fps if clip else 0 for clip in started.clips],
        "grid": grid_json(started),
        "verdict": verdict_json(state),
        "order": order_json(state, lambda second: _turns(second, images, read_reply)),
        "no_check": words.CHECK_BRANCH if started.is_taken_over(1) else "",
        "vote": vote_json(state),
        "ending": words.end_notice(state.finished) if state.finished else "",
        "turns": _turns(state, images, read_reply),
    }


def _branch_notes(started: Started) -> list[str]:
    return [BRANCH.format(name)] if (name := branch_name(started)) else []


def _turns(
    state: RunState, images: ImageSources, read_reply: ReplyReader | None
) -> list[TurnViewJson]:
    in_view = frames_in_view(state)
    views = [
        _turn(turn, state.finished is None, state.started, in_view, images, read_reply)
        for turn in state.turns
    ]
    if state.finished is not None and state.finished.outside_scope:
        views = [{**view, "labels": []} for view in views]
    return [
        _marked_taken(view)
        if state.started and state.started.is_taken_over(view["number"])
        else view
        for view in views
    ]


def _marked_taken(view: TurnViewJson) -> TurnViewJson:
    return {**view, "taken": True, "state": " · ".join(filter(None, [TAKEN_OVER, view["state"]]))}


def transcript_json(state: RunState) -> TranscriptJson:
    """The exact text that was sent and came back, passage by passage; a turn is added once it, or the run, has ended."""
    second = transcript_json(state.swapped)["passages"] if state.swapped else []
    return {
        "passages": [
            *_passages(state),
            *([words.IN_SWAPPED.format(heading), text] for heading, text in second),
        ]
    }


def _passages(state: RunState) -> list[list[str]]:
    passages = (
        [[words.SYSTEM, state.started.system]] if state.started and state.started.system else []
    )
    for turn in (turn for turn in state.turns if turn.turn or state.finished):
        passages.append([words.sent_heading(turn.number, len(turn.frames)), turn.told])
        if turn.turn and turn.turn.completion.reasoning:
            passages.append(
                [words.ASIDE_PASSAGE.format(turn.number), turn.turn.completion.reasoning]
            )
        if turn.text:
            passages.append([words.RECEIVED.format(turn.number), turn.text])
    return passages


def status_line(state: RunState, seconds: float, pace: Pace = Pace()) -> str:
    """The state of a run in one line, `seconds` after it began."""
    started, finished = state.started, state.finished
    if state.swapped is not None and state.swapped.finished is None:
        return words.IN_SWAPPED.format(status_line(state.swapped, seconds, pace))
    if finished is not None:
        return _ended(state, finished)
    if started is None or not state.turns:
        return (
            words.OPENING
            if state.opening is None
            else f"{reading(state.opening)} · {duration(seconds)}"
        )
    last, turns = state.turns[-1], started.settings.max_turns
    activity = words.running_status(last.number, turns, len(last.frames), bool(last.text))
    return f"{activity} · {words.pace_status(pace, seconds, turns)}"


def replay_status_line(state: RunState) -> str:
    """The same line for a saved run."""
    return f"{words.REPLAYING} {_ended(state, state.finished) if state.finished else words.NEVER_ENDED}"


def _ended(state: RunState, finished: Finished) -> str:
    """How the run ended, and what it took in all; where its order was checked, both runs together."""
    second = state.swapped or RunState()
    turns = [*state.turns, *second.turns]
    took = totals(turn.turn for turn in turns if turn.turn)
    return " · ".join(
        filter(None, [words.ended_status(finished, len(turns), second.finished), took])
    )


def _turn(
    turn_state: TurnState,
    running: bool,
    started: Started | None,
    in_view: Set[FrameRef],
    images: ImageSources,
    read_reply: ReplyReader | None,
) -> TurnViewJson:
    clips = started.clips if started else (None, None)
    tiles = group_tiles(turn_state.frames)
    pairs = sum(len(tile.halves) == 2 for tile in tiles)
    summary = (
        [words.frames_summary(pairs, len(tiles) - pairs)] if tiles or turn_state.number > 1 else []
    )
    turn = turn_state.turn
    reply = _reply(turn_state, read_reply)
    return {
        "number": turn_state.number,
        "state": " · ".join([*summary, words.turn_summary(turn)] if turn else summary),
        "foot": turn_figures(turn) if turn else "",
        "confidence": _confidence(turn, started),
        "labels": labels_json(
            turn.reply.verdict, label_probabilities(turn.completion, turn.reply.verdict)
        )
        if turn
        else [],
        "live": turn is None and running,
        "taken": False,
        "tiles": [tile.to_json(clips, in_view, images) for tile in tiles],
        "parts": _parts(turn_state, reply),
        "aside": _aside(turn),
        "facts": _facts(reply, [tile.label.removeprefix("#") for tile in tiles]),
        "remarks": remarks(turn_state),
    }


def _confidence(turn: Turn | None, started: Started | None) -> list[str]:
    """[how sure the judge said it was, what that means]; [] where it did not say."""
    if turn is None or turn.reply.confidence is None:
        return []
    scale = started is not None and started.dialect == "concat"
    line, meaning = (
        (words.CONFIDENCE, words.CONFIDENCE_HELP)
        if scale
        else (words.OWN_CONFIDENCE, words.OWN_CONFIDENCE_HELP)
    )
    return [line.format(turn.reply.confidence), meaning]


def remarks(turn_state: TurnState) -> list[str]:
    """Which frames were not sent again; then repairs, refusals and cuts of the reply, one sentence each."""
    again = ", ".join(map(str, turn_state.already_shown))
    told = [words.ALREADY_SHOWN.format(again)] if again else []
    return [*told, *(words.turn_remarks(turn_state.turn) if turn_state.turn else [])]


def _aside(turn: Turn | None) -> list[str]:
    if turn is None or not (reasoning := turn.completion.reasoning):
        return []
    return [words.aside_heading(len(reasoning)), reasoning, words.ASIDE_HELP]


def _reply(turn_state: TurnState, read_reply: ReplyReader | None) -> Reply:
    """The reply as far as it has come."""
    text = turn_state.text
    return (
        turn_state.turn.reply
        if turn_state.turn
        else read_reply(text)
        if read_reply and text
        else Reply(text)
    )


def _facts(reply: Reply, shown: list[str]) -> FactsJson | None:
    """None for a snapshot in other words, and for one that is still being written."""
    videos = read_frame_facts(reply.snapshot, shown) if reply.think else ()
    if not videos:
        return None
    cells = [
        {fact.frame: words.frame_fact(fact.picture, fact.motion) for fact in video.frames}
        for video in videos
    ]
    columns = [
        f"Video {int(video.side)}" + (f": {video.shows}" if video.shows else "") for video in videos
    ]
    rows = [
        [f"#{frame}", *(cell.get(frame, "") for cell in cells)]
        for frame in dict.fromkeys([*cells[0], *cells[1]])
    ]
    return {"columns": [words.FRAME, *columns], "rows": rows, "raw": words.TAB_TRANSCRIPT}


def _parts(turn_state: TurnState, reply: Reply) -> list[list[str]]:
    """[heading, text] of each part of the reply; the raw text where nothing in it could be read."""
    turn, text = turn_state.turn, turn_state.text
    indices = reply.wants.indices if turn and reply.wants else ()
    call = f"select_frames([{', '.join(map(str, indices))}])" if indices else ""
    read = [(words.SNAPSHOT, reply.snapshot), (words.THINK, reply.think), (words.TOOL_CALL, call)]
    parts = [[heading, passage] for heading, passage in read if passage]
    if text and (
        not parts or (turn is not None and turn.reply.kind == "invalid" and not turn.cut_short)
    ):
        parts.append([words.RAW if turn else words.WRITING, text])
    return parts
