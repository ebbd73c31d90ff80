"""JSON as models write it: strictly first, then with small repairs. Nothing recurses, so depth is no danger."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

LONGEST_REPAIR: Final = 20_000
"""Characters. A judge may write 2,048 tokens: what is longer than this was never a call with a slip in it."""

MOST_VALUES: Final = 200
"""Values in a row that are read in one call."""

_BETWEEN: Final = re.compile(r"[\s,]*")
_FENCE: Final = re.compile(r"\A```\w*|```\Z")
_TOKEN: Final = re.compile(
    r"""\s++|//[^\n]*|\#[^\n]*|/\*.*?\*/"""
    r"""|(?P<quoted>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|[“”][^“”]*[“”])"""
    r"""|(?P<mark>[{}\[\],:])"""
    r"""|(?P<word>(?:[^\s{}\[\],:"'“”/]|/(?![/*]))+)""",
    re.DOTALL,
)
_WORDS: Final = {"true": True, "false": False, "null": None, "none": None}
_CLOSING: Final = {"{": "}", "[": "]"}


def parse_strict(text: str) -> list[object]:
    """[value] where `text` is one JSON value, perhaps in a code fence; [] where it is not."""
    text = _bare(text)
    value, end = _decode(text, 0)
    return [value] if end == len(text) > 0 else []


def parse_complete(text: str) -> list[object]:
    """The JSON values that `text` begins with, as far as they are complete."""
    values: list[object] = []
    text, start = _bare(text), 0
    while len(values) < MOST_VALUES:
        value, end = _decode(text, start)
        if end == start:
            break
        values.append(value)
        start = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return values


def parse_repaired(text: str) -> list[object]:
    """The objects and lists in `text` after small repairs; [] where it is no JSON at all.

    Read all the same: single quotes, bare keys, comments, commas too many or missing, Python's True and None, several values
    in a row, words around them, doubled braces, one bracket too many or too few.
    """
    text = _bare(text)
    start = 0 if text.startswith("[") else text.find("{")
    if start < 0 or len(text) > LONGEST_REPAIR:
        return []
    reader = _Reader()
    for kind, token in _tokens(text, start):
        if not reader.take(kind, token):
            return reader.finished
    return reader.end()


def _decode(text: str, start: int) -> tuple[object, int]:
    """(value, where it ends); it ends at `start` where there is none."""
    decoder = json.JSONDecoder(parse_int=_whole, parse_float=_fraction, parse_constant=str)
    try:
        return decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start


def _whole(digits: str) -> int | str:
    """An integer; as text where it has more digits than any index, so that no number is too long to be read."""
    return int(digits) if len(digits) <= 40 else digits


def _fraction(digits: str) -> float | str:
    """A number with a point or an exponent; as text where it is too large for a float."""
    value = float(digits)
    return value if math.isfinite(value) else digits


def _bare(text: str) -> str:
    return _FENCE.sub("", text.strip()).strip()


def _tokens(text: str, start: int) -> Iterator[tuple[str, str]]:
    """(kind, token) until the end; ("", "") where nothing fits."""
    while start < len(text):
        match = _TOKEN.match(text, start)
        if match is None:
            yield "", ""
            return
        if match.lastgroup:
            yield match.lastgroup, match[0]
        start = match.end()


def _scalar(kind: str, token: str) -> object:
    if kind == "quoted":
        return _unquoted(token)
    if token.lower() in _WORDS:
        return _WORDS[token.lower()]
    found = parse_strict(token)
    return found[0] if found else token


def _unquoted(token: str) -> str:
    found = parse_strict(token) if token.startswith('"') else []
    return str(found[0]) if found else re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)


@dataclass(slots=True)
class _Open:
    """A container that is being read."""

    closing: str
    items: list[object] = field(default_factory=list)
    pairs: dict[str, object] = field(default_factory=dict)
    key: str | None = None
    colon: bool = False

    @property
    def value(self) -> object:
        return self.pairs if self.closing == "}" else self.items


@dataclass(slots=True)
class _Reader:
    """Builds values from tokens with a stack of its own."""

    finished: list[object] = field(default_factory=list)
    stack: list[_Open] = field(default_factory=list)
    repaired: bool = False
    """The one bracket too many or too few has been met."""

    def take(self, kind: str, token: str) -> bool:
        """Read one token; False where it cannot stand."""
        if not kind:
            return False
        if kind != "mark":
            return self._add(_scalar(kind, token))
        if token in _CLOSING:
            return self._open(_CLOSING[token])
        if token == ",":
            return not self.stack or self.stack[-1].key is None
        if token == ":":
            return self._colon()
        return self._close(token)

    def end(self) -> list[object]:
        """What was read, with one closing brace supplied where only that is missing."""
        if len(self.stack) == 1 and not self.repaired:
            self._close("}")
        return self.finished

    def _add(self, value: object) -> bool:
        if not self.stack:
            if isinstance(value, dict | list):
                self.finished.append(value)
            return True
        top = self.stack[-1]
        if top.closing == "]":
            top.items.append(value)
        elif top.key is None:
            top.key, top.colon = str(value), False
        elif top.colon:
            top.pairs[top.key], top.key, top.colon = value, None, False
        else:
            return False
        return True

    def _open(self, closing: str) -> bool:
        wants_key = bool(self.stack) and self.stack[-1].closing == "}" and not self.stack[-1].colon
        if not wants_key:
            self.stack.append(_Open(closing))
        return not wants_key or closing == "}"

    def _colon(self) -> bool:
        if not self.stack:
            return True
        top = self.stack[-1]
        top.colon = top.key is not None and not top.colon
        return top.colon

    def _close(self, mark: str) -> bool:
        if not self.stack:
            return True
        if self.stack[-1].closing == mark:
            return self._pop()
        if self.repaired:
            return False
        self.repaired = True
        one_missing = len(self.stack) > 1 and self.stack[-2].closing == mark
        return not one_missing or (self._pop() and self._pop())

    def _pop(self) -> bool:
        done = self.stack.pop()
        return done.key is None and self._add(done.value)
