"""The table of settings: one row for each field, and whatever a person gives is a value in its range or one sentence."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.settings import OWN, SETTINGS, Setting, parse_settings, setting

every_row = pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)


def test_every_field_has_one_row() -> None:
    assert [row.name for row in SETTINGS] == [field.name for field in fields(Settings)]


@every_row
def test_a_row_says_what_it_is_in_plain_words(row: Setting) -> None:
    assert row.label
    assert row.help.endswith(".")
    assert row.range in f"{row.range}{row.help}"
    assert row.words or row.number


@every_row
def test_what_a_form_offers_is_in_the_range(row: Setting) -> None:
    for value in (row.default, *row.words, *row.offered):
        row.check(value)
        assert row.parse(value) == value
        assert row.parse(OWN if value is None else str(value)) == value


@every_row
@pytest.mark.parametrize("left_out", [None, "", OWN])
def test_what_is_left_out_is_the_default(row: Setting, left_out: object) -> None:
    assert row.parse(left_out) == getattr(Settings(), row.name)


NUMBERS = st.integers() | st.floats() | st.booleans()
ANYTHING = st.text(max_size=40) | NUMBERS | st.lists(st.integers()) | st.just({})


@every_row
@given(value=ANYTHING)
def test_anything_else_is_a_value_or_one_sentence(row: Setting, value: object) -> None:
    sentence = ""
    try:
        row.check(row.parse(value))
    except BadInput as bad:
        sentence = str(bad)
    assert not sentence or sentence.startswith(f'The setting "{row.label}" must ')
    assert sentence.isprintable() or not str(value).isprintable()
    assert len(sentence.splitlines()) <= 1


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("max_turns", 33, "lie between 1 and 32; it is 33."),
        ("max_turns", "1.5", "be a whole number from 1 to 32; it is '1.5'."),
        ("window", -1, "be all, or a whole number from 0 up; it is -1."),
        ("window", 10**17, "lie between 0 and 9007199254740991; it is 100000000000000000."),
        ("total", 97, "be an even number from 16 to 1024; it is 97."),
        ("protocol", "french", "be one of auto, paired, concat; it is 'french'."),
        ("temperature", "nan", "be a number from 0 to 2; it is nan."),
        ("temperature", 2.5, "lie between 0 and 2; it is 2.5."),
        ("temperature", 10**400, f"lie between 0 and 2; it is 1{'0' * 39}."),
        ("seed", -(10**400), f"lie between 0 and 2147483647; it is -1{'0' * 38}."),
        ("seed", True, "be a whole number from 0 to 2147483647; it is True."),
        ("max_turns", 3.5, "be a whole number from 1 to 32; it is 3.5."),
        ("max_turns", math.inf, "be a whole number from 1 to 32; it is inf."),
        ("max_turns", [3.0], "be a whole number from 1 to 32; it is [3.0]."),
        ("max_turns", -1.0, "lie between 1 and 32; it is -1."),
    ],
)
def test_the_sentence_names_the_setting_and_its_range(name: str, value: object, rule: str) -> None:
    with pytest.raises(BadInput) as bad:
        setting(name).parse(value)
    assert str(bad.value) == f'The setting "{setting(name).label}" must {rule}'


@pytest.mark.parametrize(
    ("name", "value", "whole"),
    [("max_turns", 3.0, 3), ("window", 0.0, 0), ("seed", 2.0**31 - 1, 2**31 - 1)],
)
def test_a_whole_number_is_whole_however_json_writes_it(
    name: str, value: float, whole: int
) -> None:
    found = setting(name).parse(value)
    assert (found, type(found)) == (whole, int)
    assert getattr(parse_settings(json.loads(f'{{"{name}": {value}}}')), name) == whole


def test_settings_by_name() -> None:
    with pytest.raises(BadInput, match=r"; it is a number of more than 4,300 digits\.$"):
        parse_settings({"seed": 10**5000})
    assert parse_settings({}) == Settings()
    chosen = {"window": "all", "max_turns": 3, "temperature": 0.7}
    assert parse_settings(chosen | {"max_turns": "3"}) == Settings(**chosen)  # type: ignore[arg-type]
    for unknown in ("windows", "frames"):  # A visitor chooses no control
        with pytest.raises(BadInput, match=f"There is no setting '{unknown}'"):
            parse_settings({unknown: "random"})


@pytest.mark.parametrize(
    "wrong",
    [
        {"swap": True}, {"max_turns": "3"}, {"max_turns": 0}, {"max_turns": 3.0}, {"window": -1}, {"window": "some"},
        {"seed": None}, {"temperature": math.nan}, {"preset": "x"}, {"fit": "x"}, {"total": 14}, {"total": 97},
    ],
)  # fmt: skip
def test_settings_are_refused_where_they_are_made(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(BadInput, match=f'^The setting "{setting(name).label}" must .*; it is '):
        Settings(**wrong)
    with pytest.raises(BadInput, match="must"):
        replace(Settings(), **wrong)


@pytest.mark.parametrize("protocol", ["concat", "paired"])
@every_row
def test_every_value_a_form_offers_makes_a_protocol(row: Setting, protocol: ProtocolName) -> None:
    for value in (*row.words, *row.offered):
        if (row.name, protocol) == ("frames_per_call", "concat") and value not in (None, *range(9)):
            continue  # The other protocol allows more
        if (row.name, protocol, value) == ("opening_frames", "paired", 32):
            continue  # Only the other protocol has it
        chosen = replace(Settings(), **{row.name: value})
        assert getattr(with_defaults(chosen, make_protocol(chosen, protocol)), row.name) is not None
