"""Calls: broken JSON is repaired, indices are never invented, clamped or wrapped."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, strategies as st

from vrthinker_core.protocols import Concat, Paired
from vrthinker_core.protocols.tool_calls import parse_repaired, parse_strict
from vrthinker_core.types import FrameSelection, ProblemKind, Reply


def read(body: str) -> Reply:
    return Paired().parse(f"<Think>t</Think><tool_call>{body}</tool_call>")


def wanted(body: str) -> FrameSelection:
    reply = read(body)
    assert reply.wants is not None, reply.problems
    return reply.wants


def frames(value: str) -> FrameSelection:
    return wanted(f'{{"name": "select_frames", "arguments": {{"frame_indices": {value}}}}}')


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}',
        '{"name": "Select-Frames", "parameters": {"target_frames": [10, 30]}}',
        '{"type": "function", "function": {"name": "select_frames", "arguments": "{\\"frame_indices\\": [10, 30]}"}}',
        '{"name": "functions.select_frames", "arguments": [10, 30]}',
        '{"arguments": "[10, 30]"}',
        '{"frame_indices": "10, 30"}',
        '{"frame_indices": " 10, 30, "}',
        '{"frame_indices": "10、30"}',
        '{"arguments": "[10；30]"}',
        '{"frame_indices": ［10，30］}',
        '{"arguments": {"frame_indices": [10], "frame_indices": 30}}',
        '{"frame_indices": [10], "frame_indices ": [30]}',
        '{"Frame Indices": ["10", " 30 "]}',
        '{"name": null, "frame_indices": [10, 30]}',
        '[{"frame_indices": [10]}, {"frame_indices": [30]}]',
        '"{\\"frame_indices\\": [10, 30]}"',
        "[10, 30]",
        '{"frame_indices": [10, 30], "why": "then <Answer>TA=1</Answer> } and {"}',
        '{"frame_indices": [10, 30], "why": "</tool_call>"}',
        '```json\n{"frame_indices": [10, 30]}\n```',
        "\n<function=select_frames>\n<parameter=frame_indices>\n[10, 30]\n</parameter>\n</function>\n",
        "select_frames\n<arg_key>frame_indices</arg_key>\n<arg_value>[10, 30]</arg_value>\n",
        '<invoke name="select_frames"><parameter name="target_frames">10, 30</parameter></invoke>',
    ],
)
def test_strict_json_is_read_in_any_shape(body: str) -> None:
    reply = read(body)
    assert reply.wants.indices == (10, 30)
    assert reply.problems == ()


@pytest.mark.parametrize(
    "body",
    [
        "{'name': 'select_frames', 'arguments': {'frame_indices': [10, 30,]}}",
        '{"name": "select_frames", // closer\n "arguments": {"frame_indices": [10, 30/* mid */]}}',
        '{"name": "select_frames", # closer\n "arguments": {"frame_indices": [10, 30]}}',
        '{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}',
        '{"name": "select_frames", "arguments": {"frame_indices": [10, 30}}',
        '{"name": "select_frames", "arguments": {"frame_indices": [10, 30]]}}',
        '{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}}',
        '{"name": "select_frames"}, "arguments": {"frame_indices": [10, 30]}}',
        '"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}',
        '{{"name": "select_frames", "arguments": {{"frame_indices": [10, 30]}}}}',
        '{"name": "select_frames" "arguments": {"frame_indices": [10 30]}}',
        "{name: select_frames, arguments: {frame_indices: [10, 30], strict: True, note: None}}",
        "{'frame_indices': [10, 30], 'why': 'not <Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>'}",
        "{'frame_indices': [10, 30], 'why': '</tool_call>'}",
        "{“name”: “select_frames”, “arguments”: {“frame_indices”: [10, 30]}}",
        'select_frames({"frame_indices": [10, 30]})',
        '{"frame_indices": [10]}\n{"frame_indices": [30]}',
        '{"frame_indices": [10, 30]} please',
        *(f'{{"frame_indices": [10{sign}30], "why": "a{sign} b"}}' for sign in "、､；﹐﹑﹔;"),
        '{"frame_indices": ［"10"、 30、］}',
        r'\n{\n "name": "select_frames",\r\n\t"arguments": {"frame_indices": [10,\n30]}\n}\n',
    ],
)
def test_slips_are_repaired_and_named(body: str) -> None:
    reply = read(body)
    assert reply.wants.indices == (10, 30)
    assert [problem.kind for problem in reply.problems] == [ProblemKind.REPAIRED]


@pytest.mark.parametrize(
    "body",
    [
        *("", "null", "42", "frames 10 and 30", "select_frames([10, 30])", "{10, 30}", "[10:30]"),
        *('{"a": "b', '{"a": [1, 2', "[1, 12", "{'frame_indices': [1, 12"),
        *("{'frame_indices': 1, 2, 3}", "{'frame_indices': [1, 2] 3, 4]}"),
        '{"arguments": {"frame_indices": [10, 30}',
        '{"arguments": {"frame_indices": [10, 30]',
    ],
)
def test_what_is_no_call_or_would_have_to_be_guessed_is_bad_json(body: str) -> None:
    reply = read(body)
    assert reply.wants is None
    assert [problem.kind for problem in reply.problems] == [ProblemKind.BAD_JSON]


@pytest.mark.parametrize(
    "name", ["crop_image", "select_frame", "SELECT", ["select_frames"], {"a": 1}, 3]
)
def test_an_unknown_tool_is_refused_by_name(name: object) -> None:
    reply = read(json.dumps({"name": name, "arguments": {"frame_indices": [5]}}))
    assert reply.wants is None
    assert [problem.kind for problem in reply.problems] == [ProblemKind.UNKNOWN_TOOL]
    said = f'There is no tool "{name}"' if isinstance(name, str | int) else "The call names no tool"
    assert reply.problems[0].detail == f"{said}; the only one is select_frames."


@pytest.mark.parametrize(
    ("body", "indices", "dropped"),
    [
        ("[−1, 10]", (10,), ("−1",)),
        ("[1_2, 10]", (10,), ("1_2",)),
        ("[5%, +6, 7-, 8e, 10]", (10,), ("5%", "+6", "7-", "8e")),
        ("[½, ², 10]", (10,), ("½", "²")),
        ("{'frame_indices': [10 to 30, 5]}", (5,), ("10 to 30",)),
        ("[- 5, 6 7, 5 / 2, 1. 5]", (6, 7), ("- 5", "5 / 2", "1. 5")),
        ("{'frame_indices': [10, …, 30]}", (10, 30), ("…",)),
        ("{'frame_indices': [10]} {'frame_indices': [30]}", (10, 30), ()),
        ("[−1、10、5%]", (10,), ("−1", "5%")),
    ],
)
def test_a_repair_changes_no_number_and_loses_none(
    body: str, indices: tuple[int, ...], dropped: tuple[str, ...]
) -> None:
    assert (wanted(body).indices, wanted(body).dropped) == (indices, dropped)


def test_a_repair_never_hides_the_real_problem() -> None:
    kinds = [problem.kind for problem in read("{'name': 'zoom'}").problems]
    assert kinds == [ProblemKind.UNKNOWN_TOOL, ProblemKind.REPAIRED]


def test_a_strange_tool_name_is_quoted_without_its_brackets() -> None:
    detail = read(json.dumps({"name": "<|image_pad|>" + "x" * 100})).problems[0].detail
    assert "<" not in detail
    assert len(detail) < 120


@pytest.mark.parametrize(
    ("value", "indices", "dropped"),
    [
        ("[10.0, 1e1, 30.0]", (10, 30), ()),
        ("[-0, -0.0]", (0,), ()),
        ('["１０", "30"]', (10, 30), ()),
        ("[10.5, 30]", (30,), (10.5,)),
        ("[-1, 128, 127]", (127,), (-1, 128)),
        ("[NaN, Infinity, -Infinity, 1e400, 5]", (5,), ("NaN", "Infinity", "-Infinity", "1e400")),
        ("[true, false, null, 5]", (5,), ("true", "false", None)),
        ('[[10, 30], {"a": 1}, [[1]], "x", 5]', (5,), ("[10, 30]", "{…}", "[…]", "x")),
        ('["10.0", "-1", "10-30", "", 5]', (5,), ("10.0", "-1", "10-30", "")),
        ("[0x10, 5]", (5,), ("0x10",)),
        ('["\\ud800", 5]', (5,), ("?",)),
        ("[99999999999999999999, 5]", (5,), (99999999999999999999,)),
        ("[200, 200, 5, 5]", (5,), (200,)),
        ("42", (42,), ()),
        ('"42"', (42,), ()),
        ('"-1; 5 0.5"', (5,), ("-1", "0.5")),
        ("true", (), ("true",)),
        ('{"start": 10}', (), ("{…}",)),
        ("[[10, 30], [60]]", (), ("[10, 30]", "[60]")),
        ("[]", (), ()),
        ("null", (), ()),
    ],
)
def test_integers_are_read_and_everything_else_is_dropped_and_reported(
    value: str, indices: tuple[int, ...], dropped: tuple[object, ...]
) -> None:
    request = frames(value)
    assert request.indices == indices
    assert request.dropped == dropped
    assert not request.truncated


@pytest.mark.parametrize("said", ["every 5 frames", "- 5", "[10, 12", '{"frame_indices": [10, 12'])
def test_no_frame_is_taken_out_of_a_sentence_or_a_list_without_end(said: str) -> None:
    for argument in ("arguments", "frame_indices"):
        request = wanted(json.dumps({argument: said}))
        assert (request.indices, request.dropped) == ((), (said,))


def test_a_number_of_5000_digits_is_dropped() -> None:
    request = frames(f"[{'9' * 5000}, 5]")
    assert request.indices == (5,)
    assert len(str(request.dropped[0])) < 50


@given(st.lists(st.integers(-5, 140), max_size=40))
@example([*[200] * 11, 5, 5, 6])
@example(list(range(12)))
def test_a_request_is_the_first_valid_indices_once_each_in_order(asked: list[int]) -> None:
    valid = list(dict.fromkeys(index for index in asked if 0 <= index < 128))
    request = frames(str(asked))
    assert list(request.indices) == valid[:12]
    assert request.truncated is (len(valid) > 12)
    assert request.asked == len(asked)
    assert set(request.dropped) == {index for index in asked if not 0 <= index < 128}


CALL = '<tool_call>{"frame_indices": [5]}</tool_call>'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"<tool_call>{json.dumps({'frame_indices': [5] * 200_000})}</tool_call>", (5,)),
        (f"<tool_call>{json.dumps({'frame_indices': [500] * 1000 + [5]})}</tool_call>", ()),
        (f"<tool_call>{json.dumps([{'frame_indices': [5]}] * 201)}</tool_call>", (5,)),
        (CALL * 200 + CALL.replace("5", "6"), (5,)),
    ],
    ids=["200,000 numbers", "the 1001st alone is a frame", "201 calls in a list", "201 calls"],
)
def test_a_reply_that_asks_for_more_than_is_read_says_so(text: str, found: tuple[int, ...]) -> None:
    reply = Paired().parse(text)
    assert (reply.wants.indices, reply.wants.truncated) == (found, True)
    (told,) = (each.detail for each in reply.problems if each.kind is ProblemKind.TRUNCATED)
    assert "1,000 frame numbers and 200 calls" in told
    # Not every one was looked at
    assert all("None of the frames" not in problem.detail for problem in reply.problems)


def test_the_most_that_is_read_is_not_called_too_much() -> None:
    for text in (f"<tool_call>{json.dumps({'frame_indices': [5] * 1000})}</tool_call>", CALL * 200):
        reply = Paired().parse(text)
        assert (reply.wants.indices, reply.wants.truncated, reply.problems) == ((5,), False, ())


@pytest.mark.parametrize(
    "broken",
    ["<tool_call>{bad</tool_call>", '<tool_call>{"name": "zoom"}</tool_call>', "<tool_call>"],
)
def test_a_bad_call_does_not_spoil_a_good_one(broken: str) -> None:
    for text in (
        f'{broken}<tool_call>{{"frame_indices": [3]}}</tool_call>',
        f'<tool_call>{{"frame_indices": [3]}}</tool_call>{broken}',
    ):
        assert Paired().parse(text).kind == "tool"


@pytest.mark.parametrize(
    "body",
    [
        *("{}", '{"frames": [3]}', '{"name": "select_frames"}'),
        *('{"frame_indices": [500]}', '{"frame_indices": []}'),
    ],
)
def test_a_readable_call_without_frames_has_no_valid_frames(body: str) -> None:
    reply = read(body)
    assert reply.wants is not None
    assert [problem.kind for problem in reply.problems] == [ProblemKind.NO_VALID_FRAMES]


def test_each_protocol_reads_both_argument_names_with_its_own_numbers() -> None:
    for name in ("frame_indices", "target_frames"):
        text = f'<tool_call>{{"{name}": [0, 96, 97]}}</tool_call>'
        paired, concat = Paired().parse(text).wants, Concat().parse(text).wants
        assert (paired.indices, concat.indices) == ((0, 96, 97), (96,))


@pytest.mark.parametrize(
    "tag", ["tool_call", "TOOL_CALL", "tool call", "tool-call", "ToolCall", 'tool_call id="1"']
)
def test_tag_names_are_read_in_any_notation(tag: str) -> None:
    for text in (
        f'<{tag}>{{"frame_indices": [3]}}</{tag}>',
        f'< {tag} >{{"frame_indices": [3]}}',
        f"<{tag}><{tag}>[3]</{tag}></{tag}>",
    ):
        reply = Paired().parse(text)
        assert (reply.kind, reply.problems) == ("tool", ())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.dictionaries(st.text(), JSON, max_size=4) | st.lists(JSON, max_size=4))
def test_repair_leaves_strict_json_as_it_is(value: object) -> None:
    text = json.dumps(value)
    assert parse_strict(text) == [value]
    assert parse_repaired(text) == [value]
    assert parse_repaired(f"so: {text} ") == [value] or text.startswith("[")
