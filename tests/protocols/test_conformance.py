"""Every reply of `conformance/replies.jsonl` is read as expected within the second of rule R18; larger texts in linear time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from vrthinker_core.protocols import Concat, Paired, make_protocol, to_expected
from vrthinker_core.types import Settings

REPLIES = Path(__file__).parents[1] / "conformance" / "replies.jsonl"
CASES = [json.loads(line) for line in REPLIES.read_text("utf-8").splitlines()]
T = TypeVar("T")


def in_a_second(run: Callable[[], T]) -> T:
    """What run() gives; once in ten times it takes at most as long as 60 million steps of a loop, a second of a usual processor."""
    for _ in range(10):
        start = time.process_time()
        for _ in range(1_000_000):
            pass
        looped = time.process_time()
        result = run()
        if time.process_time() - looped <= 60 * (looped - start):
            return result
    raise AssertionError("Ten times slower than a second of a usual processor.")


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
    cut = case["finish_reason"] == "length"
    read = to_expected(in_a_second(lambda: protocol.parse(text, cut=cut)))
    accepted = (case["expected"], *case.get("also_accept", ()))
    assert any(agrees(read, each) for each in accepted), read


TIMES, LONG = 20_000, 1_000_000
WHOLE = "TA=1, MQ=0, VQ=1, OA=1"
OPENINGS = (
    "<Think>", "<Snapshot>x", "<Answer>", "<Answer>TA=1 ", "<tool_call>{", "<recommend answer>", "</Think>", "x</Think>",
    "x<tool_call>{</Think>", "<|channel|>analysis", "<Think>a<Answer>b", "<Answer><Think>t</Think>",
)  # fmt: skip
DEEP_OBJECT = '{"a": ' * 100_000 + "7" + "}" * 100_000
DEEP_LIST = "[" * 100_000 + "7" + "]" * 100_000
BROKEN = "[1, {x: " * 2_400

ANSWERED = {
    "reasoning": f"<Think>{'look ' * (LONG // 5)}</Think><Answer>{WHOLE}</Answer>",
    "reasoning inside an answer": f"<Answer>{'<Think>t</Think>' * TIMES}{WHOLE}</Answer>",
    "other letters": f"<Think>{'ü中 ' * (LONG // 3)}</Think><Answer>{WHOLE}</Answer>",
    "inside an answer": f"<Answer>{'look ' * (LONG // 5)}{WHOLE}</Answer>",
    "quoted answers before a closing tag": f"x{f'<Answer>{WHOLE}</Answer>' * TIMES} x</think><Answer>{WHOLE}</Answer>",
    "openings before an answer": f"{'<Think>' * TIMES}</Think><Answer>{WHOLE}</Answer>",
}
ASKING = {
    "spaces after a call": "<tool_call>[7]</tool_call>" + " " * LONG + "x",
    "indices": f'<tool_call>{{"frame_indices": [{"7, " * (LONG // 3)}7]}}</tool_call>',
}
UNUSABLE = {
    **{unit: unit * TIMES for unit in OPENINGS},
    "closed calls that quote": "<tool_call>{<Answer></tool_call>" * (TIMES // 2),
    "calls closed twice": "<tool_call>{'<Answer>'</tool_call>}</tool_call>" * (TIMES // 2),
    "quotes in calls that are never closed": '<tool_call>["' * TIMES,
    "calls that are never closed": "<tool_call>{x<Answer>" * (TIMES // 2)
    + "</tool_call>" * (TIMES // 2),
    "brackets": "<" * LONG,
    "half control tokens": "<|" * (LONG // 2),
    "backslashes in an answer": "<Answer>TA=1" + "\\" * LONG + "</Answer>",
    "spaces in an answer": f"<Answer>TA=1{' ' * LONG}2</Answer>",
    "ends of a call left open": "<tool_call>" + "} " * (LONG // 2),
    "spaces in a call left open": "<tool_call>}" + " " * LONG,
    "labels": f"<Answer>{'TA=1 ' * (LONG // 5)}</Answer>",
    "digits": f'<tool_call>{{"frame_indices": [{"7" * LONG}]}}</tool_call>',
    "unseen characters": "\u200b" * LONG,
    "nested lists": f'<tool_call>{{"frame_indices": {DEEP_LIST}}}</tool_call>',
    "nested objects": f"<tool_call>{DEEP_OBJECT}</tool_call>",
    "nested lists in a string": f'<tool_call>{{"arguments": "{DEEP_LIST}"}}</tool_call>',
    "comments without end": "<tool_call>{" + "/* " * 6_000 + "</tool_call>",
    "single-quoted nested lists": f"<tool_call>{{'frame_indices': {'[' * 5_000}7{']' * 5_000}}}</tool_call>",
    "quotes within quotes": '<tool_call>["' + '{"x":"y"z"' * 1_800 + "</tool_call>",
    "broken calls": f"<tool_call>{BROKEN}</tool_call>" * 100,
    "broken arguments": f'<tool_call>{{"arguments": "{BROKEN}"}}</tool_call>' * 100,
    "quotes without end": "<tool_call>{" + '"\\' * 9_000,
}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(kind, text, id=name)
        for kind, texts in (("answer", ANSWERED), ("tool", ASKING), ("invalid", UNUSABLE))
        for name, text in texts.items()
    ],
)
def test_a_megabyte_is_read_in_a_second(kind: str, text: str) -> None:
    reply = in_a_second(partial(Paired().parse, text))
    assert reply.kind == kind
    assert reply.problems or kind != "invalid"


@pytest.mark.parametrize("unit", OPENINGS)
def test_tags_before_a_cut_are_read_as_fast(unit: str) -> None:
    assert in_a_second(partial(Concat().parse, unit * TIMES, cut=True)).kind == "invalid"
