"""The videos that are compared, and labels from judges and persons."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from pathlib import Path

from vrthinker_core.types.settings import Few

MAX_NOTE = 2000  # Characters in the note of a vote
MAX_DECIDING = 16  # Pairs of frames that a vote may mark


class Side(IntEnum):
    """The two sides of a pair: the first and the second video."""

    FIRST = 1
    SECOND = 2

    @property
    def other(self) -> "Side":
        """The side of the other video."""
        return Side.SECOND if self is Side.FIRST else Side.FIRST


class Preference(IntEnum):
    """A label of a verdict, in the published numbers."""

    TIE = 0
    FIRST = 1
    SECOND = 2


class Dimension(StrEnum):
    """The dimensions of a comparison, in the order of the model card."""

    TA = "TA"  # Text alignment: how faithfully a video shows the prompt
    MQ = "MQ"  # Motion quality: smoothness, jitter, unnatural motion, consistency over time
    VQ = "VQ"  # Visual quality: aesthetics, artefacts, blur, distortion, flicker
    OA = "OA"  # Overall


SUB_SCORES = (Dimension.TA, Dimension.VQ, Dimension.MQ)
ANSWER_ORDER = (*SUB_SCORES, Dimension.OA)  # The order in the answers of the published cards


@dataclass(frozen=True, slots=True)
class VideoPair:
    """Two videos made from one prompt."""

    prompt: str
    first: Path | str
    second: Path | str

    def swapped(self) -> "VideoPair":
        """Return the pair with its sides swapped."""
        return VideoPair(self.prompt, self.second, self.first)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One label per dimension. None means that the judge gave none: that is not a tie."""

    TA: Preference | None = None
    MQ: Preference | None = None
    VQ: Preference | None = None
    OA: Preference | None = None

    def __iter__(self) -> Iterator[tuple[Dimension, Preference | None]]:
        return iter([(d, getattr(self, d.value)) for d in Dimension])

    @property
    def labels(self) -> dict[str, int]:
        """The given labels in the card's order: `{"TA": 1, "MQ": 0}`."""
        return {dimension.value: int(label) for dimension, label in self if label is not None}

    @property
    def whole(self) -> bool:
        """Whether all four dimensions have a label."""
        return len(self.labels) == len(Dimension)


@dataclass(frozen=True, slots=True)
class Vote:
    """A person's labels and opinion. Raises `ValueError` if they cannot belong to a vote.

    `at` has a time zone. `agrees` is about the judge's verdict, None if not said. `slots` are the
    pairs of frames that decided, from 0. A `blind` vote came before any output of the judge.
    """

    at: datetime
    labels: Verdict = Verdict()
    agrees: bool | None = None
    slots: Few[int] = ()
    note: str = ""
    blind: bool = False

    def __post_init__(self) -> None:
        if self.at.tzinfo is None or not 2000 <= self.at.year < 3000:
            raise ValueError("the time of a vote has a time zone and a year of this millennium")
        twice = len(set(self.slots)) < len(self.slots)
        if twice or len(self.slots) > MAX_DECIDING or min(self.slots, default=0) < 0:
            raise ValueError(f"a vote marks at most {MAX_DECIDING} pairs, each once")
        if len(self.note) > MAX_NOTE:
            raise ValueError(f"the note of a vote has at most {MAX_NOTE:,} characters")

    @property
    def empty(self) -> bool:
        """Whether the person has said nothing."""
        said = self.labels.labels or self.slots or self.note.strip()
        return not said and self.agrees is None

    def compare(self, verdict: Verdict | None) -> dict[Dimension, bool]:
        """Return whether person and verdict agree, by dimension that both label."""
        both = zip(self.labels, verdict or Verdict(), strict=True)
        return {
            dimension: label is other
            for (dimension, label), (_, other) in both
            if label is not None and other is not None
        }

    def agrees_with(self, verdict: Verdict | None) -> bool | None:
        """Return whether the person agrees with the verdict.

        False if the person disagrees in words or in any label; None if neither says so.
        """
        equal = self.compare(verdict).values()
        if self.agrees is False or not all(equal):
            return False
        return True if self.agrees or equal else None
