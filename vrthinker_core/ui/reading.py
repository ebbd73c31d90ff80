"""Reading a reply while it is still being written, by the rules of the dialect it is written in."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from vrthinker_core.dialects import make_dialect
from vrthinker_core.errors import BadInput
from vrthinker_core.events import Started
from vrthinker_core.types import Protocol, Reply


def reader(started: Started | None) -> Callable[[str], Reply] | None:
    """Reads an unfinished reply of this run; None where its dialect is not known."""
    if started is None:
        return None
    for name in get_args(Protocol):
        if name == started.dialect:
            return _reader(started, name)
    return None


def _reader(started: Started, name: Protocol) -> Callable[[str], Reply] | None:
    try:
        dialect = make_dialect(started.settings, name)
    except BadInput:
        return None
    return lambda text: dialect.parse(text, cut=True)
