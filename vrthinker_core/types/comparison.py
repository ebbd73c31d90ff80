"""What is compared, and what comes out: two videos of one prompt, and a label per dimension."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path


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
