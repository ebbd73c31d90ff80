"""A judge that speaks replies written beforehand: for tests, demonstrations and trying the page. It ships with the package."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import JudgeError
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling

ScriptedReply = str | Completion | JudgeError
"""One reply: its text, a whole completion, or the error to raise in its place."""

Script = Sequence[ScriptedReply] | Callable[[Sequence[Message]], ScriptedReply]
"""The replies in order (the last one again when they run out), or a function of the messages."""

PIECE_CHARACTERS = 8
"""Characters streamed at once."""


@dataclass(frozen=True, slots=True)
class ScriptedBackend:
    """A judge that says what it is told to say.

    `pause` is the time in seconds between two pieces; `capacity` and `tokens_per_frame` let a test fill a context.
    """

    script: Script
    protocol: ProtocolName | None = None
    name: str = "scripted"
    pause: float = 0.0
    context_length: int | None = None
    tokens_per_frame: int = 256
    follows_instructions: bool = True

    def open_conversation(self) -> ScriptedConversation:
        """A conversation that begins at the first reply."""
        return ScriptedConversation(self)


class ScriptedConversation:
    """Counts its calls; keeps nothing else."""

    def __init__(self, backend: ScriptedBackend) -> None:
        self._backend = backend
        self._calls = 0

    @property
    def context_length(self) -> int | None:
        """Tokens that fit, None for no limit."""
        return self._backend.context_length

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Words and pictures, roughly as a tokeniser would count them."""
        frames = sum(len(message.frames) for message in messages)
        return sum(len(message.text.split()) for message in messages) + frames * self._backend.tokens_per_frame

    def stream(
        self,
        messages: Sequence[Message],
        sampling: Sampling,  # noqa: ARG002 - the seam gives it
        cancelled: Cancelled = not_cancelled,
    ) -> Iterator[str | Completion]:
        """The next reply, piece by piece. A script cannot think again: `sampling.redirect` changes nothing."""
        line = self._next(messages)
        if isinstance(line, JudgeError):
            raise line
        told = line if isinstance(line, Completion) else Completion(line)
        text = told.text
        pieces: list[int] = []
        for start in range(0, len(text), PIECE_CHARACTERS):
            if cancelled():
                break
            piece = text[start : start + PIECE_CHARACTERS]
            pieces.append(len(piece))
            yield piece
            if self._backend.pause:
                time.sleep(self._backend.pause)
        stop = told.stop if sum(pieces) == len(text) else "cancelled"
        yield Completion(
            text[: sum(pieces)], stop, pieces=tuple(pieces), prompt_tokens=self.count_tokens(messages), new_tokens=len(text.split())
        )

    def close(self) -> None:
        """Nothing is held."""

    def _next(self, messages: Sequence[Message]) -> ScriptedReply:
        script, call = self._backend.script, self._calls
        self._calls += 1
        if callable(script):
            return script(messages)
        return script[min(call, len(script) - 1)]
