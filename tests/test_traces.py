"""Traces: written whole, read back only when they are what they say."""

from __future__ import annotations

import base64
import json
import math
import random
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.test_judge import ANSWER
from tests.ui.support import handmade_runs
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import TraceError, type_adapter
from vrthinker_core.protocols import Paired
from vrthinker_core.runner import judge
from vrthinker_core.traces import from_json, jpeg_size, load, make_thumbnail, to_json
from vrthinker_core.types import Frame, FrameRef, Side, Trace, VideoPair


@pytest.fixture(scope="module")
def stored(clips: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("trace") / "run.json"
    list(judge(VideoPair("p", *clips), ScriptedBackend([ANSWER]), trace=path))
    return path.read_bytes()


def changed(stored: bytes, where: Sequence[Any], value: Any) -> bytes:
    """The stored trace with another value in one place."""
    data = json.loads(stored)
    place = reduce(lambda inner, key: inner[key], where[:-1], data)
    place[where[-1]] = value
    return json.dumps(data).encode()


def check_refused(data: bytes) -> None:
    """One short sentence, whatever the trace holds."""
    with pytest.raises(TraceError) as error:
        from_json(data)
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")
    assert len(str(error.value)) < 400


ORIGIN = {"prompt": "", "judge": "", "settings": {}}


TAMPERED: dict[str, list[Any]] = {
    "format": ["vr-thinker-trace/999"],
    "started.prompt": [None],
    "started.dialect": ["klingon"],
    "started.clips.0.fps": [math.nan],
    "started.clips.0.frames": [-1, 10**400],
    "started.settings.temperature": [math.inf],
    "started.settings.max_turns": [99],
    "started.branch": [
        *({"origin": ORIGIN, "turn": turn} for turn in (0, 66)),
        *({"origin": ORIGIN, "turn": 2, "frames": slots} for slots in ([-1], [2**60], [1] * 257)),
        {"origin": ORIGIN | {"settings": {"temperature": -math.inf}}, "turn": 2},
        {"origin": ORIGIN | {"prompt": "x" * 13_000_000}, "turn": 2},
    ],
    "turns": [{"0": 1}],
    "turns.0.number": [7],
    "turns.0.frames.0.jpeg": ["PHN2Zz4="],
    "turns.0.frames.0.seconds": [math.inf],
    "turns.0.frames.0.until": [-0.5],
    "turns.0.frames.0.index": [-1, 2**53],
    "turns.0.frames.0.ref.side": [3],
    "turns.0.frames.0.ref.slot": [-1],
    "turns.0.in_view.0.slot": [-1, -(10**400)],
    "turns.0.completion.pieces": [[1, 2, 3], [-1, 1]],
    "turns.0.completion.seconds": [math.nan],
    "turns.0.completion.new_tokens": [-5],
    "turns.0.completion.prompt_tokens": [10**400],
    "turns.0.completion.reused_tokens": [-1],
    "turns.0.completion.tokens": [[-1]],
    "turns.0.reply.confidence": [0, 77, 10**400],
    "turns.0.reply.wants": [
        {"indices": [10**400]},
        {"indices": [1], "asked": -1},
        *({"indices": [1], "dropped": [odd]} for odd in (math.nan, -math.inf, 10**400)),
    ],
    "finished.stop": ["because"],
    "finished.seconds": [-math.inf],
    "finished.verdict.TA": [5],
}


@pytest.mark.parametrize("place", TAMPERED)
def test_a_trace_that_was_tampered_with_is_refused(stored: bytes, place: str) -> None:
    where = [int(key) if key.isdecimal() else key for key in place.split(".")]
    for value in TAMPERED[place]:
        check_refused(changed(stored, where, value))


def test_what_a_reply_may_hold_is_read_back(stored: bytes) -> None:
    numbers = f"1, 1e300, -{'9' * 39}, {'9' * 40}, NaN, -3, 0.5"
    reply = Paired().parse(f"<tool_call>[{numbers}, true, null]</tool_call>")
    trace = from_json(stored)
    said = replace(trace, turns=(replace(trace.turns[0], reply=replace(reply, confidence=5)),))
    assert len(reply.wants.dropped) == 8
    assert from_json(to_json(said)) == said


def test_no_field_of_a_trace_takes_a_list_without_a_bound() -> None:
    schema = repr(type_adapter(Trace).core_schema)
    lists = schema.count("'variadic_item_index'")
    assert (lists, lists) == (schema.count("'max_length'"), schema.count("'fail_fast': True"))
    assert lists > 15


@pytest.mark.parametrize("item", [1, "", [], {"ref": {}}, [[[]]]], ids=json.dumps)
@pytest.mark.parametrize("where", [["started", "notes"], ["turns"], ["turns", 0, "frames"]])
def test_a_list_of_wrong_items_takes_no_memory(stored: bytes, where: list[Any], item: Any) -> None:
    """A sentence about each of them took 3.6 GB for a file of 1.5 MB."""
    data = changed(stored, where, [item] * 90_000)
    tracemalloc.start()
    check_refused(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


@pytest.mark.parametrize("item", [b"0,", b"[[[[[[[[]]]]]]]],", b'{"":"\\""},'])
def test_a_file_of_very_many_values_is_not_even_parsed(item: bytes) -> None:
    check_refused(b'{"started": [' + item * (30 * 2**20 // len(item)) + b"0]}")


@pytest.mark.parametrize("text", ["a," * 900_000, "[{" * 900_000, '\\",["' * 300_000], ids=len)
def test_what_stands_in_a_text_is_no_value(stored: bytes, text: str) -> None:
    data = changed(stored, ["finished", "error"], text)
    assert from_json(data).finished == replace(from_json(stored).finished, error=text)


def test_the_frames_of_all_turns_and_the_texts_have_bounds_too(stored: bytes) -> None:
    turn = json.loads(stored)["turns"][0]
    frame = turn["frames"][0]
    turns = [{**turn, "number": number, "frames": [frame] * 250} for number in range(1, 41)]
    check_refused(changed(stored, ["turns"], turns))
    check_refused(changed(stored, ["started", "prompt"], "x" * 13_000_000))


def with_size(jpeg: bytes, width: int, height: int) -> bytes:
    """The picture, its header with another size."""
    start = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:start] + height.to_bytes(2) + width.to_bytes(2) + jpeg[start + 4 :]


@pytest.mark.parametrize("size", [(65535, 65535), (12_000, 10_000), (1, 65535), (0, 0)], ids=str)
def test_a_picture_is_measured_by_its_header_alone(stored: bytes, size: tuple[int, int]) -> None:
    jpeg = from_json(stored).turns[0].frames[0].jpeg
    assert jpeg_size(with_size(jpeg, 300, 200)) == (300, 200)
    told = base64.urlsafe_b64encode(with_size(jpeg, *size)).decode()
    check_refused(changed(stored, ["turns", 0, "frames", 0, "jpeg"], told))


@pytest.mark.parametrize(
    ("width", "height"), [(40_000, 28), (28, 40_000), (400, 300), (2, 1), (1792, 224)]
)
def test_the_thumbnail_of_every_frame_can_be_read_back(width: int, height: int) -> None:
    noise = random.Random(1).randbytes(width * height * 3)
    frame = Frame(FrameRef(3, Side.FIRST), 5, 0.2, 0.3, width, height, "key", noise)
    trace = handmade_runs.three_turns()
    first = replace(trace.turns[0], frames=(make_thumbnail(frame, "3"),))
    shown = replace(trace, turns=(first, *trace.turns[1:]))
    assert from_json(to_json(shown)) == shown


@given(st.data())
def test_no_header_of_a_picture_raises(data: st.DataObject) -> None:
    jpeg = bytearray(handmade_runs.jpeg(1, 2, 3))
    for _ in range(data.draw(st.integers(1, 8))):
        jpeg[data.draw(st.integers(0, min(len(jpeg), 200) - 1))] = data.draw(st.integers(0, 255))
    assert len(jpeg_size(bytes(jpeg))) == 2


@given(st.one_of(st.binary(max_size=400), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_a_trace_or_a_named_error(data: bytes) -> None:
    with pytest.raises(TraceError):
        from_json(data)


@pytest.mark.parametrize("key", ["prompt", "notes", "clips", "unknown", ""])
def test_what_is_deeply_nested_is_refused(stored: bytes, key: str) -> None:
    data, deep = json.loads(stored), "[" * 100_000 + "]" * 100_000
    data["started"][key] = "DEEP"
    with pytest.raises(TraceError):
        from_json((json.dumps(data).replace('"DEEP"', deep) if key else deep).encode())


def test_what_is_not_there_or_no_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nothing\.json"):
        load(tmp_path / "nothing.json")
    with pytest.raises(TraceError, match=r"^Cannot read the trace .*: Is a directory\.$"):
        load(tmp_path)


LATER = {
    "branch": ["started", "branch"],
    "a second run": ["swapped"],
    "the setting for it": ["started", "settings", "swap"],
    "a vote": ["vote"],
    "reasoning": ["turns", 0, "completion", "reasoning"],
    "label probabilities": ["turns", 0, "completion", "label_tokens"],
}


@pytest.mark.parametrize("where", LATER.values(), ids=LATER)
def test_a_trace_of_an_earlier_version_is_read(stored: bytes, where: list[Any]) -> None:
    data = json.loads(stored)
    place = reduce(lambda inner, key: inner[key], where[:-1], data)
    del place[where[-1]]
    assert from_json(json.dumps(data).encode()) == from_json(stored)
