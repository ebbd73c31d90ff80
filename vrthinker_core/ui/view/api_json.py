"""A run as a program is told of it: plain JSON values, without pictures. Every telling is the whole run so far, in one shape."""

from __future__ import annotations

from typing import Any

from vrthinker_core.types import Thumbnail, Verdict
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.page_json import status_line
from vrthinker_core.ui.view.run_state import RunState, TurnState

RunJson = dict[str, Any]


def run_json(state: RunState, seconds: float = 0.0) -> RunJson:
    """The run so far, `seconds` after it began. `stop` is None until it has ended, then the reason why it did."""
    finished, started = state.finished, state.started
    return {
        "status": status_line(state, seconds),
        "stop": str(finished.stop) if finished else None,
        "labels": _labels(finished.verdict) if finished and finished.verdict else None,
        "provisional": bool(finished and finished.provisional),
        "forced": bool(finished and finished.forced),
        "error": finished.error if finished else "",
        "notes": [*(started.notes if started else ()), *_health(state), *(finished.notes if finished else ())],
        "judge": started.judge if started else "",
        "protocol": started.dialect if started else "",
        "prompt": started.prompt if started else "",
        "turns": [_turn(turn) for turn in state.turns],
    }


def refused_json(sentence: str) -> RunJson:
    """A run that never began, because of what was asked for."""
    return run_json(RunState()) | {"status": words.READY, "stop": "failed", "error": sentence}


def _health(state: RunState) -> list[str]:
    return words.health([clip.notes if clip else () for clip in state.started.clips]) if state.started else []


def _labels(verdict: Verdict) -> dict[str, int | None]:
    """0 tie, 1 video 1, 2 video 2, None not said."""
    return {str(dimension): None if label is None else int(label) for dimension, label in verdict}


def _turn(shown: TurnState) -> RunJson:
    """`text` is the whole reply as it came, and what has come so far while it is being written."""
    turn = shown.turn
    reply = turn.reply if turn else None
    return {
        "number": shown.number,
        "frames": [_frame(frame) for frame in shown.frames],
        "snapshot": reply.snapshot if reply else "",
        "think": reply.think if reply else "",
        "requested": list(reply.wants.indices) if reply and reply.wants else [],
        "labels": _labels(reply.verdict) if reply and reply.verdict else None,
        "confidence": reply.confidence if reply else None,
        "remarks": words.remarks(turn) if turn else [],
        "text": shown.text,
        "over": turn is not None,
    }


def _frame(frame: Thumbnail) -> RunJson:
    """`number` is what the judge calls it; `index` counts the file's frames from 0, shown from `seconds` to before `until`."""
    return {
        "video": int(frame.ref.side),
        "number": frame.number,
        "index": frame.index,
        "seconds": frame.seconds,
        "until": frame.until,
    }
