"""One judge talking about one pair: reads what is new, writes a reply, and leaves nothing on the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.engine.generation import Generation, LoadedModel
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.multi_step import MultiStepDecoder
from vrthinker_core.backends.local.text.chat_template import PromptItem, render_prompt, token_count
from vrthinker_core.errors import BackendFailed, ContextFull, VrThinkerError
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling


class LocalConversation:
    """A `Conversation` with a model in this process. One thread at a time; several conversations may speak at once.

    The cache holds exactly what was read, also after a cancel; after any error it is emptied, and the next call starts afresh.
    """

    def __init__(self, judge: LoadedModel) -> None:
        self._model = judge
        self._cache: PrefixCache | None = PrefixCache(judge.model, judge.vision, judge.threads)
        self._multi_step = (
            MultiStepDecoder(judge.model, self._cache, judge.repetition_penalty, judge.steps_per_sync)
            if judge.steps_per_sync
            else None
        )

    @property
    def context_length(self) -> int:
        """Tokens that fit into the context, prompt and reply together."""
        return self._model.context_length

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Prompt tokens that `messages` come to; the model does not run. Raises BackendFailed for frames it cannot take."""
        return token_count(self._render(messages))

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        """Pieces of text, then one `Completion`. Asks `cancelled` before every token and every few hundred tokens of prompt.

        Greedy at temperature 0; else sampled on the processor from `sampling.seed`, so a call repeats whatever ran before it.
        """
        speech = self.start_generation(messages, sampling, cancelled)
        try:
            yield from _generate(speech)
        except GeneratorExit:
            raise
        except BaseException as error:
            if not isinstance(error, Exception):
                speech.cache.clear()
                raise
            raise self.error_after(speech, error) from error

    def start_generation(self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled) -> Generation:
        """A reply that is still to be written. Raises ContextFull where the prompt does not fit."""
        items = self._render(messages)
        if token_count(items) + 1 > self.context_length:
            raise ContextFull(
                f"The conversation has come to {token_count(items):,} tokens; this judge's context holds {self.context_length:,}."
            )
        if self._cache is None:
            raise BackendFailed("This conversation was closed.")
        return Generation(self._model, self._cache, items, sampling, cancelled, self._multi_step)

    def error_after(self, speech: Generation, error: Exception) -> VrThinkerError:
        """What to raise for `error`; the cache may be torn and is emptied."""
        speech.cache.clear()
        return error if isinstance(error, VrThinkerError) else BackendFailed(_cause(error, token_count(speech.prompt)))

    def close(self) -> None:
        """Give the cache back."""
        self._cache = self._multi_step = None

    # -- steps -------------------------------------------------------------------------------------------------------------

    def _render(self, messages: Sequence[Message]) -> list[PromptItem]:
        try:
            return render_prompt(messages, self._model.tokenizer, self._model.vision.vision_item)
        except ValueError as error:
            raise BackendFailed(f"This judge cannot take a frame: {error}.") from error


def _generate(speech: Generation) -> Iterator[str | Completion]:
    speech.prefill()
    while speech.stop is None:
        speech.step()
        if piece := speech.detokenizer.next_text():
            yield piece
    if piece := speech.detokenizer.flush():
        yield piece
    yield speech.completion()


def _cause(error: Exception, tokens: int) -> str:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return f"The judge ran out of memory at {tokens:,} tokens: choose a shorter memory window or fewer frames a call."
    detail = str(error).strip().splitlines()
    return f"The judge stopped while it was speaking: {detail[0] if detail else type(error).__name__}"
