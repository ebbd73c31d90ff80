"""What the page's form offers for each row of the table of settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.settings import OWN, SETTINGS, Setting, parse_settings
from vrthinker_core.ui.settings_form import OWN_NAME, choices, default_value, form_values, help_text

every_row = pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)


def test_the_form_as_it_opens_gives_the_default_settings() -> None:
    assert parse_settings({row.name: default_value(row) for row in SETTINGS}) == Settings()


@every_row
def test_the_default_is_offered_and_nothing_is_offered_twice(row: Setting) -> None:
    names, values = zip(*choices(row), strict=True)
    assert default_value(row) in values
    assert len(set(names)) == len(set(values)) == len(values)
    assert (OWN_NAME, OWN) in choices(row)[:1] or row.default is not None


@every_row
def test_every_word_and_offered_number_can_be_chosen(row: Setting) -> None:
    chosen = [row.parse(value) for _, value in choices(row) if value != OWN]
    assert chosen == [*row.offered, *row.words]


@every_row
def test_the_help_names_the_only_protocol_that_has_the_setting(row: Setting) -> None:
    assert help_text(row).startswith(row.help)
    assert [name for name in ("concat", "paired") if f"Only in {name}." in help_text(row)] == [
        row.protocol
    ] * bool(row.protocol)


ANYTHING = st.one_of(
    st.none(),
    st.text(),
    st.integers(),
    st.floats(),
    st.lists(st.text()),
    st.dictionaries(st.text(), st.text()),
)


@every_row
@given(value=ANYTHING)
def test_any_value_is_refused_or_becomes_one_in_range_and_changes_no_other(
    row: Setting, value: object
) -> None:
    try:
        settings = parse_settings(
            {each.name: default_value(each) for each in SETTINGS} | {row.name: value}
        )
    except BadInput:
        return
    row.check(getattr(settings, row.name))
    assert replace(settings, **{row.name: row.default}) == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("window", None), ("max_turns", None), ("frames_per_call", None)],
        *[
            ("window", -1),
            ("max_turns", 99),
            ("frames_per_call", 12),
            ("max_new_tokens", 0),
            ("temperature", 5.0),
            ("total", 97),
        ],
    ],
)
def test_what_no_run_can_be_asked_for_is_left_as_the_form_opens(name: str, value: Any) -> None:
    """A trace from elsewhere may hold it; 12 frames per call are more than `concat` allows."""
    begun = with_defaults(Settings(temperature=0.3), make_protocol(Settings(), "concat"))
    values = form_values(replace(begun, **{name: value}), ("concat",))
    assert values == {row.name: default_value(row) for row in SETTINGS} | (
        {} if name == "temperature" else {"temperature": "0.3"}
    )


@pytest.mark.parametrize(
    "trained",
    [(), ("paired",), ("concat",), ("paired", "concat")],
    ids=lambda names: " ".join(names) or "any",
)
@given(data=st.data())
def test_the_form_asks_for_the_settings_of_a_run_again(
    trained: tuple[ProtocolName, ...], data: st.DataObject
) -> None:
    chosen = parse_settings(
        {
            row.name: data.draw(st.sampled_from([value for _, value in choices(row)]))
            for row in SETTINGS
        }
    )

    def begun(settings: Settings) -> Settings:
        return with_defaults(settings, make_protocol(settings, chosen_protocol(settings, trained)))

    try:
        of_the_run = begun(chosen)
    except BadInput:
        return  # more frames per call than the protocol allows
    assert begun(parse_settings(form_values(of_the_run, trained))) == of_the_run
    assert (
        parse_settings(form_values(begun(Settings()), trained))
        == parse_settings(form_values(Settings()))
        == Settings()
    )
