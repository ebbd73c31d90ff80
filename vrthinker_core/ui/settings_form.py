"""The page's form: the chosen judge, and what each row of `SETTINGS` offers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.settings import OWN, SETTINGS, Setting

OWN_NAME = "As the protocol says"  # what the form calls `OWN`
# Beside the judge; all others are folded away below
FIRST_ROW = ("protocol", "window", "max_turns", "frames_per_call")


def choices(row: Setting) -> list[tuple[str, str]]:
    """Return (name, value) of all that the form offers for a setting, in order."""
    own = [(OWN_NAME, OWN)] if row.default is None else []
    numbers = [(row.names.get(number, _text(number)), _text(number)) for number in row.offered]
    return [*own, *numbers, *((name, word) for word, name in row.words.items())]


def default_value(row: Setting) -> str:
    """Return the value that is chosen at first."""
    return OWN if row.default is None else _text(row.default)


def form_values(settings: Settings, trained: Sequence[ProtocolName] = ()) -> dict[str, str]:
    """Return the values that ask for these settings of a run.

    A value equal to the default is shown as the default: for a run that has begun, the default of
    its protocol (`trained`: the protocols of its judge). A value that no run can be asked for, from
    a foreign trace, is shown as the default, too.
    """
    own = Settings()
    if settings.protocol != "auto":
        filled = with_defaults(own, make_protocol(own, settings.protocol))
        own = replace(filled, protocol=chosen_protocol(own, trained))
    asked = {row.name: getattr(settings, row.name) for row in SETTINGS}
    protocol: ProtocolName = "concat" if settings.protocol == "concat" else "paired"

    def value(row: Setting) -> str:
        sent: Any = asked[row.name]
        if sent is None or sent == getattr(own, row.name):
            return default_value(row)
        try:
            make_protocol(replace(Settings(), **{row.name: sent}), protocol)
        except BadInput:
            return default_value(row)
        return _text(sent)

    return {row.name: value(row) for row in SETTINGS}


def help_text(row: Setting) -> str:
    """Return the table's help; it names a protocol that alone has the setting."""
    return f"{row.help} Only in {row.protocol}." if row.protocol else row.help


def parse_judge(value: object, offered: Sequence[str]) -> str:
    """Return the judge that was asked for, by default the first one.

    What stands in brackets may be left out. Raises BadInput for one that is not offered.
    """
    if value in (None, ""):
        return offered[0]
    for names in (offered, [name.partition(" (")[0] for name in offered]):
        if value in names:
            return offered[names.index(value)]
    raise BadInput(f"There is no judge {str(value)[:40]!r} here. Choose {', '.join(offered)}.")


def _text(value: str | float) -> str:
    """Write a value as a form sends it: "0", not "0.0"."""
    return str(value).removesuffix(".0")
