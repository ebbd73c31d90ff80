"""What is sent to a judge and comes back: messages, completions, replies and verdicts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from itertools import chain
from math import inf
from typing import Annotated, Literal

from annotated_types import Interval

from vrthinker_core.types.frames import Frame
from vrthinker_core.types.settings import Amount, Few, Natural, PerToken


@dataclass(frozen=True, slots=True)
class Text:
    """A text of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A frame sent as a picture."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Video:
    """Frames sent as one video: an even number, of one size."""

    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """Text that the judge wrote, with its token ids.

    With the ids the text is never tokenised again; () if unknown.
    """

    text: str
    tokens: tuple[int, ...] = ()


Part = Text | Image | Video | GeneratedText


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the conversation, without template or control tokens."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text | GeneratedText))

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames, in sending order."""
        shown = (part for part in self.parts if isinstance(part, Image | Video))
        frames = ((part.frame,) if isinstance(part, Image) else part.frames for part in shown)
        return tuple(chain.from_iterable(frames))


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling options for one reply. `temperature` 0 is greedy, as in the paper's evaluation.

    `redirect` (a, b): the first `a` that the reply would write becomes `b`. The judge goes on from
    there. A forced answer is made this way: on the last turn the opening of a call becomes the
    opening of an answer. `most_frames`, the numbers in one call (None: the protocol's most), is told
    to a judge that was trained for no protocol.
    """

    max_new_tokens: int = 2048
    temperature: float = 0.0
    seed: int = 0
    redirect: tuple[str, str] | None = None
    most_frames: int | None = None


LabelProbabilities = tuple[float, float, float]
"""The probabilities of 0, 1 and 2 at the place of a label's digit. They are shares among all
tokens, so their sum is at most 1."""


@dataclass(frozen=True, slots=True)
class LabelToken:
    """A token that is a label's digit, with all label probabilities.

    The probabilities are the softmax of the logits from which the token was sampled, without the
    temperature. A local judge's repetition penalty is included, as in sampling. Raises `ValueError`
    if the offset or the probabilities are out of range.
    """

    offset: int  # Of the digit, in the text of the completion
    probabilities: LabelProbabilities

    def __post_init__(self) -> None:
        shares = self.probabilities
        # Each of the three is rounded
        if self.offset < 0 or not all(0 <= share <= 1 for share in shares) or sum(shares) > 1.001:
            raise ValueError("a label's probabilities are from 0 to 1 and add up to at most 1")


@dataclass(frozen=True, slots=True)
class Retrying:
    """A request that is sent to a server again. No trace keeps it.

    Attributes:
        attempt: Number of this try, from 2.
        attempts: Maximum number of tries.
        busy: The server had too many requests; else it failed, or did not answer.
    """

    attempt: int
    attempts: int
    busy: bool


@dataclass(frozen=True, slots=True)
class Completion:
    """The output of a backend for one request. A judge of one's own needs only `text`.

    Attributes:
        tokens: Token ids without the end-of-turn token; () if a server does not tell them.
        pieces: Lengths of the text pieces as they arrived; their sum is len(text).
        reused_tokens: Prompt tokens that were not prefilled again.
        cost: US dollars, if the host reports a cost or lists prices.
        reasoning: A hosted model's reasoning before the reply; never sent back.
        redirected: (start, end) of redirects in `tokens`: not written by the judge.
        label_tokens: Digits 0, 1 and 2 that may be labels, if their probabilities are known.
    """

    text: str
    stop: Literal["end", "length", "cancelled", "failed"] = "end"
    tokens: PerToken[Natural] = ()
    pieces: PerToken[Natural] = ()
    prompt_tokens: Natural | None = None
    reused_tokens: Natural | None = None
    new_tokens: Natural | None = None
    seconds: Amount = 0.0
    cost: Amount | None = None
    reasoning: str = ""
    redirected: tuple[int, int] | None = None
    label_tokens: PerToken[LabelToken] = ()

    def split(self) -> Iterator[str]:
        """Yield the text in the pieces in which it arrived."""
        start = 0
        for length in self.pieces:
            yield self.text[start : start + length]
            start += length


MAX_PIECES = 2048  # Of one stored reply; if more arrived, neighbours are joined


Cancelled = Callable[[], bool]  # Polled while a judge works; True means stop now


MAX_NOTE = 2000  # Characters in the note of a vote
MAX_DECIDING = 16  # Pairs of frames that a vote may mark


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
