"""Every reply of `conformance/replies.jsonl` is read as expected, and within the time of rule R18."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.quick import in_a_second
from vrthinker_core.protocols import make_protocol, to_expected
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
