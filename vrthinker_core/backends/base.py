"""The protocols between this package and a model: a `Backend` opens `Conversation`s."""

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vrthinker_core.protocols.segments import find_tags, mentioned_digits, to_narrow
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import (
    Cancelled,
    Completion,
    LabelProbabilities,
    LabelToken,
    Message,
    Retrying,
    Sampling,
)


def not_cancelled() -> bool:
    """Return False: the `Cancelled` of a run that cannot be stopped."""
    return False


Scope = typing.Literal["any", "drawn"]
"""The videos a judge can judge: any, or only clips that this project drew."""


class ReplyText:
    """The text of a reply; with `redirect` (a, b), `a` never appears.

    See `Sampling.redirect`. If the first replacement proves to lie inside reasoning, the next `a`
    behind that reasoning is replaced, too.
    """

    def __init__(self, redirect: tuple[str, str] | None) -> None:
        self.written, self._emitted = "", 0  # The text, and how many characters were emitted
        self.pieces: list[int] = []  # Lengths of the emitted pieces
        self.label_tokens: list[LabelToken] = []  # Digits, also of frame numbers
        self._unwanted, self._wanted = redirect or ("", "")
        self._replaced_to: int | None = None  # End offset of the last replacement

    @property
    def may_redirect(self) -> bool:
        """Whether `a` may still come."""
        return bool(self._unwanted)

    @property
    def text(self) -> str:
        """The text emitted so far."""
        return self.written[: self._emitted]

    def mark_digit(self, probabilities: LabelProbabilities, characters_after: int) -> None:
        """Mark the last token's digit, `characters_after` characters before its end."""
        offset = len(self.written) - characters_after - 1
        self.label_tokens.append(LabelToken(offset, probabilities))

    def labels(self) -> tuple[LabelToken, ...]:
        """Return the emitted labels' digits."""
        places = mentioned_digits(self.text) if self.label_tokens else ()
        return tuple(token for token in self.label_tokens if token.offset in places)

    def replace_phrase(self) -> int:
        """Replace `a` and the rest with `b`; return the offset or -1."""
        end = self._replaced_to or 0
        start = self.written.find(self._unwanted, end) if self._unwanted else -1
        if start >= 0 and self._replaced_to is not None:
            tags = find_tags(to_narrow(self.written[end:]))
            closings = (tag.end for tag in tags if tag.kind == "think" and not tag.opens)
            start = self.written.find(self._unwanted, end + next(closings, len(self.written)))
        if start >= 0:
            self.written = self.written[:start] + self._wanted
            self._unwanted = self._unwanted if self._replaced_to is None else ""
            self._replaced_to = len(self.written)
        return start

    def safe_end(self) -> int:
        """Return the text's length without an end that may begin `a`."""
        text, unwanted = self.written, self._unwanted
        begun = (n for n in range(len(unwanted) - 1, 0, -1) if text.endswith(unwanted[:n]))
        return len(text) - next(begun, 0)

    def emit(self, end: int) -> str:
        """Return the new text up to the offset `end`."""
        piece = self.written[self._emitted : end]
        if piece:
            self._emitted = end
            self.pieces.append(len(piece))
        return piece


class Conversation(typing.Protocol):
    """A conversation about one pair, which shares no state with another."""

    @property
    def context_length(self) -> int | None:
        """Tokens of prompt and reply together; None if unknown."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Return the number of prompt tokens of `messages`."""

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Correct an estimating `count_tokens` with the true count of `messages`."""

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Retrying | Completion]:
        """Yield pieces of text, then exactly one `Completion`.

        `messages` are the whole conversation. A cancelled reply ends with a `Completion`, too.

        Raises `ContextFull` if the prompt does not fit, `BackendRefused` if a retry cannot help,
        and `BackendFailed` if the model fails. After an error the caller may repeat the same call
        once; the reply then starts from its beginning.
        """

    def close(self) -> None:
        """Free the conversation's memory and connections."""


class JudgeDescription(typing.Protocol):
    """The description of a judge, whoever generates its replies."""

    @property
    def name(self) -> str:
        """The judge's display name."""

    @property
    def protocols(self) -> tuple[ProtocolName, ...]:
        """The protocols this judge was trained for, default first; empty if unknown."""

    @property
    def follows_instructions(self) -> bool:
        """Whether the judge understands text beyond its protocol's own sentences.

        If not, only `Sampling.redirect` makes the judge answer.
        """

    @property
    def scope(self) -> Scope:
        """The videos for which the judge's verdict is valid."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for people, one sentence each, shown with every result."""


class Backend(JudgeDescription, typing.Protocol):
    """A judge that is ready to generate."""

    def open_conversation(self) -> Conversation:
        """Return a new conversation."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """The arguments of one `Conversation.stream` call, for `BatchBackend.stream_batch`."""

    conversation: Conversation
    messages: Sequence[Message]
    sampling: Sampling
    cancelled: Cancelled = not_cancelled


StreamItem = str | Retrying | Completion | Exception
"""An item of a batched stream: text, a request sent again, the end of a reply, or its error."""


@typing.runtime_checkable
class BatchBackend(Backend, typing.Protocol):
    """A backend that generates for several conversations faster than in turn."""

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """Yield (index of the request, item of its stream) as generated.

        Each request ends with exactly one `Completion` or one exception. An error of one request
        does not touch the others.
        """


@typing.runtime_checkable
class RemoteBackend(Backend, typing.Protocol):
    """A backend whose replies are generated elsewhere, many at once."""

    streams: bool
    """False lets replies come whole, where nobody reads along."""

    @property
    def pairs_in_hand(self) -> int:
        """The number of pairs to ask about at the same time, unless a person says another."""
