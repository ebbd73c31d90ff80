"""From what a person chose to a dialect, and to settings with every default filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from vrthinker_core.dialects import concat, paired
from vrthinker_core.dialects.base import Dialect
from vrthinker_core.errors import BadInput
from vrthinker_core.types import ProtocolName, Settings

MAX_TURNS: Final = 32
MIN_TOTAL: Final = 16


def make_dialect(settings: Settings, protocol: ProtocolName) -> Dialect:
    """The dialect of `protocol` as `settings` wants it. Raises BadInput for a setting out of its range."""
    _among("preset", settings.preset, ("card", "clean"))
    _among("opening", settings.opening, ("training", "card"))
    _among("fit", settings.fit, ("squash", "letterbox"))
    if protocol == "paired":
        per_call = _within("frames per call", settings.frames_per_call, paired.MAX_PER_CALL)
        return paired.Paired(settings.preset, per_call or paired.MAX_PER_CALL, settings.fit)
    per_call = _within("frames per call", settings.frames_per_call, concat.MAX_PER_CALL)
    if settings.total < MIN_TOTAL or settings.total % 2:
        raise BadInput(f"The total of frames must be an even number from {MIN_TOTAL} up; it is {settings.total}.")
    return concat.Concat(settings.preset, per_call or concat.MAX_PER_CALL, settings.total, settings.opening)


def with_defaults(settings: Settings, dialect: Dialect) -> Settings:
    """`settings` with the dialect's own value wherever nothing was chosen. Raises BadInput for a number out of its range."""
    turns = _within("turns", settings.max_turns, MAX_TURNS)
    window = settings.window
    if window is None:
        window = "all" if dialect.window is None else dialect.window
    if window != "all" and (not isinstance(window, int) or window < 0):
        raise BadInput(f'The memory window must be "all" or a number of rounds from 0 up; it is {window}.')
    return replace(
        settings,
        protocol=dialect.name,
        window=window,
        max_turns=turns or dialect.max_turns,
        frames_per_call=dialect.frames_per_call,
    )


def _within(what: str, value: int | None, most: int) -> int | None:
    if value is not None and not 1 <= value <= most:
        raise BadInput(f"The number of {what} must lie between 1 and {most}; it is {value}.")
    return value


def _among(what: str, value: str, names: Sequence[str]) -> None:
    if value not in names:
        raise BadInput(f'The setting "{what}" must be one of {", ".join(names)}; it is "{value}".')
