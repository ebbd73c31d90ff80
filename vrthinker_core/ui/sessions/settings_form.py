"""What a person chose in the form, as the settings of a run. What comes from a browser is checked before it is believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from vrthinker_core.errors import BadInput
from vrthinker_core.types import ProtocolName, Settings

DEFAULT = "own"
"""The protocol's own value."""

ALL = "all"
"""A memory that never forgets."""

AUTO = "auto"
"""The protocol that the judge was trained for."""

WINDOWS = (DEFAULT, "0", "1", "2", "3", ALL)
TURNS = (DEFAULT, "1", "2", "3", "4", "6", "8", "12")
FRAMES = (DEFAULT, "1", "2", "4", "6", "8", "12")
PROTOCOLS = (AUTO, *get_args(ProtocolName))


def parse_settings(
    protocol: object = AUTO, window: object = DEFAULT, turns: object = DEFAULT, frames: object = DEFAULT
) -> Settings:
    """The settings of a run. Raises BadInput for what the form does not offer; ranges are the protocol's own matter."""
    return Settings(
        protocol=_protocol(protocol),
        window=_window(window),
        max_turns=_number("turns", turns, TURNS),
        frames_per_call=_number("frames per call", frames, FRAMES),
    )


def parse_judge(value: object, offered: Sequence[str]) -> str:
    """The name of the judge that was asked for; the first one where nobody asked. Raises BadInput for one that is not offered."""
    if value in (None, ""):
        return offered[0]
    for name in offered:
        if value == name:
            return name
    raise BadInput(f"There is no judge {str(value)[:40]!r} here. Choose {', '.join(offered)}.")


def _protocol(value: object) -> Literal["auto", "concat", "paired"]:
    for name in get_args(ProtocolName):
        if value == name:
            return name  # type: ignore[no-any-return]
    if value in (None, AUTO):
        return "auto"
    raise BadInput(f"There is no protocol {str(value)[:40]!r}. Choose {', '.join(PROTOCOLS)}.")


def _window(value: object) -> int | Literal["all"] | None:
    if value in (None, DEFAULT):
        return None
    if value == ALL:
        return "all"
    if isinstance(value, str) and value in WINDOWS:
        return int(value)
    raise BadInput(f"The memory cannot be {str(value)[:40]!r}. Choose one of those offered.")


def _number(what: str, value: object, offered: tuple[str, ...]) -> int | None:
    if value in (None, DEFAULT):
        return None
    if isinstance(value, str) and value in offered:
        return int(value)
    raise BadInput(f"The number of {what} cannot be {str(value)[:40]!r}. Choose one of those offered.")
