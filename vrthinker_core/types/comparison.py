"""What is compared, and what comes out: two videos of one prompt, and a label per dimension, from a judge or from a person."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from pathlib import Path

from vrthinker_core.types.bounds import Few

MAX_NOTE = 2000  # Characters of the note of a vote
MAX_DECIDING = 16  # Pairs that a vote marks


class Side(IntEnum):
    """Which of the two videos."""

    FIRST = 1
    SECOND = 2

    @property
    def other(self) -> "Side":
        """The side of the other video."""
        return Side.SECOND if self is Side.FIRST else Side.FIRST


class Preference(IntEnum):
    """One label of a verdict, in the published numbers."""

    TIE = 0
    FIRST = 1
    SECOND = 2


class Dimension(StrEnum):
    """What is compared, in the order of the model card."""

    TA = "TA"  # Text alignment: how faithfully a video shows the prompt
    MQ = "MQ"  # Motion quality: smoothness, jitter, unnatural motion, consistency over time
    VQ = "VQ"  # Visual quality: aesthetics, artefacts, blur, distortion, flicker
    OA = "OA"  # Overall


SUB_SCORES = (Dimension.TA, Dimension.VQ, Dimension.MQ)
ANSWER_ORDER = (*SUB_SCORES, Dimension.OA)  # As the published cards write an answer


@dataclass(frozen=True, slots=True)
class VideoPair:
    """Two videos made from one prompt: what a comparison is about."""

    prompt: str
    first: Path | str
    second: Path | str

    def swapped(self) -> "VideoPair":
        """The same pair with its sides swapped."""
        return VideoPair(self.prompt, self.second, self.first)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One label per dimension. None means the judge did not say: a missing label is not a tie."""

    TA: Preference | None = None
    MQ: Preference | None = None
    VQ: Preference | None = None
    OA: Preference | None = None

    def __iter__(self) -> Iterator[tuple[Dimension, Preference | None]]:
        return iter([(d, getattr(self, d.value)) for d in Dimension])

    @property
    def labels(self) -> dict[str, int]:
        """The readable labels, in the card's order: {"TA": 1, "MQ": 0, …}."""
        return {dimension.value: int(label) for dimension, label in self if label is not None}

    @property
    def whole(self) -> bool:
        """All four dimensions are there."""
        return len(self.labels) == len(Dimension)


@dataclass(frozen=True, slots=True)
class Vote:
    """A person's own labels for a pair, and what they say of the judge's verdict. Raises ValueError for what cannot be a vote."""

    at: datetime  # When it was given, with its time zone
    labels: Verdict = Verdict()
    agrees: bool | None = None  # With the judge's verdict; None means the person did not say
    slots: Few[int] = ()  # Of the pairs that decided it, 0-based
    note: str = ""
    blind: bool = False  # The labels were given before anything that the judge said was shown

    def __post_init__(self) -> None:
        if self.at.tzinfo is None or not 2000 <= self.at.year < 3000:
            raise ValueError("the time of a vote has a time zone and a year of this millennium")
        if (
            len(self.slots) > MAX_DECIDING
            or len(set(self.slots)) < len(self.slots)
            or min(self.slots, default=0) < 0
        ):
            raise ValueError(f"a vote marks at most {MAX_DECIDING} pairs, each once")
        if len(self.note) > MAX_NOTE:
            raise ValueError(f"the note of a vote has at most {MAX_NOTE:,} characters")

    @property
    def empty(self) -> bool:
        """The person has said nothing."""
        return (
            not self.labels.labels
            and self.agrees is None
            and not self.slots
            and not self.note.strip()
        )

    def compare(self, verdict: Verdict | None) -> dict[Dimension, bool]:
        """Whether the person's label is that of the verdict, for each dimension in which both have one."""
        others = dict(verdict or ())
        both = [(dimension, label, others.get(dimension)) for dimension, label in self.labels]
        return {
            dimension: label is other
            for dimension, label, other in both
            if label is not None and other is not None
        }

    def agrees_with(self, verdict: Verdict | None) -> bool | None:
        """Whether the person agrees with the verdict, in words and in every label; None where neither says so."""
        equal = self.compare(verdict).values()
        if self.agrees is False or not all(equal):
            return False
        return True if self.agrees or equal else None
