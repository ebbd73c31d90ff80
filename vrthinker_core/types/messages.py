"""What goes to a judge and what comes back: neutral messages, how to write a reply, and the reply as text."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from vrthinker_core.types.bounds import Amount, Natural, PerToken
from vrthinker_core.types.frames import Frame


@dataclass(frozen=True, slots=True)
class Text:
    """Text of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """One frame sent as a picture."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Video:
    """Frames sent as one video item: an even number of frames of one size."""

    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class GeneratedText:
    """What the judge itself wrote, with the token ids it wrote, so that they are never tokenised again (() when unknown)."""

    text: str
    tokens: tuple[int, ...] = ()


Part = Text | Image | Video | GeneratedText


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation, neutral: no template, no control tokens."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """Its text alone."""
        return "".join(part.text for part in self.parts if isinstance(part, Text | GeneratedText))

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Its frames in the order they are sent."""
        shown = (part for part in self.parts if isinstance(part, Image | Video))
        return tuple(
            chain.from_iterable(
                (part.frame,) if isinstance(part, Image) else part.frames for part in shown
            )
        )


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a judge is to write one reply."""

    max_new_tokens: int = 2048
    temperature: float = 0.0  # 0 is greedy, as in the paper's evaluation
    seed: int = 0
    redirect: tuple[str, str] | None = None
    """(a, b): where the reply would write `a` for the first time, `b` stands instead and the judge goes on from there. How a forced
    answer is made: on the last turn the opening of a call becomes the opening of an answer."""


MAX_SUM = 1.001  # Of the probabilities of a label, each of which was rounded

LabelProbabilities = tuple[float, float, float]
"""Of 0, 1 and 2 in the place of a label's digit, among all tokens, so they add up to at most 1."""


@dataclass(frozen=True, slots=True)
class LabelToken:
    """A token of a reply that is a label's digit, and how likely the judge was to write each of the three in its place.

    They are the softmax of the logits from which the token was sampled, without the temperature; a local judge's own repetition
    penalty is in them, as it is in what is sampled. Raises ValueError for what cannot be one.
    """

    offset: int  # Of the digit in the text of the completion
    probabilities: LabelProbabilities

    def __post_init__(self) -> None:
        if (
            self.offset < 0
            or not all(0 <= share <= 1 for share in self.probabilities)
            or sum(self.probabilities) > MAX_SUM
        ):
            raise ValueError("a label's probabilities are from 0 to 1 and add up to at most 1")


@dataclass(frozen=True, slots=True)
class Completion:
    """What a backend wrote for one call."""

    text: str
    stop: Literal["end", "length", "cancelled", "failed"] = "end"
    tokens: PerToken[
        Natural
    ] = ()  # The reply's own token ids, without the end-of-turn token; () where a server does not tell
    pieces: PerToken[
        Natural
    ] = ()  # Lengths of the text pieces as they arrived; they add up to len(text)
    prompt_tokens: Natural | None = None
    reused_tokens: Natural | None = None  # Prompt tokens that were not computed again
    new_tokens: Natural | None = None
    seconds: Amount = 0.0
    cost: Amount | None = None  # US dollars, if the judge's host says so or lists prices
    reasoning: str = (
        ""  # What a hosted model thought aside, before its reply; it is never sent back
    )
    redirected: tuple[int, int] | None = (
        None  # From where to where in `tokens` redirects stand, which the judge did not write
    )
    label_tokens: PerToken[
        LabelToken
    ] = ()  # Every digit 0, 1 or 2 that may be a label, where the backend tells probabilities

    def split(self) -> Iterator[str]:
        """The text in the pieces in which it arrived."""
        start = 0
        for length in self.pieces:
            yield self.text[start : start + length]
            start += length


MAX_PIECES = 2048  # Of one reply, as a run keeps it: neighbours are joined where more arrived


Cancelled = Callable[[], bool]  # Asked often while a judge works; True means stop now
