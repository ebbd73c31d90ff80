"""ScriptedBackend: a judge with prewritten replies, for tests and demonstrations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vrthinker_core.backends.base import Scope, not_cancelled
from vrthinker_core.errors import BadInput, JudgeError
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import MAX_PIECES, Cancelled, Completion, Message, Sampling

# One reply: its text, a whole completion, or an error to raise
ScriptedReply = str | Completion | JudgeError

Script = Sequence[ScriptedReply] | Callable[[Sequence[Message]], ScriptedReply]
"""The replies in order, the last one repeated, or a function of the messages."""


@dataclass(frozen=True, slots=True)
class ScriptedBackend:
    """A judge that replies with `script`.

    `pause` is the time in seconds after each piece. `context_length` and `tokens_per_frame` let a
    test fill a context.
    """

    script: Script
    protocol: ProtocolName | None = None
    name: str = "scripted"
    pause: float = 0.0
    context_length: int | None = None
    tokens_per_frame: int = 256
    follows_instructions: bool = True
    scope: Scope = "any"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise `BadInput` if the script has no reply."""
        if not callable(self.script) and not self.script:
            raise BadInput("A scripted judge needs at least one reply.")

    @property
    def protocols(self) -> tuple[ProtocolName, ...]:
        """The protocol of the scripted replies, if one was given."""
        return (self.protocol,) if self.protocol else ()

    def open_conversation(self) -> ScriptedConversation:
        """Return a conversation that starts at the first reply."""
        return ScriptedConversation(self)


class ScriptedConversation:
    """A `Conversation` whose only state is the number of its `stream` calls."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self.context_length, self._backend = backend.context_length, backend
        self._calls = 0

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Count one token a word and `tokens_per_frame` a frame."""
        a_frame = self._backend.tokens_per_frame
        return sum(len(each.text.split()) + len(each.frames) * a_frame for each in messages)

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Do nothing: `count_tokens` is exact."""

    def stream(
        self,
        messages: Sequence[Message],
        sampling: Sampling,  # noqa: ARG002 - part of the protocol
        cancelled: Cancelled = not_cancelled,
    ) -> Iterator[str | Completion]:
        """Yield the next reply piece by piece, then its `Completion`.

        `sampling` is ignored, its `redirect` too. Raises the script's error if the reply is one.
        """
        script, index = self._backend.script, self._calls
        self._calls += 1
        reply = script(messages) if callable(script) else script[min(index, len(script) - 1)]
        if isinstance(reply, JudgeError):
            raise reply
        if not isinstance(reply, str | Completion):
            raise TypeError(f"a script gave a {type(reply).__name__} as its reply, not a text")
        completion = reply if isinstance(reply, Completion) else Completion(reply)
        text = completion.text
        pieces: list[int] = []
        size = max(8, -(-len(text) // MAX_PIECES))
        for start in range(0, len(text), size):
            if cancelled():
                break
            piece = text[start : start + size]
            pieces.append(len(piece))
            yield piece
            if self._backend.pause:
                time.sleep(self._backend.pause)
        written, labels = text[: sum(pieces)], completion.label_tokens
        yield Completion(
            written,
            completion.stop if written == text else "cancelled",
            pieces=tuple(pieces),
            prompt_tokens=self.count_tokens(messages),
            new_tokens=len(written.split()),
            reasoning=completion.reasoning,
            label_tokens=tuple(label for label in labels if label.offset < len(written)),
        )

    def close(self) -> None:
        """Do nothing: there is nothing to free."""
