"""LocalConversation: keeps the KV cache of one conversation, prefills what is new of a prompt and streams the reply."""

from collections.abc import Iterator, Sequence

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.checkpoint.devices import is_out_of_memory
from vrthinker_core.backends.local.engine.decode_step import free_gpu_memory
from vrthinker_core.backends.local.engine.generation import Generation, LoadedModel
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.multi_step import MultiStepDecoder
from vrthinker_core.backends.local.text.chat_template import PromptItem, token_count
from vrthinker_core.errors import BackendFailed, BackendRefused, ContextFull, VrThinkerError
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling


class LocalConversation:
    """A `Conversation` with a model in this process. One thread at a time; several conversations may generate at once.

    The KV cache matches the processed tokens exactly, also after a cancel. After any error it is cleared, and the next call
    prefills from the start.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self.context_length = loaded.context_length
        self._cache: PrefixCache | None = PrefixCache(loaded.model, loaded.vision, loaded.threads)
        self._multi_step: MultiStepDecoder | None = None
        if steps := loaded.steps_per_sync:
            self._multi_step = MultiStepDecoder(
                loaded.model, self._cache, loaded.label_digits, loaded.repetition_penalty, steps
            )

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """The number of prompt tokens of `messages`; the model does not run. Raises BackendRefused for frames it cannot take."""
        return token_count(self._render(messages))

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Nothing to do: `count_tokens` is exact."""

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        """Yield pieces of text, then one `Completion`. Calls `cancelled` before every token and every prefill chunk.

        Greedy at temperature 0; else sampled on the CPU from `sampling.seed`, so a call repeats whatever ran before it.
        """
        generation = self.start_generation(messages, sampling, cancelled)
        try:
            generation.prefill()
            while generation.finish_reason is None:
                generation.step()
                if text := generation.detokenizer.next_text():
                    yield text
            if text := generation.detokenizer.flush():
                yield text
            yield generation.completion()
        except GeneratorExit:  # the consumer stopped at a yield, where the cache is consistent
            raise
        except Exception as error:
            raise self.error_after(generation, error) from error
        except BaseException:
            self._clear(generation)
            raise

    def start_generation(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Generation:
        """A reply of which nothing is computed yet. Raises ContextFull where the prompt does not fit."""
        prompt, limit = self._render(messages), self.context_length
        check_context(token_count(prompt), limit)
        if self._cache is None:
            raise BackendFailed("This conversation was closed.")
        return Generation(self._loaded, self._cache, prompt, sampling, cancelled, self._multi_step)

    def error_after(self, generation: Generation, error: Exception) -> VrThinkerError:
        """The exception to raise for `error`. Clears the cache, which the error may have left half written."""
        self._clear(generation)
        return to_judge_error(error, token_count(generation.prompt))

    def close(self) -> None:
        """Free the KV cache."""
        self._cache = self._multi_step = None

    def _clear(self, generation: Generation) -> None:
        generation.cache.clear()
        if self._multi_step is not None:
            self._multi_step.clear()

    def _render(self, messages: Sequence[Message]) -> list[PromptItem]:
        try:
            return self._loaded.render(messages)
        except ValueError as error:
            raise BackendRefused(f"This judge cannot take a frame: {error}.") from error


def check_context(tokens: int, limit: int | None) -> None:
    """Raise ContextFull if a prompt of that many tokens leaves no room for a reply; `limit` is None if none is known."""
    if limit and tokens + 1 > limit:
        raise ContextFull(
            f"The conversation has come to {tokens:,} tokens; this judge's context holds {limit:,}."
        )


def to_judge_error(error: Exception, prompt_tokens: int) -> VrThinkerError:
    """The exception to raise for what stopped a reply. Frees a GPU's memory if that ran out."""
    if isinstance(error, VrThinkerError):
        return error
    if is_out_of_memory(error):
        free_gpu_memory()
        return BackendRefused(
            f"The judge ran out of memory at {prompt_tokens:,} tokens: choose a shorter memory window or fewer frames a call."
        )
    detail = str(error).strip().splitlines()
    return BackendFailed(
        f"The judge stopped while it was generating: {detail[0] if detail else type(error).__name__}"
    )
