"""Lenient JSON: what is JSON already stays as it is."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from vrthinker_core.protocols.lenient_json import parse_repaired, parse_strict

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
