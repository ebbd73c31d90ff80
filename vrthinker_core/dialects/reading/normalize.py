"""Normalised characters of a reply: none invisible, full-width ones narrow."""

import re
from collections.abc import Sequence
from typing import Final

INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c"
    "\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Control, zero-width and direction characters, and variation selectors. Between two letters they
would hide a tag or a label."""

_SPACES = (
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
    "\u2009\u200a\u202f\u205f\u3000"
)
_NARROW: Final = (
    {0xFF01 + k: 0x21 + k for k in range(94)}
    | {ord(space): " " for space in _SPACES}
    | {0x2028: "\n", 0x2029: "\n"}
)


def strip_invisible(text: str) -> str:
    """Return `text` without its invisible characters."""
    return INVISIBLE.sub("", text)


def to_narrow(text: str) -> str:
    """Replace full-width forms and spaces by ASCII, character for character."""
    return text if text.isascii() else text.translate(_NARROW)


def original_offsets(text: str, places: Sequence[int]) -> list[int]:
    """Map ascending offsets in `strip_invisible(text)` to offsets in `text`."""
    found: list[int] = []
    removed = INVISIBLE.finditer(text)
    following, shift = next(removed, None), 0
    for place in places:
        while following is not None and following.start() <= place + shift:
            following, shift = next(removed, None), shift + 1
        found.append(place + shift)
    return found


def original_end(text: str, at: int) -> int:
    """Return how much of `text` makes `strip_invisible(text)[:at]`, nothing invisible behind."""
    for removed in INVISIBLE.finditer(text):
        if removed.start() >= at:
            break
        at += 1
    return at
