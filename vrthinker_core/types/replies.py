"""The parsed reply of a judge, with the problems of reading it."""

from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Annotated, Literal

from annotated_types import Interval

from vrthinker_core.types.comparison import Verdict
from vrthinker_core.types.settings import Few, Natural


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
    # Text after a control token: the judge invented its environment, and was cut
    INVENTED = "invented"
    IGNORED_CALL = "ignored_call"  # A call beside a complete answer; the answer ended the run
    REPAIRED = "repaired"  # Broken JSON that was repaired
    UNTAGGED = "untagged"  # A readable answer without its tag, of a judge that was not trained
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
"""The problems of every reply that ends in the middle, whatever ended it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A named problem, and one sentence about it."""

    kind: ProblemKind
    detail: str


# An integer with more digits stays text: it is no index, and reading it as text cannot fail
MAX_DIGITS = 40
Written = (
    Annotated[int, Interval(gt=-(10**MAX_DIGITS), lt=10**MAX_DIGITS)]
    | Annotated[float, Interval(gt=-inf, lt=inf)]
)


@dataclass(frozen=True, slots=True)
class FrameSelection:
    """The frames that a reply's calls ask for, in the protocol's numbers."""

    indices: Few[Natural]  # Valid, without duplicates, cut to the protocol's limit
    # Entries that are no index of this protocol, as written
    dropped: Few[Written | str | None] = ()
    truncated: bool = False  # More was asked for than is allowed, or than is read at all
    asked: Natural = 0  # Number of entries in the calls


@dataclass(frozen=True, slots=True)
class Reply:
    """The best reading of one completion, with the problems met."""

    text: str  # As kept in the history: cut at the point of an invented environment
    snapshot: str = ""
    think: str = ""
    wants: FrameSelection | None = None
    verdict: Verdict | None = None
    """Labels of the final answer, else of the recommended one; missing labels stay missing."""
    confidence: Annotated[int, Interval(ge=1, le=5)] | None = None
    final: bool = False  # The verdict comes from a final answer
    problems: Few[Problem] = ()

    @property
    def kind(self) -> Literal["answer", "tool", "recommend", "invalid"]:
        """The kind of reply that the engine acts on."""
        if self.final and self.verdict is not None and self.verdict.whole:
            return "answer"
        if self.wants is not None and self.wants.indices:
            return "tool"
        if not self.final and self.verdict is not None and self.verdict.whole:
            return "recommend"
        return "invalid"
