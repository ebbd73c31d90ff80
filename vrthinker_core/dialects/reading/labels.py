"""The labels in the body of an answer."""

import re
from itertools import islice
from typing import Final, NamedTuple

from vrthinker_core.types import Dimension, Preference, Problem, ProblemKind, Verdict

MAX_MENTIONS: Final = 1000  # Mentions of a name that are looked at in one answer

_NAME: Final = r"""(?<!\w)(TA|MQ|VQ|OA|CF)[\s"'*_`)\]]*[=:]+"""
_LABEL: Final = re.compile(_NAME + r"""[\s"'*_`]*""", re.IGNORECASE)
_NO_VALUE: Final = re.compile(rf"[,;{{}}<]|\Z|{_NAME}", re.IGNORECASE)
_DIGIT: Final = re.compile(
    r"([0-5])(?![\w%]|[.,]\d|[ \t]{0,8}[/|\\~=–—-]?[ \t]{0,8}\d|[ \t]{1,8}(?:or|to|and)[ \t]{1,8}\d)", re.IGNORECASE
)
"""One digit that stands alone: not the start of 12, 1.5 or 1st, and not one choice of a copied template such as 1/2."""


class Labels(NamedTuple):
    """The labels of one answer, its confidence, and the problems met."""

    verdict: Verdict
    confidence: int | None
    problems: tuple[Problem, ...]


def read_labels(body: str) -> Labels:
    """The labels of an answer, with the worst problem first. `body` has passed `to_narrow`."""
    values = _values(body)
    labels = {name: _single_value(values[name]) for name in Dimension}
    verdict = Verdict(**{name: None if label is None else Preference(label) for name, label in labels.items()})
    confidence = _single_value(values["CF"])
    return Labels(verdict, confidence, (*_label_problems(values), *_confidence_problems(values["CF"], confidence)))


def _values(body: str) -> dict[str, list[int | None]]:
    """For each name, the digit after every mention of it, or None for something else. Empty mentions do not count."""
    found: dict[str, list[int | None]] = {name: [] for name in (*Dimension, "CF")}
    for mention in islice(_LABEL.finditer(body), MAX_MENTIONS):
        name = mention[1].upper()
        digit = _DIGIT.match(body, mention.end())
        if digit is None and _NO_VALUE.match(body, mention.end()):
            continue
        value = int(digit[1]) if digit else None
        allowed = range(1, 6) if name == "CF" else range(3)
        found[name].append(value if value in allowed else None)
    return found


def _single_value(values: list[int | None]) -> int | None:
    """The value that all mentions give; None where they differ or there is none."""
    return values[0] if len(set(values)) == 1 else None


def _label_problems(values: dict[str, list[int | None]]) -> list[Problem]:
    conflict = [name for name in Dimension if len(set(values[name]) - {None}) > 1]
    bad = [name for name in Dimension if None in values[name]]
    missing = [name for name in Dimension if not values[name]]
    found = (
        (conflict, ProblemKind.CONFLICT, f"The answer gives {_listed(conflict)} two different labels."),
        (bad, ProblemKind.BAD_VALUE, f"The label of {_listed(bad)} is not 0, 1 or 2."),
        (missing, ProblemKind.MISSING_DIMS, f"The answer has no label for {_listed(missing)}."),
        (len(missing) == len(Dimension), ProblemKind.EMPTY_ANSWER, "The answer holds no label at all."),
    )
    return [Problem(kind, detail) for holds, kind, detail in found if holds]


def _confidence_problems(values: list[int | None], confidence: int | None) -> list[Problem]:
    if not values or confidence is not None:
        return []
    return [Problem(ProblemKind.BAD_CONFIDENCE, "The confidence is not one number from 1 to 5 and was left out.")]


def _listed(names: list[Dimension]) -> str:
    return " and ".join(", ".join(names).rsplit(", ", 1))
