"""The frames that the calls of a reply ask for."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from vrthinker_core.protocols.lenient_json import (
    MAX_REPAIR_CHARS,
    SEPARATORS,
    parse_complete,
    parse_repaired,
    parse_strict,
)
from vrthinker_core.protocols.segments import Action
from vrthinker_core.text import encodable
from vrthinker_core.types import FrameSelection, Problem, ProblemKind

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
    calls: Sequence[Action], rules: CallRules
) -> tuple[FrameSelection | None, list[Problem]]:
    """Return the frames that all calls select together, and the problems.

    The selection is None if no call can be read. A call that the token limit cut off counts only as
    whole, strict JSON.
    """
    reader = _CallReader(all_read=len(calls) <= MAX_CALLS)
    for call in calls[:MAX_CALLS]:
        reader.read(call, whole_only=call.cut_off)
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
    repairable: int = MAX_REPAIR_CHARS  # Characters that may still be repaired

    def read(self, call: Action, *, whole_only: bool) -> None:
        """Read one call and add its entries and problems."""
        whole = parse_complete if whole_only else parse_strict
        values = _family_call(call.body, whole_only=whole_only) or whole(call.body)
        if not values and whole_only:
            self._report(ProblemKind.TRUNCATED, "The reply was cut off inside its call.")
            return
        if not values and (values := self._repair(call.body)):
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

    def _repair(self, text: str) -> list[object]:
        if len(text) > self.repairable:
            return []
        self.repairable -= len(text)
        return parse_repaired(text)

    def _collect(self, value: dict[str, object]) -> None:
        fields = _plain_fields(value)
        for key, inner in fields:
            if key == "function" and isinstance(inner, dict):
                fields = _plain_fields(inner)
                break
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
                    values = parse_strict(arguments) or self._repair(arguments) or [arguments]
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
        for found in parse_strict(value) or self._repair(value):
            if isinstance(found, list):
                return found
        if not value.strip():
            return []
        return _NUMBER.findall(value) if _NUMBERS.fullmatch(value) else [value]


def _family_call(body: str, *, whole_only: bool) -> list[object]:
    name = _FAMILY_NAME.match(body)
    if name is None or (whole_only and not body.rstrip().endswith(("</function>", "</invoke>"))):
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
