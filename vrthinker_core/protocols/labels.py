"""The labels in the body of an answer."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from vrthinker_core.types import Dimension, Preference, Problem, ProblemKind, Verdict

INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c"
    "\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Control, zero-width and direction characters, and variation selectors. Between two letters they
would hide a tag or a label."""

_NARROW: Final = (
    {0xFF01 + k: 0x21 + k for k in range(94)}
    | dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
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
    """Return how much of `text` makes `strip_invisible(text)[:at]`."""
    for removed in INVISIBLE.finditer(text):
        if removed.start() >= at:
            break
        at += 1
    return at


_NAME: Final = (
    r"""(?<![A-Za-z\u00c0-\u024f0-9_])_{0,3}(TA|MQ|VQ|OA|CF)"""
    r"""[\s"'*_`)\]]*(?:\([^()\n=:]{1,40}\)[\s"'*_`]*)?[=:]+"""
)
"""A name that is no part of a Latin word. A character of a script without spaces may stand right
before it."""
_LABEL: Final = re.compile(_NAME + r"""[\s"'*_`]*""", re.IGNORECASE)
_MARKS: Final = r"""["'*_`]{0,8}"""
_NO_VALUE: Final = re.compile(rf"[,;}}]|[{{<](?!\s{{0,8}}{_MARKS}\d)|\Z|{_NAME}", re.IGNORECASE)
"""The text after an empty place. A template that was copied, as `{0|1|2}` or `<1>`, is a value, and
a wrong one."""
_NEXT_ENTRY: Final = rf"""\d{{1,2}}[ \t]?[.):-]?[^\d,;\n]{{0,60}}?{_NAME}"""
"""The number of the next entry of a list, not a value: `2. MQ=`, `2) motion quality (MQ):`."""
_NUMBERED_ENTRY: Final = rf"""[2-9][ \t]?[.):-][^\d,;\n]{{0,60}}?{_NAME}"""
"""Like `_NEXT_ENTRY`, but only a mark tells the number from a value. Needed behind "and": `0 and 1
MQ=` holds two values."""
_ALONE: Final = rf"""\.?[ \t]{{0,8}}(?:\Z|[,;\n)]|(?:or|to|and)\b|{_NAME})"""
_TIE: Final = r"(?:a[ \t]{1,8})?(?:tie|draw)\b"
_SIDE: Final = r"(?:(?:the[ \t]{1,8})?videos?[ \t]{0,8})?"
_SECOND: Final = "|".join(
    (
        r"_{0,8}[^\W_]|%|[.:?]\d|[/|\\⁄∕]{2}\d|[ \t]{0,8}\.{2,8}[ \t]{0,8}\d",
        rf",(?!{_NEXT_ENTRY})\d",
        r"[ \t]{0,8}(?:[/|\\⁄∕~=&+→⇒…−‐‑‒–—―-]|[-=]>)[ \t]{0,8}\d",
        rf"{_MARKS}[ \t]{{0,8}}[/|\\⁄∕][ \t]{{0,8}}{_MARKS}(?!{_NEXT_ENTRY})\d",
        (
            rf"{_MARKS}[ \t]{{0,8}}[,;/]?[ \t]{{0,8}}"
            rf"\b(?:and/or|or|to|vs\.?|versus)[ \t]{{1,8}}{_MARKS}\d"
        ),
        rf"(?<=[12]){_MARKS}[ \t]{{0,8}}(?:/[ \t]{{0,8}}|\bor[ \t]{{1,8}}){_MARKS}{_TIE}",
        r"[ \t]{1,8}(?:或者?|还是|到|至)[ \t]{0,8}\d",
        rf"[ \t]{{0,8}}(?:/[ \t]{{0,8}}|\b)and[ \t]{{1,8}}(?!{_NUMBERED_ENTRY})\d",
        rf"[ \t]{{0,8}}[,;][ \t]{{0,8}}and[ \t]{{1,8}}(?!{_NUMBERED_ENTRY})[0-2]{_ALONE}",
        rf"[ \t]{{0,8}}[、､][ \t]{{0,8}}(?!{_NUMBERED_ENTRY})\d",
        rf"{_MARKS}[ \t]{{0,8}}[<>≤≥≪≫≺≻≈≠][ \t]{{0,8}}{_MARKS}{_SIDE}\d",
        rf"{_MARKS}[ \t]{{1,8}}(?:beats|over|against|(?:[a-z]{{2,12}}[ \t]{{1,8}}){{1,3}}than)"
        rf"[ \t]{{1,8}}{_MARKS}{_SIDE}\d",
        rf"{_MARKS}[ \t]{{0,8}}(?:(?:points?|stars?)\b|[★⭐])",
        rf"{_MARKS}[ \t]{{0,8}}[(\[]?(?:out[ \t]{{1,8}})?\bof[ \t]{{1,8}}{_MARKS}\d",
        rf"[ \t]{{1,8}}(?!{_NEXT_ENTRY})\d",
        rf"[ \t]{{0,8}}[,;][ \t]{{0,8}}(?!{_NEXT_ENTRY})[0-2]{_ALONE}",
    )
)
"""Text that must not follow a digit. The rest of 12, 1.5 or 1st, or a second value, as in 1/2, 1 ->
2, or "1, 2" and "0, 1 or 2", the other side of a comparison, as in 1 < 2, or what makes it a score,
as in "2 out of 5"."""
_DIGIT: Final = re.compile(rf"([0-5])(?!{_SECOND})", re.IGNORECASE)
_ESCAPED: Final = re.compile(r"\\{1,4}(?:[nr\"]|t(?![aA]))")
r"""`\n` as two characters, in an answer that was written as a string. `\ta` is more likely a name
behind a backslash."""
_MEANING: Final = str.maketrans("nrt", "\n\n\t")


class Labels(NamedTuple):
    """The labels of one answer, with confidence, problems and places."""

    verdict: Verdict
    confidence: int | None
    problems: tuple[Problem, ...]
    # Offset in the body of the digit that first gave each readable label
    places: dict[Dimension, int]


class Mention(NamedTuple):
    """A mention of a name, with the value behind it."""

    name: str  # A dimension's name or "CF"
    value: int | None  # Digit behind the name; None for anything else
    place: int  # Offset of the digit


def read_labels(body: str) -> Labels:
    """Return the labels in `body` (after `to_narrow`), worst problem first."""
    mentions = list(_mentions(body))
    values: dict[str, list[int | None]] = {name: [] for name in (*Dimension, "CF")}
    for mention in mentions:
        values[mention.name].append(mention.value)
    # The value that all mentions give, else None
    single = {name: each[0] if len(set(each)) == 1 else None for name, each in values.items()}
    labels = {name: single[name] for name in Dimension}
    verdict = Verdict(
        **{name: None if label is None else Preference(label) for name, label in labels.items()}
    )
    conflict = [name for name in Dimension if len(set(values[name]) - {None}) > 1]
    bad = [name for name in Dimension if None in values[name]]
    missing = [name for name in Dimension if not values[name]]
    details = {
        ProblemKind.CONFLICT: f"The answer gives {_listed(conflict)} two different labels.",
        ProblemKind.BAD_VALUE: f"The label of {_listed(bad)} is not 0, 1 or 2.",
        ProblemKind.MISSING_DIMS: f"The answer has no label for {_listed(missing)}.",
        ProblemKind.EMPTY_ANSWER: "The answer holds no label at all.",
        ProblemKind.BAD_CONFIDENCE: (
            "The confidence is not one number from 1 to 5 and was left out."
        ),
    }
    unclear = values["CF"] and single["CF"] is None
    holds = (conflict, bad, missing, len(missing) == len(Dimension), unclear)
    found = [Problem(*each) for each, held in zip(details.items(), holds, strict=True) if held]
    said = [(Dimension(name), place) for name, _, place in reversed(mentions) if name != "CF"]
    places = {name: place for name, place in said if labels[name] is not None}
    return Labels(verdict, single["CF"], tuple(found), places)


def mentioned_digits(text: str) -> frozenset[int]:
    """Return offsets of all digits that say a label, also outside answers."""
    return frozenset(original_offsets(text, list(_label_places(to_narrow(strip_invisible(text))))))


def says_a_label(body: str) -> bool:
    """Return whether a digit in `body` (after `to_narrow`) says a label."""
    return any(True for _ in _label_places(body))


def _label_places(body: str) -> Iterator[int]:
    return (each.place for each in _mentions(body) if each.name != "CF" and each.value is not None)


def _mentions(body: str) -> Iterator[Mention]:
    """Yield every mention of a name with a value; skip empty ones."""
    body = _ESCAPED.sub(lambda match: match[0][-1].translate(_MEANING).rjust(len(match[0])), body)
    for mention in islice(_LABEL.finditer(body), 1000):
        name, place = mention[1].upper(), mention.end()
        digit = _DIGIT.match(body, place)
        if digit is None and _NO_VALUE.match(body, place):
            continue
        value = int(digit[1]) if digit else None
        allowed = range(1, 6) if name == "CF" else range(3)
        yield Mention(name, value if value in allowed else None, place)


def _listed(names: list[Dimension]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))
