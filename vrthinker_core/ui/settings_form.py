"""The page's form: which judge was chosen, and what each row of the table of settings offers there."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.settings import OWN, SETTINGS, Setting

OWN_NAME = "As the protocol says"  # what the form calls `OWN`
FIRST_ROW = (
    "protocol",
    "window",
    "max_turns",
    "frames_per_call",
)  # beside the judge; all others are folded away below


def choices(row: Setting) -> list[tuple[str, str]]:
    """(name, value) of everything that the form offers for a setting, in the form's order."""
    own = [(OWN_NAME, OWN)] if row.default is None else []
    numbers = [(row.names.get(number, _text(number)), _text(number)) for number in row.offered]
    return [*own, *numbers, *((name, word) for word, name in row.words.items())]


def default_value(row: Setting) -> str:
    """The value that is chosen at first."""
    return OWN if row.default is None else _text(row.default)


def form_values(settings: Settings, trained: Sequence[ProtocolName] = ()) -> dict[str, str]:
    """The values that ask for these settings of a run; what is chosen at first stays wherever it gives the same.

    A run that has begun has its protocol's own value wherever nothing was chosen; `trained`: the protocols of its judge.
    What no run can be asked for, as it may stand in a trace from elsewhere, is left as it is chosen at first.
    """
    own = Settings()
    if settings.protocol != "auto":
        filled = with_defaults(own, make_protocol(own, settings.protocol))
        own = replace(filled, protocol=chosen_protocol(own, trained))
    different = (row for row in SETTINGS if getattr(settings, row.name) != getattr(own, row.name))
    changed = {row.name for row in different if _can_be_asked_for(settings, row)}
    return {
        row.name: _text(getattr(settings, row.name)) if row.name in changed else default_value(row)
        for row in SETTINGS
    }


def _can_be_asked_for(settings: Settings, row: Setting) -> bool:
    """Whether a run may have this one of the settings."""
    value: Any = getattr(settings, row.name)
    try:
        make_protocol(
            replace(Settings(), **{row.name: value}),
            "concat" if settings.protocol == "concat" else "paired",
        )
    except BadInput:
        return False
    return value is not None


def help_text(row: Setting) -> str:
    """The table's help; it says so where only one protocol has the setting."""
    return f"{row.help} Only in {row.protocol}." if row.protocol else row.help


def parse_judge(value: object, offered: Sequence[str]) -> str:
    """The name of the judge that was asked for, whole or else without what stands in brackets; the first one where nobody asked.

    Raises BadInput for one that is not offered.
    """
    if value in (None, ""):
        return offered[0]
    for name in offered:
        if value == name:
            return name
    for name in offered:
        if value == name.partition(" (")[0]:
            return name
    raise BadInput(f"There is no judge {str(value)[:40]!r} here. Choose {', '.join(offered)}.")


def _text(value: str | float) -> str:
    """As a form sends it: "0", not "0.0"."""
    return str(value).removesuffix(".0")
