"""A run as the page's scripts are given it: plain JSON values. Text stays text: nothing here is markup."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from vrthinker_core.types import ClipInfo, FrameRef, Reply, Side
from vrthinker_core.types.events import Finished, Turn
from vrthinker_core.types.wording import DIMENSION_NAMES
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.dialect_lookup import GridJson, grid_json
from vrthinker_core.ui.view.run_state import RunState, TurnState, frames_in_view
from vrthinker_core.ui.view.tiles import ImageSources, TileJson, group_tiles

ReplyReader = Callable[[str], Reply]
"""Reads a reply that is still being written."""


class ChipJson(TypedDict):
    """One dimension of a verdict."""

    name: str
    label: str
    value: int | None
    """The label as a number; None where the judge did not say."""
    help: str


class VerdictJson(TypedDict):
    """The verdict, in the order in which the page shows its dimensions."""

    headline: str
    caveats: list[str]
    chips: list[ChipJson]


class TurnViewJson(TypedDict):
    """One turn."""

    number: int
    state: str
    """What came into view and what the reply did, in one line."""
    foot: str
    """Tokens and time; "" while the turn is going on."""
    confidence: list[str]
    """How sure the judge said it was, and what that means; [] where it did not say."""
    live: bool
    """The judge is writing this turn now."""
    tiles: list[TileJson]
    parts: list[list[str]]
    """[heading, text] of each part of the reply."""
    remarks: list[str]


class ViewJson(TypedDict, total=False):
    """A run. Before it has begun there are `turns` and `ending` alone."""

    run: str
    """The session's name, by which the page asks for downloads; only on the live page."""
    over: bool
    """Nothing more will come; only on the live page."""
    prompt: str
    judge: str
    notes: list[str]
    health: list[str]
    """Notes on the two files."""
    fps: list[float]
    """Of each video; 0 where it is not known."""
    grid: GridJson | None
    verdict: VerdictJson | None
    ending: str
    """What a person must know about the end of the run; "" after an ordinary answer."""
    turns: list[TurnViewJson]


class TranscriptJson(TypedDict):
    """What was sent and what came back."""

    passages: list[list[str]]
    """[heading, text] of each passage."""


def view_json(state: RunState, pictures: ImageSources, read: ReplyReader | None = None) -> ViewJson:
    """What the page shows of a run.

    `pictures` gives the address of a thumbnail; `read` reads a reply that is still being written (without it, raw text is shown).
    """
    started = state.started
    if started is None:
        return {"turns": [], "ending": state.finished.error if state.finished else ""}
    clips = {side: clip for side, clip in zip(Side, started.clips, strict=True) if clip is not None}
    visible = frames_in_view(state)
    return {
        "prompt": started.prompt,
        "judge": words.judge_line(started.judge),
        "notes": [*started.notes, *(state.finished.notes if state.finished else ())],
        "health": words.health([clip.notes if clip else () for clip in started.clips]),
        "fps": [clips[side].fps if side in clips else 0 for side in Side],
        "grid": grid_json(started),
        "verdict": _verdict(state.finished),
        "ending": words.ending(state.finished) if state.finished else "",
        "turns": [_turn(turn, state.finished is None, clips, visible, pictures, read) for turn in state.turns],
    }


def transcript_json(state: RunState) -> TranscriptJson:
    """The exact text that was sent and came back, passage by passage; a turn is added once it, or the run, has ended."""
    passages = [[words.SYSTEM, state.started.system]] if state.started and state.started.system else []
    for turn in (turn for turn in state.turns if turn.turn or state.finished):
        passages.append([words.sent(turn.number, len(turn.frames)), turn.told])
        if turn.text:
            passages.append([words.received(turn.number), turn.text])
    return {"passages": passages}


def status_line(state: RunState, seconds: float) -> str:
    """One line about where a run stands, `seconds` after it began."""
    started, finished = state.started, state.finished
    if finished is not None:
        return words.ended(finished, len(state.turns))
    if started is None or not state.turns:
        return words.OPENING
    last = state.turns[-1]
    turns = started.settings.max_turns
    doing = words.writing(last.number, turns) if last.text else words.looking(last.number, turns, len(last.frames))
    return f"{doing} · {words.duration(seconds)}"


def replay_status_line(state: RunState) -> str:
    """The same line about a saved run."""
    return f"{words.REPLAYING} {words.ended(state.finished, len(state.turns)) if state.finished else words.NEVER_ENDED}"


def _turn(
    shown: TurnState,
    running: bool,
    clips: dict[Side, ClipInfo],
    visible: frozenset[FrameRef],
    pictures: ImageSources,
    read: ReplyReader | None,
) -> TurnViewJson:
    found = group_tiles(shown.frames)
    pairs = sum(len(tile.halves) == 2 for tile in found)
    state = [words.shown(pairs, len(found) - pairs)] if found else []
    turn = shown.turn
    return {
        "number": shown.number,
        "state": " · ".join([*state, words.action(turn.reply)] if turn else state),
        "foot": words.foot(turn) if turn else "",
        "confidence": _confidence(turn),
        "live": turn is None and running,
        "tiles": [tile.to_json(clips, visible, pictures) for tile in found],
        "parts": _parts(shown, read),
        "remarks": words.remarks(turn) if turn else [],
    }


def _confidence(turn: Turn | None) -> list[str]:
    """How sure the judge said it was, and what that means; nothing where it did not say."""
    said = None if turn is None else turn.reply.confidence
    return [] if said is None else [words.confidence(said), words.CONFIDENCE_HELP]


def _parts(shown: TurnState, read: ReplyReader | None) -> list[list[str]]:
    """The reply under its headings; as it came where nothing in it could be read."""
    reply = shown.turn.reply if shown.turn else read(shown.text) if read and shown.text else None
    found = []
    if reply is not None and reply.snapshot:
        found.append([words.SNAPSHOT, reply.snapshot])
    if reply is not None and reply.think:
        found.append([words.THINK, reply.think])
    if reply is not None and shown.turn is not None and reply.wants is not None and reply.wants.indices:
        found.append([words.TOOL_CALL, words.tool_call(reply.wants)])
    unread = not found or (shown.turn is not None and shown.turn.reply.kind == "invalid")
    if unread and shown.text:
        found.append([words.RAW if shown.turn else words.WRITING, shown.text])
    return found


def _verdict(finished: Finished | None) -> VerdictJson | None:
    if finished is None or finished.verdict is None:
        return None
    labels = dict(finished.verdict)
    chips: list[ChipJson] = [
        {
            "name": DIMENSION_NAMES[dimension],
            "label": words.label_name(labels[dimension]),
            "value": labels[dimension],
            "help": f"{help_text} {words.LABEL_HELP[labels[dimension]]}",
        }
        for dimension, help_text in words.DIMENSION_HELP.items()
    ]
    return {"headline": words.headline(finished.verdict), "caveats": words.caveats(finished), "chips": chips}
