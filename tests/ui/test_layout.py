"""What the page's form offers for each row of the table of settings."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.settings import OWN, SETTINGS, Setting, parse_settings
from vrthinker_core.ui.layout import OWN_NAME, choices, default_value, form_values, help_text

DEFAULTS = {row.name: default_value(row) for row in SETTINGS}


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.name)
def test_a_form_offers_all_of_a_setting_once_with_default_and_help(row: Setting) -> None:
    names, values = zip(*choices(row), strict=True)
    assert default_value(row) in values
    assert len(set(names)) == len(set(values)) == len(values)
    assert (OWN_NAME, OWN) in choices(row)[:1] or row.default is not None
    assert [row.parse(value) for value in values if value != OWN] == [*row.offered, *row.words]
    only = [name for name in ("concat", "paired") if f"Only in {name}." in help_text(row)]
    assert only == [row.protocol] * bool(row.protocol)


def test_the_form_opens_with_the_default_settings_and_so_with_what_a_trace_leaves_open() -> None:
    assert parse_settings(DEFAULTS) == Settings()
    begun = with_defaults(Settings(temperature=0.3), make_protocol(Settings(), "concat"))
    for name in ("window", "max_turns", "frames_per_call"):
        unset: dict[str, Any] = {name: None}
        form = form_values(replace(begun, **unset), ("concat",))
        assert form == {**DEFAULTS, "temperature": "0.3"}


@pytest.mark.parametrize("trained", [(), ("paired",), ("concat",), ("paired", "concat")], ids=str)
@given(data=st.data())
def test_the_form_asks_for_the_settings_of_a_run_again(
    trained: tuple[ProtocolName, ...], data: st.DataObject
) -> None:
    def begun(settings: Settings) -> Settings:
        return with_defaults(settings, make_protocol(settings, chosen_protocol(settings, trained)))

    offered = {row.name: [value for _, value in choices(row)] for row in SETTINGS}
    drawn = {name: data.draw(st.sampled_from(values)) for name, values in offered.items()}
    try:
        run = begun(parse_settings(drawn))
    except BadInput:
        return  # more frames per call than the protocol allows
    assert begun(parse_settings(form_values(run, trained))) == run
    for default in (form_values(begun(Settings()), trained), form_values(Settings())):
        assert parse_settings(default) == Settings()
