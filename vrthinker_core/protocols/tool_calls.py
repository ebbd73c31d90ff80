"""The frames that the calls of a reply ask for, in JSON as models write it.

JSON is read strictly first, then with small repairs. No repair may change a number:
`parse_repaired` rewrites the text token by token as strict JSON, and the standard library builds
the values. The library json_repair (0.64.5) was measured and is not used: it guesses in cases in
which the conformance rules R7, R8 and R18 want a refusal or a report.

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from vrthinker_core.types import FrameSelection, Problem, ProblemKind
from vrthinker_core.types.messages import MAX_DIGITS
from vrthinker_core.words import encodable

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


@dataclass(slots=True)
class JsonRepair:
    """The repair of the broken JSON of one reply."""

    _left: int = MAX_REPAIR_CHARS

    def parse(self, text: str) -> list[object]:
        """Return what `parse_repaired` does, or [] for too many characters in all."""
        if len(text) > self._left:
            return []
        self._left -= len(text)
        return parse_repaired(text)


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


_DECODER: Final = json.JSONDecoder(  # Numbers that are too long or too large stay text
    parse_int=lambda digits: int(digits) if len(digits) <= MAX_DIGITS else digits,
    parse_float=lambda digits: float(digits) if math.isfinite(float(digits)) else digits,
    parse_constant=str,
    object_pairs_hook=_object,
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


# Calls that are read in one reply; a judge at 2,048 tokens cannot write more
MAX_CALLS: Final = 200
MAX_ENTRIES: Final = 1000  # Entries that are read in one request

_FRAMES: Final = ("frameindices", "targetframes")
"""The argument's name in either protocol. Both names are read in both protocols, always with the
numbers of the protocol in use."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_NUMBERS: Final = re.compile(
    rf"[\s{SEPARATORS}]*{_NUMBER.pattern}(?:[\s{SEPARATORS}]+{_NUMBER.pattern})*[\s{SEPARATORS}]*"
)
"""The only text that is split into numbers. Any other text is one entry, so that no frame is taken
out of a sentence."""

_FAMILY_NAME: Final = re.compile(
    r"""\s*(?:<(?:function|invoke)(?:=|\s{1,8}name=)["']?([\w.-]{1,60})["']?\s{0,8}>"""
    r"|([\w.-]{1,60})\s{0,8}(?=<arg_key>))"
)
_FAMILY_FIELD: Final = re.compile(
    r"""<parameter(?:=|\s{1,8}name=)["']?([\w-]{1,60})["']?\s{0,8}>([^<]*)</parameter>"""
    r"|<arg_key>([^<]*)</arg_key>\s*<arg_value>([^<]*)</arg_value>"
)
"""Calls in the form of Qwen3.5, MiniMax and GLM, which name each argument in a tag."""

Entry = int | float | str | None


class CallRules(NamedTuple):
    """The limits of a protocol on a call."""

    numbers: range  # Valid frame numbers
    limit: int  # Maximum numbers in one reply


def read_calls(
    calls: Sequence[tuple[str, bool]], rules: CallRules
) -> tuple[FrameSelection | None, list[Problem]]:
    """Return the frames that all calls select together, and the problems.

    `calls` are (body, whether the token limit cut it off): such a call counts only as whole, strict
    JSON. The selection is None if no call can be read.
    """
    reader = _CallReader(all_read=len(calls) <= MAX_CALLS)
    for body, cut_off in calls[:MAX_CALLS]:
        reader.read(body, cut_off=cut_off)
    all_read, problems = reader.all_read and len(reader.entries) <= MAX_ENTRIES, reader.problems
    if not all_read:
        limits = f"its first {MAX_ENTRIES:,} frame numbers and {MAX_CALLS} calls were read."
        detail = f"The reply asks for too much: {limits}"
        problems.append(Problem(ProblemKind.TRUNCATED, detail))
    if not reader.readable:
        return None, problems
    valid: dict[int, None] = {}
    dropped: dict[tuple[type, Entry], Entry] = {}
    for entry in reader.entries[:MAX_ENTRIES]:
        index = _index(entry)
        if index is not None and index in rules.numbers:
            valid[index] = None
        else:
            written = _as_written(entry)
            dropped[type(written), written] = written
    indices, left, asked = tuple(valid), tuple(dropped.values()), len(reader.entries)
    truncated = len(indices) > rules.limit or not all_read
    selection = FrameSelection(indices[: rules.limit], left, truncated=truncated, asked=asked)
    if indices:
        return selection, problems
    detail = "The call names no frame."
    if asked:
        read, numbers = "frames asked for" if all_read else "first frames asked for", rules.numbers
        ends = f"they are numbered {numbers[0]} to {numbers[-1]}"
        detail = f"None of the {read} exists: {ends}."
    return selection, [Problem(ProblemKind.NO_VALID_FRAMES, detail), *problems]


@dataclass(slots=True)
class _CallReader:
    """The contents of the calls of one reply."""

    entries: list[object] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    readable: bool = False  # At least one call was for our tool
    all_read: bool = True  # Nothing was left out for being too much
    repair: JsonRepair = field(default_factory=JsonRepair)

    def read(self, body: str, *, cut_off: bool) -> None:
        """Read one call and add its entries and problems."""
        parse = parse_complete if cut_off else parse_strict
        values = _family_call(body, cut_off=cut_off) or parse(body)
        if not values and cut_off:
            self._report(ProblemKind.TRUNCATED, "The reply was cut off inside its call.")
            return
        if not values and (values := self.repair.parse(body)):
            told = "The call was broken JSON and was read all the same."
            self._report(ProblemKind.REPAIRED, told)
        if values and isinstance(values[0], str):
            values = parse_strict(values[0])
        objects = list(islice(_call_objects(values), MAX_CALLS + 1))
        self.all_read = self.all_read and len(objects) <= MAX_CALLS
        for value in objects[:MAX_CALLS]:
            self._collect(value)
        if not objects:
            self._report(ProblemKind.BAD_JSON, "The call is no JSON object that can be read.")

    def _report(self, kind: ProblemKind, detail: str) -> None:
        self.problems.append(Problem(kind, detail))

    def _collect(self, value: dict[str, object]) -> None:
        fields = _plain_fields(value)
        functions = (each for key, each in fields if key == "function" and isinstance(each, dict))
        fields = _plain_fields(next(functions, value))
        names = ("name", "function", "tool", "toolname")
        given = (each for wanted in names for key, each in fields if key == wanted and each)
        name = next(given, None)
        if name is not None and _plain_name(name).rpartition(".")[2] != "selectframes":
            shown = str(name) if isinstance(name, str | int | float) else ""
            quoted = re.sub(r"[^\w .-]", "", shown)[:40].strip()
            what = f'There is no tool "{quoted}"' if quoted else "The call names no tool"
            self._report(ProblemKind.UNKNOWN_TOOL, f"{what}; the only one is select_frames.")
            return
        self.readable = True
        for wanted in ("arguments", "parameters", "args"):
            for arguments in [each for key, each in fields if key == wanted]:
                if isinstance(arguments, str):
                    values = parse_strict(arguments) or self.repair.parse(arguments) or [arguments]
                    arguments = values[0]
                if isinstance(arguments, dict):
                    self._add_frames(_plain_fields(arguments))
                else:
                    self.entries += self._entries(arguments)
        self._add_frames(fields)

    def _add_frames(self, fields: Sequence[tuple[str, object]]) -> None:
        for key, value in fields:
            self.entries += self._entries(value) if key in _FRAMES else []

    def _entries(self, value: object) -> list[object]:
        if isinstance(value, list):
            return value
        if not isinstance(value, str):
            return [] if value is None else [value]
        for found in parse_strict(value) or self.repair.parse(value):
            if isinstance(found, list):
                return found
        if not value.strip():
            return []
        return _NUMBER.findall(value) if _NUMBERS.fullmatch(value) else [value]


def _family_call(body: str, *, cut_off: bool) -> list[object]:
    name = _FAMILY_NAME.match(body)
    if name is None or (cut_off and not body.rstrip().endswith(("</function>", "</invoke>"))):
        return []
    fields = islice(_FAMILY_FIELD.finditer(body), MAX_CALLS)
    given = {(each[1] or each[3] or "").strip(): each[2] or each[4] or "" for each in fields}
    return [{"name": name[1] or name[2], "arguments": given}]


def _call_objects(values: Iterable[object]) -> Iterator[dict[str, object]]:
    """Yield the call objects in `values`; a bare frame list is one."""
    for value in values:
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            yield from value
        elif isinstance(value, list):
            yield {_FRAMES[0]: value}


def _plain_fields(fields: dict[str, object]) -> list[tuple[str, object]]:
    """Return the fields with their plain names, which may repeat."""
    return [(_plain_name(key), value) for key, value in fields.items()]


def _plain_name(name: object) -> str:
    return re.sub(r"[\s_-]+", "", name).lower() if isinstance(name, str) else ""


def _index(entry: object) -> int | None:
    """Return the whole number of an entry, else None, also for bools."""
    if isinstance(entry, float):
        return int(entry) if entry.is_integer() else None
    if isinstance(entry, str):
        digits = entry.strip()
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 40 else None
    return entry if isinstance(entry, int) and not isinstance(entry, bool) else None


def _as_written(entry: object) -> Entry:
    """Return an entry as a trace keeps it: number or short text."""
    if isinstance(entry, bool):
        return str(entry).lower()
    if entry is None or isinstance(entry, int | float):
        return entry
    if isinstance(entry, str):
        return encodable(entry if len(entry) <= 40 else entry[:40] + "…")
    if not isinstance(entry, list):
        return "{…}"
    short = len(entry) <= 8 and all(isinstance(item, int | float) for item in entry)
    return str(entry) if short else "[…]"
