"""The protocols between this package and a model: a Backend opens Conversations, a Conversation streams replies to messages."""

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vrthinker_core.dialects.reading.normalize import to_narrow
from vrthinker_core.dialects.reading.tags import find_tags
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling


def not_cancelled() -> bool:
    """The `Cancelled` of a run that cannot be stopped."""
    return False


Scope = typing.Literal["any", "drawn"]
"""Which videos a judge can judge: all, or only clips that this project drew."""


class RedirectState:
    """The phrase that a reply must not write, and the phrase that replaces it: see `Sampling.redirect`.

    It is replaced a second time if reasoning is closed behind the first replacement, which was then part of that reasoning.
    """

    def __init__(self, redirect: tuple[str, str] | None) -> None:
        self._unwanted, self.wanted = redirect or ("", "")
        self.end: int | None = None  # Of the last replacement in the text; None if there is none

    def cut(self, text: str) -> int:
        """Where the reply so far is cut, to go on with `wanted`; -1 if nowhere."""
        end = self.end or 0
        start = text.find(self._unwanted, end) if self._unwanted else -1
        if start >= 0 and self.end is not None:
            closings = (
                tag.end
                for tag in find_tags(to_narrow(text[end:]))
                if tag.kind == "think" and not tag.opens
            )
            start = text.find(self._unwanted, end + next(closings, len(text)))
        if start >= 0:
            self._unwanted = self._unwanted if self.end is None else ""
            self.end = start + len(self.wanted)
        return start

    def held_back(self, text: str) -> int:
        """Characters at the end of a text that may begin what is never to be shown, and wait for what follows."""
        unwanted = self._unwanted
        return next((n for n in range(len(unwanted) - 1, 0, -1) if text.endswith(unwanted[:n])), 0)


class Conversation(typing.Protocol):
    """One judge and one pair of videos. All its state is its own: two conversations never share a KV cache."""

    @property
    def context_length(self) -> int | None:
        """Tokens that fit into the context, prompt and reply together; None where it is not known."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """The number of prompt tokens of `messages`."""

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Tell a `count_tokens` that only estimates how many tokens `messages` really had."""

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        """Yield pieces of text, then exactly one `Completion` (also when cancelled). `messages` are the whole conversation.

        Raises ContextFull when the prompt does not fit, BackendRefused when asking again cannot help, BackendFailed when the model
        fails; after that the same call may come once more, and what is yielded then stands alone.
        """

    def close(self) -> None:
        """Free what the conversation holds."""


class JudgeDescription(typing.Protocol):
    """What is known of a judge, whoever generates its replies."""

    @property
    def name(self) -> str:
        """The judge's display name."""

    @property
    def protocols(self) -> tuple[ProtocolName, ...]:
        """The dialects this judge was trained for, the first of them where none is chosen; empty where they are not known."""

    @property
    def follows_instructions(self) -> bool:
        """It understands text that is not its protocol's own. One that does not is made to answer by `Sampling.redirect` alone."""

    @property
    def scope(self) -> Scope:
        """The videos on which its verdict stands."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person must know of this judge, one sentence each; they are shown with every result."""


def describe_backend(judge: JudgeDescription) -> str:
    """A backend as a notebook shows it: its name, and the protocols that it was trained for."""
    return f"<{type(judge).__name__} {judge.name}, {' and '.join(judge.protocols) or 'no protocol of its own'}>"


class Backend(JudgeDescription, typing.Protocol):
    """A judge that is ready to generate."""

    def open_conversation(self) -> Conversation:
        """A new conversation."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """The arguments of one `Conversation.stream` call, for `BatchBackend.stream_batch`."""

    conversation: Conversation
    messages: Sequence[Message]
    sampling: Sampling
    cancelled: Cancelled = not_cancelled


StreamItem = str | Completion | Exception
"""One item of a batched stream: a piece of text, the end of a reply, or the error that ended it."""


@typing.runtime_checkable
class BatchBackend(Backend, typing.Protocol):
    """A backend that generates for several conversations at once in less time than one after another."""

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """Yield (index of the request, what its `stream` would yield), in the order in which it is generated.

        Each request ends with exactly one `Completion` or one exception; an error of one request does not touch the others.
        """


@typing.runtime_checkable
class RemoteBackend(Backend, typing.Protocol):
    """A backend whose replies are generated elsewhere, many at once and each at its own pace."""

    @property
    def at_own_pace(self) -> typing.Literal[True]:
        """What `isinstance` knows such a backend by: whoever asks need not import `ServerBackend`, which takes seconds."""
