"""The one seam to a model: a backend opens conversations, a conversation turns messages into text."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling


def not_cancelled() -> bool:
    """The `Cancelled` of a run that nobody can stop."""
    return False


class Conversation(typing.Protocol):
    """One judge talking about one pair. Nothing of it lives on the model: two conversations never mix."""

    @property
    def context_length(self) -> int | None:
        """Tokens that fit into the context, prompt and reply together; None where it is not known."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Prompt tokens that `messages` come to."""

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        """Pieces of text, then exactly one `Completion` (also when cancelled). Each call is given the whole conversation.

        Raises ContextFull when the prompt does not fit, BackendFailed when the model stops speaking.
        """

    def close(self) -> None:
        """Give back what the conversation holds."""


class Backend(typing.Protocol):
    """A judge that is ready to speak."""

    @property
    def name(self) -> str:
        """How the judge is named to people."""

    @property
    def protocol(self) -> ProtocolName | None:
        """The dialect this checkpoint was trained for ("concat" or "paired"), None where that is not known."""

    @property
    def follows_instructions(self) -> bool:
        """It understands words that are not its protocol's; to a judge that does not, only `redirect` forces an answer."""

    def open_conversation(self) -> Conversation:
        """A fresh conversation."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One call of `Conversation.stream` that is still to be made."""

    conversation: Conversation
    messages: Sequence[Message]
    sampling: Sampling
    cancelled: Cancelled = not_cancelled


StreamItem = str | Completion | Exception
"""A piece of a reply, its end, or what went wrong with this one."""


@typing.runtime_checkable
class BatchBackend(Backend, typing.Protocol):
    """A backend whose conversations can speak side by side for less than one after another."""

    def stream_batch(self, questions: Sequence[GenerationRequest]) -> Iterator[tuple[int, StreamItem]]:
        """What `stream` would give for each question, with the question's position, in the order in which it comes.

        Each position ends with exactly one `Completion` or one exception; the failure of one is not that of another.
        """
