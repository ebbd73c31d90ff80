"""A safetensors file whose header lies is refused with one sentence, before a weight is read and without a crash."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from vrthinker_core.backends import NANO
from vrthinker_core.backends.checkpoint_files import check_files, tensor_shapes
from vrthinker_core.errors import CheckpointError

DEEP = 200_000
UNREADABLE = "weights.safetensors is damaged: its safetensors header cannot be read."
Entry = dict[str, object]


def entry(**changed: object) -> Entry:
    """Two float32 numbers at the beginning of the data."""
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changed


def file_of(
    header: Mapping[str, object] | list[object] | bytes, data: int = 8, length: int | None = None
) -> bytes:
    """A file with that header, `data` zero bytes, and `length` in place of the header's own length."""
    written = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(written) if length is None else length) + written + bytes(data)


def refusal(tmp_path: Path, content: bytes) -> str:
    """The sentence that refuses a file of that content."""
    path = tmp_path / "weights.safetensors"
    path.write_bytes(content)
    began = time.perf_counter()
    with pytest.raises(CheckpointError) as caught:
        tensor_shapes(path)
    sentence = str(caught.value)
    assert time.perf_counter() - began < 5
    assert len(sentence) < 200
    assert sentence.isprintable()
    return sentence


WHOLE = len(json.dumps({"a": entry()}))
HEADERS: dict[str, bytes] = {
    "no bytes": b"",
    "header length one too small": file_of({"a": entry()}, length=WHOLE - 1),
    "header length one too large": file_of({"a": entry()}, length=WHOLE + 1),
    "header beyond the limit": file_of({"a": entry()}, length=100_000_001),
    "header length 2^64 - 1": file_of({"a": entry()}, length=2**64 - 1),
    "not UTF-8": file_of(b'{"\xff\xfe": 1}'),
    "half a surrogate pair": file_of(json.dumps({"\ud800": entry()}).encode()),
    "not JSON": file_of(b"{a: 1}"),
    "JSON and more": file_of(json.dumps({"a": entry()}).encode() + b"more"),
    "a list": file_of([]),
    "deeply nested lists": file_of(b"[" * DEEP + b"]" * DEEP),
    "__metadata__ a list": file_of({"__metadata__": [1], "a": entry()}),
    "__metadata__ of numbers": file_of({"__metadata__": {"a": 1}, "a": entry()}),
    "no shape": file_of({"a": {"dtype": "F32", "data_offsets": [0, 8]}}),
    "unknown dtype": file_of({"a": entry(dtype="Q9")}),
    "a negative shape": file_of({"a": entry(shape=[-2])}),
    "a fractional shape": file_of({"a": entry(shape=[2.0])}),
    "a shape of booleans": file_of({"a": entry(shape=[True, 2])}),
    "a shape that overflows": file_of({"a": entry(shape=[2**62, 4, 2])}),
    "a shape beyond 64 bits": file_of({"a": entry(shape=[10**400])}),
    "a shape that needs more data": file_of({"a": entry(shape=[3])}),
    "a number of 5,001 digits": file_of(b'{"a": ' + b"9" * 5001 + b"}"),
    "negative offsets": file_of({"a": entry(data_offsets=[-8, 0])}),
    "tensors that overlap": file_of({"a": entry(), "b": entry(data_offsets=[4, 12])}, data=12),
    "a hole between tensors": file_of({"a": entry(), "b": entry(data_offsets=[16, 24])}, data=24),
    "offsets beyond 64 bits": file_of({"a": entry(data_offsets=[0, 2**70])}),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS.keys())
def test_unsound_header_is_refused(tmp_path: Path, content: bytes) -> None:
    assert refusal(tmp_path, content) == UNREADABLE


@pytest.mark.parametrize(
    ("header", "data", "expected"),
    [
        ({"a": entry()}, 0, 8),
        ({"a": entry()}, 7, 8),
        ({"a": entry()}, 9, 8),
        ({"b": entry(data_offsets=[8, 16]), "a": entry()}, 15, 16),
        ({"__metadata__": {"format": "pt"}}, 8, 0),
        ({"a": entry(), "__metadata__": {"m": '"data_offsets": [0, 99]'}}, 7, 8),
    ],
    ids=["no data", "short", "long", "two tensors", "no tensor", "offsets in metadata"],
)
def test_wrong_length_is_named_with_the_right_one(
    tmp_path: Path, header: Entry, data: int, expected: int
) -> None:
    content = file_of(header, data)
    right = len(content) - data + expected
    told = f"it should be {right:,} bytes long and is {len(content):,}. Fetch it again."
    assert told in refusal(tmp_path, content)


NAMES = {"newline": "two\nlines", "escape": "\x1b[31m", "NUL": "a\0b", "long": "a" * 5_000_000}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_tensor_name_that_cannot_stand_in_a_sentence_is_refused(tmp_path: Path, name: str) -> None:
    sentence = refusal(tmp_path, file_of({name: entry()}))
    assert "the name of a tensor is too long or cannot be printed" in sentence


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("folder", "loop", "missing"):
        with pytest.raises(CheckpointError, match=f"{name} cannot be read: "):
            tensor_shapes(tmp_path / name)


def test_sound_headers_give_their_shapes(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    header = {
        "__metadata__": {"format": "pt"},
        "half": entry(dtype="BF16", shape=[2, 2]),
        "one": entry(shape=[], data_offsets=[8, 12]),
        "none": entry(shape=[0, 7], data_offsets=[12, 12]),
    }
    for padded in (header, json.dumps(header).encode() + b"     "):
        path.write_bytes(file_of(padded, 12))
        assert tensor_shapes(path) == {"half": (2, 2), "one": (), "none": (0, 7)}


def test_random_damage_to_a_header_never_crashes(tmp_path: Path) -> None:
    """Every damaged header either raises CheckpointError or still describes a whole file."""
    content = min(NANO.glob("*.safetensors")).read_bytes()
    size = 8 + struct.unpack("<Q", content[:8])[0]
    source, path = random.Random(5), tmp_path / "weights.safetensors"
    path.write_bytes(content)
    refused = 0
    for _ in range(300):
        header = bytearray(content[:size])
        for _ in range(source.choice([1, 1, 4])):
            header[source.randrange(size)] = source.choice([*b'0123456789[]{}",:-.e\\ ', 0, 255])
        with path.open("r+b") as file:
            file.write(header)
        with suppress(CheckpointError):
            tensor_shapes(path)
            continue
        refused += 1
    assert refused > 150


def test_folder_in_the_place_of_weights_is_no_weights(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen2_5_vl"}')
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(CheckpointError, match="has no weights"):
        check_files(tmp_path)
