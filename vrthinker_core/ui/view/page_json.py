"""A run as the page's scripts are given it: plain JSON values. Text stays text: nothing here is markup."""

from collections.abc import Callable, Set
from typing import TypedDict

from vrthinker_core.dialects.reading.reasons import find_sentence, frame_numbers
from vrthinker_core.types import Dimension, FrameRef, Reply, Verdict
from vrthinker_core.types.wording import DIMENSION_NAMES, LABEL_NAMES
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.dialect_lookup import GridJson, grid_json
from vrthinker_core.ui.view.run_state import RunState, TurnState, frames_in_view
from vrthinker_core.ui.view.tiles import Clips, ImageSources, TileJson, group_tiles

MAX_FRAMES = 4  # that stand under a dimension

ReplyReader = Callable[[str], Reply]  # reads a reply that is still being written


class ChipJson(TypedDict):
    """One dimension of a verdict."""

    name: str
    label: str
    value: int | None  # the label as a number; None where the judge did not say
    help: str
    reason: str  # the judge's own sentence about it, "" where there is none
    frames: list[str]  # labels of the tiles that decided it
    source: str  # where these frames are from, in words


class VerdictJson(TypedDict):
    """The verdict, in the order in which the page shows its dimensions."""

    headline: str
    caveats: list[str]
    chips: list[ChipJson]


class LabelJson(TypedDict):
    """What a reply says about one dimension."""

    name: str
    label: str
    value: int | None


class TurnViewJson(TypedDict):
    """One turn."""

    number: int
    state: str  # what came into view and what the reply did, in one line
    foot: str  # tokens and time; "" while the turn is going on
    confidence: list[str]  # how sure the judge said it was, and what that means; [] where it did not say
    labels: list[LabelJson]  # of the answer that the reply gives or recommends; [] where it gives none
    live: bool  # the judge is writing this turn now
    tiles: list[TileJson]
    parts: list[list[str]]  # [heading, text] of each part of the reply
    remarks: list[str]


class ViewJson(TypedDict, total=False):
    """A run. Before it has begun there are `turns` and `ending` alone."""

    run: str  # the session's name, by which the page asks for downloads; only on the live page
    over: bool  # nothing more will come; only on the live page
    prompt: str
    judge: str
    notes: list[str]
    health: list[str]  # notes on the two files
    fps: list[float]  # of each video; 0 where it is not known
    grid: GridJson | None
    verdict: VerdictJson | None
    ending: str  # what a person must know about the end of the run; "" after an ordinary answer
    turns: list[TurnViewJson]


class TranscriptJson(TypedDict):
    """What was sent and what came back."""

    passages: list[list[str]]  # [heading, text] of each passage


def view_json(state: RunState, images: ImageSources, read_reply: ReplyReader | None = None) -> ViewJson:
    """What the page shows of a run. Without `read_reply`, a reply that is still being written is shown raw."""
    started = state.started
    if started is None:
        return {"turns": [], "ending": state.finished.error if state.finished else ""}
    in_view = frames_in_view(state)
    return {
        "prompt": started.prompt,
        "judge": words.JUDGE_LINE.format(started.judge),
        "notes": [*started.notes, *(state.finished.notes if state.finished else ())],
        "health": words.clip_notes(started.clips),
        "fps": [clip.fps if clip else 0 for clip in started.clips],
        "grid": grid_json(started),
        "verdict": _verdict(state),
        "ending": words.end_notice(state.finished) if state.finished else "",
        "turns": [_turn(turn, state.finished is None, started.clips, in_view, images, read_reply) for turn in state.turns],
    }


def transcript_json(state: RunState) -> TranscriptJson:
    """The exact text that was sent and came back, passage by passage; a turn is added once it, or the run, has ended."""
    passages = [[words.SYSTEM, state.started.system]] if state.started and state.started.system else []
    for turn in (turn for turn in state.turns if turn.turn or state.finished):
        passages.append([words.sent_heading(turn.number, len(turn.frames)), turn.told])
        if turn.text:
            passages.append([words.RECEIVED.format(turn.number), turn.text])
    return {"passages": passages}


def status_line(state: RunState, seconds: float) -> str:
    """The state of a run in one line, `seconds` after it began."""
    started, finished = state.started, state.finished
    if finished is not None:
        return words.ended_status(finished, len(state.turns))
    if started is None or not state.turns:
        return words.OPENING
    last = state.turns[-1]
    activity = words.running_status(last.number, started.settings.max_turns, len(last.frames), bool(last.text))
    return f"{activity} · {words.duration(seconds)}"


def replay_status_line(state: RunState) -> str:
    """The same line for a saved run."""
    return f"{words.REPLAYING} {words.ended_status(state.finished, len(state.turns)) if state.finished else words.NEVER_ENDED}"


def _turn(
    turn_state: TurnState, running: bool, clips: Clips, in_view: Set[FrameRef], images: ImageSources, read_reply: ReplyReader | None
) -> TurnViewJson:
    tiles = group_tiles(turn_state.frames)
    pairs = sum(len(tile.halves) == 2 for tile in tiles)
    summary = [words.frames_summary(pairs, len(tiles) - pairs)] if tiles else []
    turn = turn_state.turn
    sure = turn.reply.confidence if turn else None
    return {
        "number": turn_state.number,
        "state": " · ".join([*summary, words.reply_summary(turn.reply)] if turn else summary),
        "foot": words.turn_footer(turn) if turn else "",
        "confidence": [] if sure is None else [words.CONFIDENCE.format(sure), words.CONFIDENCE_HELP],
        "labels": _labels(turn.reply.verdict) if turn else [],
        "live": turn is None and running,
        "tiles": [tile.to_json(clips, in_view, images) for tile in tiles],
        "parts": _parts(turn_state, read_reply),
        "remarks": words.turn_remarks(turn) if turn else [],
    }


def _labels(verdict: Verdict | None) -> list[LabelJson]:
    labels = dict(verdict or ())
    shown = [dimension for dimension in words.DIMENSION_HELP if dimension in labels]
    return [LabelJson(name=DIMENSION_NAMES[each], label=LABEL_NAMES[labels[each]], value=labels[each]) for each in shown]


def _parts(turn_state: TurnState, read_reply: ReplyReader | None) -> list[list[str]]:
    """[heading, text] of each part of the reply; the raw text where nothing in it could be read."""
    turn, text = turn_state.turn, turn_state.text
    reply = turn.reply if turn else read_reply(text) if read_reply and text else Reply(text)
    indices = reply.wants.indices if turn and reply.wants else ()
    call = f"select_frames([{', '.join(map(str, indices))}])" if indices else ""
    read = [(words.SNAPSHOT, reply.snapshot), (words.THINK, reply.think), (words.TOOL_CALL, call)]
    parts = [[heading, passage] for heading, passage in read if passage]
    if text and (not parts or (turn is not None and turn.reply.kind == "invalid")):
        parts.append([words.RAW if turn else words.WRITING, text])
    return parts


def _verdict(state: RunState) -> VerdictJson | None:
    finished = state.finished
    if finished is None or finished.verdict is None:
        return None
    chips = [_chip(dimension, finished.verdict, state) for dimension in words.DIMENSION_HELP]
    return {"headline": words.HEADLINES[finished.verdict.OA], "caveats": words.verdict_caveats(finished), "chips": chips}


def _chip(dimension: Dimension, verdict: Verdict, state: RunState) -> ChipJson:
    label = dict(verdict)[dimension]
    sentence = find_sentence(dimension, (turn.turn.reply.think for turn in reversed(state.turns) if turn.turn))
    tiles = [tile for turn in state.turns for tile in group_tiles(turn.frames)]
    shown = {half.number: tile.label for tile in tiles for half in tile.halves.values()}
    named = list(dict.fromkeys(shown[number] for number in map(str, frame_numbers(sentence)) if number in shown))
    frames = named or [tile.label for turn in state.turns[-1:] for tile in group_tiles(turn.frames)]
    return {
        "name": DIMENSION_NAMES[dimension],
        "label": LABEL_NAMES[label].capitalize(),
        "value": label,
        "help": f"{words.DIMENSION_HELP[dimension]} {words.LABEL_HELP[label]}",
        "reason": sentence,
        "frames": frames[:MAX_FRAMES],
        "source": words.NAMED_FRAMES if named else words.LAST_FRAMES if frames else "",
    }
