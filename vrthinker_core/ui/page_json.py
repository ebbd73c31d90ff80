"""A run as plain JSON values for the page's scripts. Text stays text: nothing here is markup."""

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import TypedDict

from vrthinker_core.protocols.frame_facts import read_frame_facts
from vrthinker_core.protocols.label_probabilities import label_probabilities, verdict_probabilities
from vrthinker_core.protocols.parser import find_sentence, frame_numbers
from vrthinker_core.types import Dimension, Reply, Side, Thumbnail, Verdict
from vrthinker_core.types.events import Finished
from vrthinker_core.types.messages import LabelProbabilities
from vrthinker_core.types.order import OrderEffect, order_of
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

Probabilities = Mapping[Dimension, LabelProbabilities]  # As far as they are known
ReplyReader = Callable[[str], Reply]  # reads a reply that is still being written

MAX_FRAMES = 4  # that stand under a dimension


class DimensionJson(TypedDict):
    """One dimension's label."""

    name: str
    label: str
    value: int | None  # the label as a number; None if not said, or if swapping the sides flips it


class ChipJson(DimensionJson):
    """One dimension of a verdict."""

    help: str
    reason: str  # the judge's own sentence about it, "" if there is none
    frames: list[str]  # labels of the tiles that decided it
    source: str  # where these frames are from, in words


class VerdictJson(TypedDict):
    """A verdict; without one the headline says why, and chips is empty."""

    headline: str
    note: str  # that the order was not checked, "" else
    caveats: list[str]
    chips: list[ChipJson]


class LabelJson(DimensionJson):
    """What a reply says about one dimension."""

    probability: list[str]  # [percentage, meaning]; [] if it is not known or nearly certain


class VoteRowJson(DimensionJson):
    """The person's label for one dimension."""

    dimension: str
    compared: str  # whether the judge's label is the same, in a word; "" if one is missing


class VoteViewJson(TypedDict):
    """The vote, in the order in which the page shows the dimensions."""

    rows: list[VoteRowJson]
    agrees: bool | None
    slots: list[int]
    note: str
    when: str
    blind: str  # that it was blind, "" else
    key: str  # changes with each vote


class FactsJson(TypedDict):
    """What the judge noted of each frame, as a table."""

    columns: list[str]
    rows: list[list[str]]
    raw: str  # what its own text is called, which stands folded below the table


class TurnViewJson(TypedDict):
    """One turn."""

    number: int
    state: str  # what came into view and what the reply did, in one line
    foot: str  # tokens and time; "" while the turn is going on
    confidence: list[str]  # [how sure the judge said it was, what that means]; [] if not said
    labels: list[LabelJson]  # of the answer that the reply gives or recommends
    live: bool  # the judge is writing this turn now
    taken: bool  # it is the origin's: this run is a branch that begins later
    tiles: list[TileJson]
    parts: list[list[str]]  # [heading, text] of each part of the reply
    aside: list[str]  # [heading, text, what it is] of thoughts beside the reply; [] without
    facts: FactsJson | None  # the first part as a table, if it holds nothing else
    remarks: list[str]


class OrderRowJson(TypedDict):
    """One dimension in both orders."""

    name: str
    first: LabelJson
    second: LabelJson
    effect: str  # an `OrderEffect`


class SwappedRunJson(TypedDict):
    """The second run: clips, frames and labels in the first's sides."""

    notice: str  # that the judge's words keep the other sides
    grid: GridJson | None
    turns: list[TurnViewJson]


class OrderViewJson(TypedDict):
    """The second run."""

    live: bool  # it goes on
    line: str  # what the order does to the overall label, or why it was not checked
    rows: list[OrderRowJson]  # in the page's order; [] without two verdicts
    caveats: list[str]  # why the second verdict is less than a free and complete final answer
    run: SwappedRunJson


class BallotJson(TypedDict):
    """How the visitor may vote."""

    hidden: bool  # what the judge says is hidden until they have
    own: bool  # the vote is theirs
    refusal: str  # why their vote could not be kept, "" else


class ViewJson(TypedDict, total=False):
    """A run; before it begins only `turns` and `ending`. (live): not in reports."""

    run: str  # (live) the session's name, by which the page asks for downloads
    over: bool  # (live) nothing more will come
    address: str  # (live) the name in `?trace=NAME` that leads to this run, "" if none does
    kept: str  # (live) the name in `?run=NAME` for its visitor, "" if it is not kept
    changed: str  # (live) that the players hold other videos than were judged, in a sentence
    stills: list[int]  # (live) the sides of a saved run whose videos are not at hand
    prompt: str
    judge: str
    notes: list[str]
    health: list[str]  # notes on the two files
    fps: list[float]  # of each video; 0 if it is not known
    grid: GridJson | None
    verdict: VerdictJson | None
    order: OrderViewJson | None  # the second run and what it says of the verdict
    no_check: str  # why its order can never be checked, "" if it can
    branches: object  # (live) origin and branches, a `StripJson`; None without
    refusal: str  # (live) why the order could not be checked, after a click
    vote: VoteViewJson | None  # a person's
    ballot: BallotJson  # (live)
    ending: str  # what a person must know about the end of the run; "" after an ordinary answer
    turns: list[TurnViewJson]


class TranscriptJson(TypedDict):
    """What was sent and what came back."""

    passages: list[list[str]]  # [heading, text] of each passage


def view_json(
    state: RunState, images: ImageSources, read_reply: ReplyReader | None = None
) -> ViewJson:
    """Return the page's view; without `read_reply`, an unfinished reply stays raw."""
    started, finished = state.started, state.finished
    ending = words.end_notice(finished) if finished else ""
    if started is None:
        return {"turns": [], "ending": ending if finished and finished.error else ""}
    name = branch_name(started)
    return {
        "prompt": started.prompt,
        "judge": words.judge_line(started.judge),
        "notes": [
            *([BRANCH.format(name)] if name else []),
            *started.notes,
            *(finished.notes if finished else ()),
        ],
        "health": words.clip_notes(started.clips),
        "fps": [clip.fps if clip else 0 for clip in started.clips],
        "grid": grid_json(started),
        "verdict": verdict_json(state),
        "order": order_json(state, images, read_reply),
        "no_check": words.CHECK_BRANCH if started.is_taken_over(1) else "",
        "vote": vote_json(state),
        "ending": ending,
        "turns": _turns(state, images, read_reply),
    }


def verdict_json(state: RunState) -> VerdictJson | None:
    """Return the verdict, or why there is none; None before the end."""
    finished = state.finished
    if finished is None:
        return None
    check = order_of(state.runs)
    line = words.headline(finished, check)
    if finished.verdict is None:
        return {"headline": line, "note": "", "caveats": [], "chips": []}
    known, labels = state_probabilities(state), dict(finished.verdict)
    chips: list[ChipJson] = []
    for dimension, meaning in words.DIMENSION_HELP.items():
        label, effect = labels[dimension], check[dimension] if check else None
        likely = words.probability_words(label, known.get(dimension))[1:]
        sentence, named = _reason(dimension, state)
        chips.append(
            {
                "name": DIMENSION_NAMES[dimension],
                "label": words.label_name(label, effect),
                "value": None if effect is OrderEffect.FLIPS else label,
                "help": " ".join([meaning, words.LABEL_HELP[label], *likely]),
                "reason": sentence,
                "frames": [tile.label for tile in named[:MAX_FRAMES]],
                "source": words.NAMED_FRAMES if named else "",
            }
        )
    note, caveats = "" if check else NOT_SWAP_TESTED, words.verdict_caveats(finished)
    return {"headline": line, "note": note, "caveats": caveats, "chips": chips}


def state_probabilities(state: RunState) -> Probabilities:
    """Return the probabilities of the labels of a run's verdict."""
    turns = [turn.turn for turn in state.turns if turn.turn]
    return verdict_probabilities(turns, state.finished.verdict if state.finished else None)


def _reason(dimension: Dimension, state: RunState) -> tuple[str, list[Tile]]:
    """The judge's sentence about the dimension, and the tiles it names."""
    thoughts = (turn.turn.reply.think for turn in reversed(state.turns) if turn.turn)
    sentence = find_sentence(dimension, thoughts)
    tiles = [tile for turn in state.turns for tile in group_tiles(turn.frames)]
    shown = {half.number: tile for tile in tiles for half in tile.halves.values()}
    named = [shown[str(number)] for number in frame_numbers(sentence, shown)]
    return sentence, list({tile.label: tile for tile in named}.values())


def deciding_pair(state: RunState) -> dict[Side, Thumbnail]:
    """Return the frames that stand for a run.

    Those that decided it overall, else in one dimension, else the last that were shown.
    """
    turns = [group_tiles(turn.frames) for turn in state.turns]
    named = [tile for dimension in words.DIMENSION_HELP for tile in _reason(dimension, state)[1]]
    shown = named or (turns and turns[-1]) or [tile for tiles in turns for tile in tiles]
    best = max(shown, key=lambda tile: len(tile.halves), default=None)
    return dict(best.halves) if best else {}


def labels_json(verdict: Verdict | None, known: Probabilities | None = None) -> list[LabelJson]:
    """Return an answer's labels, in the page's order; [] for none."""
    labels = dict(verdict or ())
    return [
        LabelJson(
            name=DIMENSION_NAMES[each],
            label=words.label_name(labels[each]),
            value=labels[each],
            probability=words.probability_words(labels[each], (known or {}).get(each)),
        )
        for each in words.DIMENSION_HELP
        if each in labels
    ]


def vote_json(state: RunState) -> VoteViewJson | None:
    """Return the vote on a run; None if there is none."""
    vote = state.vote
    if vote is None:
        return None
    same = vote.compare(state.finished.verdict if state.finished else None)
    said, labels = {True: words.AGREES, False: words.DIFFERS}, dict(vote.labels)
    rows = [
        VoteRowJson(
            dimension=each.value,
            name=DIMENSION_NAMES[each],
            label=words.label_name(labels[each]),
            value=labels[each],
            compared=said[same[each]] if each in same else "",
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


def order_json(
    state: RunState, images: ImageSources, read_reply: ReplyReader | None
) -> OrderViewJson | None:
    """Return the second run of `state`; None if there is none."""
    if state.swapped is None:
        return None
    second, check = state_in_first_sides(state.swapped), order_of(state.runs)
    finished, rows = second.finished, list[OrderRowJson]()
    if check:
        line = words.ORDER_LINES[check.overall]
        both = zip(labels_json(check.first), labels_json(check.second), strict=True)
        effects = [check[dimension].value for dimension in words.DIMENSION_HELP]
        rows = [
            OrderRowJson(name=first["name"], first=first, second=other, effect=effect)
            for (first, other), effect in zip(both, effects, strict=True)
        ]
    else:
        line = order_unchecked(finished) if finished else words.CHECKING
    caveats = words.verdict_caveats(finished) if finished else []
    grid = grid_json(second.started) if second.started else None
    if grid:  # the numbers of the person's first video before those of the second
        grid = {**grid, "first": grid["first"][::-1]}
    turns = _turns(second, images, read_reply)
    return {
        "live": finished is None,
        "line": line,
        "rows": rows,
        "caveats": [words.IN_SWAPPED.format(text) for text in caveats],
        "run": {"notice": words.SWAPPED_NOTICE, "grid": grid, "turns": turns},
    }


def transcript_json(state: RunState) -> TranscriptJson:
    """Return the exact text that was sent and came back, passage by passage.

    A turn is added once it, or the run, has ended.
    """
    system = state.started.system if state.started else ""
    passages = [[words.SYSTEM, system]] if system else []
    for turn in (turn for turn in state.turns if turn.turn or state.finished):
        number = turn.number
        passages.append([words.sent_heading(number, len(turn.frames)), turn.told])
        if turn.turn and (aside := turn.turn.completion.reasoning):
            passages.append([words.ASIDE_PASSAGE.format(number), aside])
        if turn.text:
            passages.append([words.RECEIVED.format(number), turn.text])
    second = transcript_json(state.swapped)["passages"] if state.swapped else []
    passages += [[words.IN_SWAPPED.format(heading), text] for heading, text in second]
    return {"passages": passages}


def status_line(state: RunState, seconds: float, pace: Pace = Pace()) -> str:
    """Return a run's state in one line, `seconds` after it began."""
    started = state.started
    if state.swapped is not None and state.swapped.finished is None:
        return words.IN_SWAPPED.format(status_line(state.swapped, seconds, pace))
    if state.finished is not None:
        return _ended(state, state.finished)
    if started is None or not state.turns:
        opening = state.opening
        return f"{reading(opening)} · {duration(seconds)}" if opening else words.OPENING
    last, turns = state.turns[-1], started.settings.max_turns
    activity = words.running_status(last.number, turns, len(last.frames), bool(last.text))
    return f"{activity} · {words.pace_status(pace, seconds, turns)}"


def replay_status_line(state: RunState) -> str:
    """Return the same line for a saved run."""
    ended = _ended(state, state.finished) if state.finished else words.NEVER_ENDED
    return f"{words.REPLAYING} {ended}"


def _ended(state: RunState, finished: Finished) -> str:
    """How the run ended and what it took, with its second run."""
    second = state.swapped or RunState()
    turns = [*state.turns, *second.turns]
    took = totals(turn.turn for turn in turns if turn.turn)
    ended = words.ended_status(finished, len(turns), second.finished)
    return " · ".join(filter(None, [ended, took]))


def _turns(
    state: RunState, images: ImageSources, read_reply: ReplyReader | None
) -> list[TurnViewJson]:
    started, finished, in_view = state.started, state.finished, frames_in_view(state)
    clips = started.clips if started else (None, None)
    outside = finished is not None and finished.outside_scope
    views: list[TurnViewJson] = []
    for turn_state in state.turns:
        number, turn, text = turn_state.number, turn_state.turn, turn_state.text
        tiles = group_tiles(turn_state.frames)
        pairs = sum(len(tile.halves) == 2 for tile in tiles)
        taken = started is not None and started.is_taken_over(number)
        summary = [TAKEN_OVER] if taken else []
        if tiles or number > 1:
            summary.append(words.frames_summary(pairs, len(tiles) - pairs))
        confidence, labels, aside = list[str](), list[LabelJson](), list[str]()
        if turn is None:
            reply = read_reply(text) if read_reply and text else Reply(text)
        else:
            reply, completion = turn.reply, turn.completion
            summary.append(words.turn_summary(turn))
            if reply.confidence is not None:
                scale = started is not None and started.dialect == "concat"
                line = words.CONFIDENCE if scale else words.OWN_CONFIDENCE
                meaning = words.CONFIDENCE_HELP if scale else words.OWN_CONFIDENCE_HELP
                confidence = [line.format(reply.confidence), meaning]
            if not outside:
                labels = labels_json(reply.verdict, label_probabilities(completion, reply.verdict))
            if told := completion.reasoning:
                aside = [words.ASIDE_HEADING.format(len(told)), told, words.ASIDE_HELP]
        views.append(
            {
                "number": number,
                "state": " · ".join(summary),
                "foot": turn_figures(turn) if turn else "",
                "confidence": confidence,
                "labels": labels,
                "live": turn is None and finished is None,
                "taken": taken,
                "tiles": [tile.to_json(clips, in_view, images) for tile in tiles],
                "parts": _parts(turn_state, reply),
                "aside": aside,
                "facts": _facts(reply, [tile.label.removeprefix("#") for tile in tiles]),
                "remarks": remarks(turn_state),
            }
        )
    return views


def remarks(turn_state: TurnState) -> list[str]:
    """Return frames not sent again, then a reply's repairs, refusals and cuts."""
    again = ", ".join(map(str, turn_state.already_shown))
    told = [words.ALREADY_SHOWN.format(again)] if again else []
    return [*told, *(words.turn_remarks(turn_state.turn) if turn_state.turn else [])]


def _facts(reply: Reply, shown: list[str]) -> FactsJson | None:
    """None for a snapshot in other words, or an unfinished one."""
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
    """[heading, text] of each part; the raw text if nothing was read."""
    turn, text = turn_state.turn, turn_state.text
    indices = reply.wants.indices if turn and reply.wants else ()
    call = f"select_frames([{', '.join(map(str, indices))}])" if indices else ""
    read = [(words.SNAPSHOT, reply.snapshot), (words.THINK, reply.think), (words.TOOL_CALL, call)]
    parts = [[heading, passage] for heading, passage in read if passage]
    unread = turn is not None and turn.reply.kind == "invalid" and not turn.cut_short
    if text and (unread or not parts):
        parts.append([words.RAW if turn else words.WRITING, text])
    return parts
