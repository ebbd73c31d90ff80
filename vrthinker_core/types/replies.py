"""One reply of a judge as it was read: what it says, what it asks for, and the problems met on the way."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Annotated, Literal

from annotated_types import Interval

from vrthinker_core.types.bounds import Few, Natural
from vrthinker_core.types.comparison import Verdict


class ProblemKind(StrEnum):
    """The named problems of a reply."""

    EMPTY = "empty"
    NO_ACTION = "no_action"
    TRUNCATED = "truncated"
    BAD_JSON = "bad_json"
    UNKNOWN_TOOL = "unknown_tool"
    NO_VALID_FRAMES = "no_valid_frames"
    BAD_VALUE = "bad_value"
    MISSING_DIMS = "missing_dims"
    EMPTY_ANSWER = "empty_answer"
    CONFLICT = "conflict"
    INVENTED = "invented"  # Text after a control token: the judge was inventing its environment, and it was cut
    IGNORED_CALL = "ignored_call"  # A call beside a complete answer: the answer ended the run
    REPAIRED = "repaired"  # Broken JSON that could be read all the same
    BAD_CONFIDENCE = "bad_confidence"


CUT_PROBLEMS = frozenset(
    {
        ProblemKind.EMPTY,
        ProblemKind.NO_ACTION,
        ProblemKind.TRUNCATED,
        ProblemKind.BAD_JSON,
        ProblemKind.MISSING_DIMS,
    }
)
"""What every reply has that ends in the middle, whatever ended it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A named problem and one sentence about it."""

    kind: ProblemKind
    detail: str


MAX_DIGITS = 40  # An integer with more digits is kept as text: it is no index, and no number is too long to be read
Written = (
    Annotated[int, Interval(gt=-(10**MAX_DIGITS), lt=10**MAX_DIGITS)]
    | Annotated[float, Interval(gt=-inf, lt=inf)]
)


@dataclass(frozen=True, slots=True)
class FrameSelection:
    """What a reply's calls ask for, in the protocol's own numbers."""

    indices: Few[Natural]  # Valid, without duplicates, cut to the protocol's limit
    dropped: Few[Written | str | None] = ()  # What was no index of this protocol, as written
    truncated: bool = False  # More was asked for than the protocol allows, or than is read at all
    asked: Natural = 0  # How many entries the calls held


@dataclass(frozen=True, slots=True)
class Reply:
    """The best reading of one completion. Never a yes or no: a reading, and the problems met on the way."""

    text: str  # The reply as it is kept in the history (cut where the judge began to invent its environment)
    snapshot: str = ""
    think: str = ""
    wants: FrameSelection | None = None
    verdict: Verdict | None = None
    """The labels of the final answer, else of the recommended one; partial labels are kept, never filled in."""
    confidence: Annotated[int, Interval(ge=1, le=5)] | None = None
    final: bool = False  # The verdict stood in a final answer
    problems: Few[Problem] = ()

    @property
    def kind(self) -> Literal["answer", "tool", "recommend", "invalid"]:
        """What the engine acts on."""
        if self.final and self.verdict is not None and self.verdict.whole:
            return "answer"
        if self.wants is not None and self.wants.indices:
            return "tool"
        if not self.final and self.verdict is not None and self.verdict.whole:
            return "recommend"
        return "invalid"
