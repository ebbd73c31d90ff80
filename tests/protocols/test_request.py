"""A call is read while it is written: no frame is shown that the finished reply does not ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocols.test_conformance import CASES
from vrthinker_core.protocols import Paired, PromptProtocol, make_protocol
from vrthinker_core.traces import load
from vrthinker_core.types import Settings

ROOT = Path(__file__).parents[2]
NOTED = "<Snapshot>s</Snapshot><Think>t</Think>"


def replies() -> Iterator[tuple[str, PromptProtocol, str]]:
    """Real and published replies that their judge ended, each with its protocol."""
    for case in CASES:
        if "reply" in case and case["finish_reason"] == "stop":
            yield case["id"], make_protocol(Settings(), case["protocol"]), case["reply"]
    for line in (
        (ROOT / "tests" / "conformance" / "dialogues.jsonl").read_text("utf-8").splitlines()
    ):
        case = json.loads(line)
        for place, text in enumerate(dict.fromkeys(case["replies"])):
            yield f"{case['id']}-{place}", make_protocol(Settings(), case["protocol"]), text
    for path in sorted((ROOT / "assets" / "examples").glob("*/trace.json")):
        trace = load(path)
        for turn in trace.turns:
            protocol = make_protocol(trace.started.settings, trace.started.dialect)
            yield f"{path.parent.name}-{turn.number}", protocol, turn.completion.text


REPLIES = list(replies())


@pytest.mark.parametrize(
    ("protocol", "text"), [each[1:] for each in REPLIES], ids=[each[0] for each in REPLIES]
)
def test_more_text_only_adds_frames_of_the_finished_reply(
    protocol: PromptProtocol, text: str
) -> None:
    wants = protocol.parse(text).wants
    asked = wants.indices if wants else ()
    before: tuple[int, ...] = ()
    for end in range(len(text) + 1):
        now = protocol.request(text[:end])
        assert now[: len(before)] == before, text[:end]
        assert now == asked[: len(now)], text[:end]
        before = now


CALL = '{"name": "select_frames", "arguments": {"frame_indices": ['
FORTY = ", ".join(map(str, range(40)))
SO_FAR = [
    (f"{NOTED}<tool_call>{CALL}10", ()),  # it may become 100
    (f"{NOTED}<tool_call>{CALL}10, 3", (10,)),
    (f"<tool_call>{CALL}10 ]", (10,)),
    (f"{NOTED}<tool_call>{{'target_frames': [10, 10, 128, 30,", (10, 30)),
    (f"{NOTED}<tool_call>{CALL}{'7, ' * 3}{FORTY},", (7, *range(7), *range(8, 12))),
    (f"{NOTED}<tool_call>{CALL}5]}}}}</tool_call>\n<tool_call>{CALL}6,", (5, 6)),
    (f"{NOTED}<tool_call>{CALL.replace('select', 'crop')}10,", ()),
    (f"{NOTED}<tool_call>{CALL}10.5, 20,", ()),
    (f"<Think>I may write <tool_call>{CALL}10,", ()),  # a quotation
    (f"I may write <tool_call>{CALL}10,", ()),  # it may be one: the template may have begun it
    (f"I thought.</Think><tool_call>{CALL}10,", (10,)),
    (f"{NOTED}<tool_response>Retrieved</tool_response><tool_call>{CALL}10,", ()),  # invented
]


@pytest.mark.parametrize(("text", "frames"), SO_FAR)
def test_only_what_the_call_is_sure_to_bring_is_read(text: str, frames: tuple[int, ...]) -> None:
    assert Paired().request(text) == frames
