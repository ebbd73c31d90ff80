"""One judge talking about one pair: reads what is new, writes a reply, and leaves nothing on the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from vrthinker_core.backends.base import never
from vrthinker_core.backends.local.engine.generation import Judge, Speech
from vrthinker_core.backends.local.engine.kv_cache import Reading
from vrthinker_core.backends.local.engine.multi_step import Stride
from vrthinker_core.backends.local.text.chat_template import Item, render, size
from vrthinker_core.errors import BackendFailed, ContextFull, VrThinkerError
from vrthinker_core.messages import Cancelled, Completion, Message, Sampling


class LocalConversation:
    """A `Conversation` with a model in this process. One thread at a time; several conversations may speak at once.

    The cache holds exactly what was read, also after a cancel; after any error it is emptied, and the next call starts afresh.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._reading: Reading | None = Reading(judge.model, judge.sight, judge.threads)
        self._stride = Stride(judge.model, self._reading, judge.penalty, judge.stride) if judge.stride else None

    @property
    def capacity(self) -> int:
        """Tokens that fit into the context, prompt and reply together."""
        return self._judge.capacity

    def measure(self, messages: Sequence[Message]) -> int:
        """Prompt tokens that `messages` come to; the model does not run. Raises BackendFailed for frames it cannot take."""
        return size(self._render(messages))

    def stream(self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = never) -> Iterator[str | Completion]:
        """Pieces of text, then one `Completion`. Asks `cancelled` before every token and every few hundred tokens of prompt.

        Greedy at temperature 0; else sampled on the processor from `sampling.seed`, so a call repeats whatever ran before it.
        """
        speech = self.speech(messages, sampling, cancelled)
        try:
            yield from _spoken(speech)
        except GeneratorExit:
            raise
        except BaseException as error:
            if not isinstance(error, Exception):
                speech.reading.clear()
                raise
            raise self.failed(speech, error) from error

    def speech(self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = never) -> Speech:
        """A reply that is still to be written. Raises ContextFull where the prompt does not fit."""
        items = self._render(messages)
        if size(items) + 1 > self.capacity:
            raise ContextFull(f"The conversation has come to {size(items):,} tokens; this judge's context holds {self.capacity:,}.")
        if self._reading is None:
            raise BackendFailed("This conversation was closed.")
        return Speech(self._judge, self._reading, items, sampling, cancelled, self._stride)

    def failed(self, speech: Speech, error: Exception) -> VrThinkerError:
        """What to raise for `error`; the cache may be torn and is emptied."""
        speech.reading.clear()
        return error if isinstance(error, VrThinkerError) else BackendFailed(_cause(error, size(speech.prompt)))

    def close(self) -> None:
        """Give the cache back."""
        self._reading = self._stride = None

    # -- steps -------------------------------------------------------------------------------------------------------------

    def _render(self, messages: Sequence[Message]) -> list[Item]:
        try:
            return render(messages, self._judge.spelling, self._judge.sight.picture)
        except ValueError as error:
            raise BackendFailed(f"This judge cannot take a frame: {error}.") from error


def _spoken(speech: Speech) -> Iterator[str | Completion]:
    speech.begin()
    while speech.stop is None:
        speech.word()
        if piece := speech.said.piece():
            yield piece
    if piece := speech.said.rest():
        yield piece
    yield speech.completion()


def _cause(error: Exception, tokens: int) -> str:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return f"The judge ran out of memory at {tokens:,} tokens: choose a shorter memory window or fewer frames a call."
    detail = str(error).strip().splitlines()
    return f"The judge stopped while it was speaking: {detail[0] if detail else type(error).__name__}"
