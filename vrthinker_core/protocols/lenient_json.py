"""JSON as models write it: strict parsing first, then small repairs.

No repair may change a number. `parse_repaired` rewrites the text token by token as strict JSON, and
the standard library builds the values. The library json_repair (0.64.5) was measured and is not
used: it guesses in cases in which the conformance rules R7, R8 and R18 want a refusal or a report.

- It reads frames that the judge never wrote: `[−1, 10]` as 1 and 10, `[1_2, 10]` as 12 and 10,
  `[5%, 10]` as 5 and 10.
- It loses frames without a word: `{"frame_indices": 1, 2, 3}` becomes 1, and of `{"frame_indices":
  [1]} {"frame_indices": [2]}` only the second object is left.
- It closes every unclosed list, so `[1, 12` is read although the judge may have been about to write
  120.
- It takes 12 s for 18 kB of `["{"x":"y"z"{"x":"y"z"...` (R18 allows 1 s). Cleaning the text first
  does not help: `{{}` with 2,000 plain short strings behind it takes 3 s.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from vrthinker_core.types.messages import MAX_DIGITS

MAX_REPAIR_CHARS: Final = 20_000
"""Characters of broken JSON that are repaired in one reply, far more than 2,048 tokens. Repairing
2 MB takes longer than the second that reading a reply may take."""

SEPARATORS: Final = ",;、､﹐﹑﹔"
"""Separators of list entries. Full-width ones were made narrow before."""
_BETWEEN: Final = re.compile(r"[\s,]*")
_BEFORE_VALUE: Final = re.compile(r"\s*+(?:```\w*\s*)?")
_FENCE: Final = re.compile(r"\A```\w*|```\Z")
_QUOTED: Final = r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+'|[“”][^“”]*[“”]"""
_STRING: Final = re.compile(_QUOTED, re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s++|\\[nrt]|//[^\n]*|\#[^\n]*|/\*.*?\*/"""
    rf"""|(?P<quoted>{_QUOTED})"""
    rf"""|(?P<mark>[{{}}\[\]:{SEPARATORS}])"""
    rf"""|(?P<word>(?:[^\s{{}}\[\]:{SEPARATORS}"'“”/\\]|/(?![/*])|\\(?![nrt]))+)""",
    re.DOTALL,
)
_CLOSING: Final = {"{": "}", "[": "]"}


def parse_strict(text: str) -> list[object]:
    """Return [value] if `text`, fenced or not, is JSON, else []."""
    text = _without_fence(text)
    value, end = _decode(text, 0)
    return [value] if end == len(text) > 0 else []


def parse_complete(text: str) -> list[object]:
    """Return the complete JSON values that `text` begins with, at most 200."""
    values: list[object] = []
    text, start = _without_fence(text), 0
    while len(values) < 200:
        value, end = _decode(text, start)
        if end == start:
            break
        values.append(value)
        start = _BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return values


def parse_repaired(text: str) -> list[object]:
    """Return the objects and lists in `text` after small repairs.

    Returns [] if `text` is no JSON at all. Repaired are single quotes, bare keys, comments, commas
    too many or missing, Python's True and None, several values in a row, words around them, other
    separators, doubled braces, and one bracket too many or too few. Takes about 2 s for a million
    characters.
    """
    text = _without_fence(text)
    start = 0 if text.startswith("[") else text.find("{")
    if start < 0:
        return []
    writer = _StrictWriter()
    while start < len(text):
        match = _TOKEN.match(text, start)
        # No token matches an unclosed quote or comment.
        if match is None or (match.lastgroup and not writer.add(match.lastgroup, match[0])):
            break
        start = match.end()
    else:
        writer.close_last_object()
    return parse_complete("".join(writer.written))


def value_end(text: str, start: int) -> int:
    """Return the end of the whole JSON value at `start`.

    The value may stand in a code fence. Returns `start` if there is none.
    """
    begin = _BEFORE_VALUE.match(text, start).end()  # type: ignore[union-attr]
    end = _decode(text, begin)[1]
    return end if end > begin else start


def without_strings(text: str) -> str:
    """Return `text` without its quoted strings, whatever the quotation marks."""
    return _STRING.sub("", text)


def _decode(text: str, start: int) -> tuple[object, int]:
    """Return (value, its end); without a value the end is `start`."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """Join lists and numbers under the same key; else the last counts."""
    found: dict[str, object] = {}
    for key, value in pairs:
        before = found.get(key)
        if isinstance(before, list | int | float) and isinstance(value, list | int | float):
            both = before if isinstance(before, list) else [before]
            both += value if isinstance(value, list) else [value]
            value = both
        found[key] = value
    return found


def _parse_int(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits


def _parse_float(digits: str) -> float | str:
    """Return the number, or the text if a float cannot hold it."""
    value = float(digits)
    return value if math.isfinite(value) else digits


_DECODER: Final = json.JSONDecoder(
    parse_int=_parse_int, parse_float=_parse_float, parse_constant=str, object_pairs_hook=_object
)


def _without_fence(text: str) -> str:
    return _FENCE.sub("", text.strip()).strip()


def _scalar(kind: str, token: str) -> object:
    """Return the value of a quoted or a bare word.

    A bare word that JSON does not know is text, whatever digits it holds.
    """
    if kind == "quoted":
        found = parse_strict(token) if token.startswith('"') else []
        return str(found[0]) if found else re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    words: dict[str, object] = {"true": True, "false": False, "null": None, "none": None}
    return words.get(token.lower(), next(iter(parse_strict(token)), token))


@dataclass(slots=True)
class _StrictWriter:
    """A writer of strict JSON; the JSON reader refuses any bad output."""

    written: list[str] = field(default_factory=list)
    # Closing brackets still to come, the innermost last
    open: list[str] = field(default_factory=list)
    # Adjacent bare words that are still to be written
    words: list[str] = field(default_factory=list)
    repaired: bool = False  # The one bracket too many or too few has been met

    def add(self, kind: str, token: str) -> bool:
        """Write one token; return False if reading must end."""
        if kind == "word":
            self.words.append(token)
            return True
        self._write_words()
        if kind == "quoted":
            self._write_scalar(_scalar(kind, token))
        elif token in _CLOSING:
            if token == "[" or not self._expects_key:  # Skips a doubled brace at a key's place
                self._separate()
                self.written.append(token)
                self.open.append(_CLOSING[token])
        elif token in SEPARATORS:
            self._separate()
            return self.written[-1:] != [":"]
        elif token != ":":
            return self._close(token)
        elif self.open:
            self.written.append(token)
        return True

    def close_last_object(self) -> None:
        """Write the one closing brace that is missing at the end.

        A closing bracket is never written: the list may have been about to go on.
        """
        self._write_words()
        if self.open == ["}"] and not self.repaired:
            self._close("}")

    @property
    def _expects_key(self) -> bool:
        return self.open[-1:] == ["}"] and self.written[-1] != ":"

    def _separate(self) -> None:
        """Write a comma, if a value or a key ended right before."""
        if self.written and self.written[-1] not in ("{", "[", ":", ","):
            self.written.append(",")

    def _write_words(self) -> None:
        """Write the bare words before this token.

        In a list they are one text, as `- 5` or `5 / 2`, unless each of them is a number.
        """
        values = [_scalar("word", word) for word in self.words]
        numbers = all(isinstance(value, int | float) for value in values)
        if self.open[-1:] == ["]"] and len(values) > 1 and not numbers:
            values = [" ".join(self.words)]
        for value in values:
            self._write_scalar(value)
        self.words = []

    def _write_scalar(self, value: object) -> None:
        if self.open:
            text = str(value) if self._expects_key else value
            self._separate()
            self.written.append(json.dumps(text))

    def _close(self, mark: str) -> bool:
        if not self.open:
            return True
        if self.written[-1] == ",":
            self.written.pop()
        if self.open[-1] == mark:
            self.written.append(self.open.pop())
            return True
        if self.repaired:
            return False
        self.repaired = True
        if self.open[-2:-1] == [mark]:
            self.written += [self.open.pop(), self.open.pop()]
        return True
