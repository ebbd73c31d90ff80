"""Every reply of `conformance/replies.jsonl` is read as expected, and within the time of rule R18."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.quick import in_a_second
from vrthinker_core.protocols import Concat, Paired, PromptProtocol, make_protocol, to_expected
from vrthinker_core.types import Settings

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "conformance" / "replies.jsonl")
    .read_text("utf-8")
    .splitlines()
]


def reply_of(case: dict[str, Any]) -> str:
    if "reply_gen" in case:
        return "".join(unit * times for unit, times in case["reply_gen"])
    return str(case["reply"])


def agrees(read: dict[str, object], expected: dict[str, Any]) -> bool:
    """Whether all expected fields are equal; where several errors are accepted, one of them is enough."""
    fields = dict(expected)
    errors = fields.pop("error", None)
    accepted = [errors] if isinstance(errors, str) else errors
    return (accepted is None or read.get("error") in accepted) and all(
        read.get(name) == value for name, value in fields.items()
    )


def test_all_cases_are_there() -> None:
    assert len({case["id"] for case in CASES}) == 112


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_reply(case: dict[str, Any]) -> None:
    protocol = make_protocol(Settings(), case["protocol"])
    text = reply_of(case)
    read = to_expected(
        in_a_second(lambda: protocol.parse(text, cut=case["finish_reason"] == "length"))
    )
    assert any(
        agrees(read, accepted) for accepted in (case["expected"], *case.get("also_accept", ()))
    ), read


WHOLE = "TA=1, MQ=0, VQ=1, OA=1"
OPENINGS = (
    "<Think>",
    "<Snapshot>x",
    "<Answer>",
    "<Answer>TA=1 ",
    "<tool_call>{",
    "<recommend answer>",
    "</Think>",
    "x</Think>",
    "x<tool_call>{</Think>",
    "<|channel|>analysis",
    "<Think>a<Answer>b",
    "<Answer><Think>t</Think>",
)
DEEP_OBJECT = '{"a": ' * 100_000 + "7" + "}" * 100_000
DEEP_LIST = "[" * 100_000 + "7" + "]" * 100_000

ANSWERED = {
    "2 MB of reasoning": f"<Think>{'look ' * 400_000}</Think><Answer>{WHOLE}</Answer>",
    "40,000 times reasoning inside an answer": f"<Answer>{'<Think>t</Think>' * 40_000}{WHOLE}</Answer>",
    "2 MB of other letters": f"<Think>{'ü中 ' * 600_000}</Think><Answer>{WHOLE}</Answer>",
    "2 MB inside an answer": f"<Answer>{'look ' * 400_000}{WHOLE}</Answer>",
    "40,000 quoted answers before a closing tag": f"x{f'<Answer>{WHOLE}</Answer>' * 40_000} x</think><Answer>{WHOLE}</Answer>",
    "40,000 openings before an answer": f"{'<Think>' * 40_000}</Think><Answer>{WHOLE}</Answer>",
}
OTHERS = {
    **{f"40,000 times {unit}": unit * 40_000 for unit in OPENINGS},
    "closed calls that quote": "<tool_call>{<Answer></tool_call>" * 20_000,
    "calls closed twice": "<tool_call>{'<Answer>'</tool_call>}</tool_call>" * 20_000,
    "quotes in calls that are never closed": '<tool_call>["' * 40_000,
    "calls that are never closed": "<tool_call>{x<Answer>" * 20_000 + "</tool_call>" * 20_000,
    "2 MB of brackets": "<" * 2_000_000,
    "2 MB of half control tokens": "<|" * 1_000_000,
    "2 MB of backslashes in an answer": "<Answer>TA=1" + "\\" * 2_000_000 + "</Answer>",
    "2 MB of spaces in an answer": f"<Answer>TA=1{' ' * 2_000_000}2</Answer>",
    "2 MB of ends of a call left open": "<tool_call>" + "} " * 1_000_000,
    "2 MB of spaces in a call left open": "<tool_call>}" + " " * 2_000_000,
    "2 MB of spaces after a call": "<tool_call>[7]</tool_call>" + " " * 2_000_000 + "x",
    "2 MB of labels": f"<Answer>{'TA=1 ' * 400_000}</Answer>",
    "2 MB of indices": f'<tool_call>{{"frame_indices": [{"7, " * 600_000}7]}}</tool_call>',
    "2 MB of digits": f'<tool_call>{{"frame_indices": [{"7" * 2_000_000}]}}</tool_call>',
    "2 MB of unseen characters": "\u200b" * 2_000_000,
    "lists nested 100,000 deep": f'<tool_call>{{"frame_indices": {DEEP_LIST}}}</tool_call>',
    "objects nested 100,000 deep": f"<tool_call>{DEEP_OBJECT}</tool_call>",
    "lists in a string 100,000 deep": f'<tool_call>{{"arguments": "{DEEP_LIST}"}}</tool_call>',
    "comments without end": "<tool_call>{" + "/* " * 6_000 + "</tool_call>",
    "single-quoted lists nested 5,000 deep": f"<tool_call>{{'frame_indices': {'[' * 5_000}7{']' * 5_000}}}</tool_call>",
    "quotes within quotes": '<tool_call>["' + '{"x":"y"z"' * 1_800 + "</tool_call>",
    "200 broken calls, 4 MB": f"<tool_call>{'[1, {x: ' * 2_400}</tool_call>" * 200,
    "200 broken arguments, 4 MB": f'<tool_call>{{"arguments": "{"[1, {x: " * 2_400}"}}</tool_call>'
    * 200,
    "quotes without end": "<tool_call>{" + '"\\' * 9_000,
}


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=name) for name, text in (ANSWERED | OTHERS).items()]
)
def test_no_text_takes_longer_than_a_second(text: str) -> None:
    readings: tuple[tuple[PromptProtocol, bool], ...] = ((Paired(), False), (Concat(), True))
    for protocol, cut in readings:
        assert in_a_second(partial(protocol.parse, text, cut=cut)).kind != "recommend"


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in ANSWERED.items()])
def test_a_complete_answer_in_a_long_reply_is_found(text: str) -> None:
    assert Paired().parse(text).kind == "answer"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name)
        for name, text in OTHERS.items()
        if "indices" not in name and "spaces" not in name
    ],
)
def test_a_long_reply_without_an_action_is_invalid(text: str) -> None:
    reply = Paired().parse(text)
    assert reply.kind == "invalid"
    assert reply.problems
