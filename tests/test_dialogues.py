"""Whole runs of `conformance/dialogues.jsonl` through the real loop, on real clips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import BackendFailed
from vrthinker_core.runner import judge
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Finished, StopReason, Turn, TurnEnded

LINES = (Path(__file__).parent / "conformance" / "dialogues.jsonl").read_text("utf-8")
CASES = [json.loads(line) for line in LINES.splitlines()]


def status(end: Finished) -> str:
    if end.stop is StopReason.FAILED:
        return "error"
    return "answered" if end.verdict is not None and end.verdict.whole else "no_answer"


def fetched(turns: list[Turn], protocol: str) -> list[list[int]]:
    """The protocol's numbers of the frames each call really brought."""
    rounds = [[int(frame.number) for frame in turn.frames] for turn in turns[1:] if turn.frames]
    return [numbers[::2] for numbers in rounds] if protocol == "paired" else rounds


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_dialogue(case: dict[str, Any], pair: VideoPair) -> None:
    script = [
        BackendFailed("The server is gone.") if reply == "__BACKEND_ERROR__" else reply
        for reply in case["replies"]
    ]
    settings = Settings(protocol=case["protocol"], max_turns=case["max_turns"])
    events = list(judge(pair, ScriptedBackend(script), settings))
    turns = [event.turn for event in events if isinstance(event, TurnEnded)]
    end, expected = events[-1], case["expected"]
    assert status(end) == expected["status"]
    if "answer" in expected:
        assert end.verdict.labels == expected["answer"]
    if "model_calls" in expected:
        assert len(turns) == expected["model_calls"]
    assert len(turns) <= expected.get("model_calls_max", case["max_turns"])
    if "fetched" in expected:
        assert fetched(turns, case["protocol"]) == expected["fetched"]
    if "images_max" in expected:
        assert max(len(turn.in_view) for turn in turns) <= expected["images_max"]
    assert end.provisional is (expected.get("fallback") == "recommend")
    if expected["status"] == "error":
        assert end.error == "The server is gone."
        assert end.verdict is None
