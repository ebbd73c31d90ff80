"""TransformersBackend: a Qwen2.5-VL checkpoint as a judge in this process.

The built-in judge and the 7B use the same code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import torch

from vrthinker_core.backends.base import GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.chat_template import SafeTokenizer, VisionItem, token_count
from vrthinker_core.backends.checkpoint import Checkpoint, end_tokens, open_checkpoint
from vrthinker_core.backends.checkpoint_files import MarkedJudge
from vrthinker_core.backends.devices import borrows_gpu, parallelism
from vrthinker_core.backends.generation import (
    Generation,
    LabelDigits,
    LoadedModel,
    MultiStepDecoder,
    check_context,
    to_judge_error,
)
from vrthinker_core.backends.judge_name import folder_title
from vrthinker_core.backends.kv_cache import PrefixCache, decode_together, groups_up_to
from vrthinker_core.backends.layers import DecodeStep
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.errors import BackendFailed, VrThinkerError
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling


class LocalConversation:
    """A `Conversation` with a model in this process.

    One thread at a time; several conversations may generate at once. The KV cache matches the
    processed tokens exactly, also after a cancel. After any error the cache is cleared, and the
    next call prefills from the start.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self.context_length = loaded.context_length
        cache = PrefixCache(loaded.model, loaded.vision, loaded.step)
        self._cache: PrefixCache | None = cache
        self._multi_step: MultiStepDecoder | None = None
        if loaded.step and (steps := loaded.steps_per_sync):
            digits, penalty = loaded.label_digits, loaded.repetition_penalty
            self._multi_step = MultiStepDecoder(cache, loaded.step, digits, penalty, steps)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Return the number of prompt tokens without running the model.

        Raises `BackendRefused` if the model cannot take a frame.
        """
        return token_count(self._loaded.render(messages))

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Do nothing: `count_tokens` is exact."""

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        """Yield pieces of text, then one `Completion`.

        Calls `cancelled` before every token and every prefill chunk. Decoding is greedy at
        temperature 0. Otherwise tokens are drawn from `sampling.seed`, so a call repeats whatever
        ran before.
        """
        generation = self.start_generation(messages, sampling, cancelled)
        try:
            generation.prefill()
            for text in generation.run():
                if text is None:
                    generation.process()
                else:
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
        """Return a `Generation` that has not computed anything yet.

        Raises `ContextFull` if the prompt does not fit.
        """
        prompt = self._loaded.render(messages)
        check_context(token_count(prompt), self.context_length)
        if self._cache is None:
            raise BackendFailed("This conversation was closed.")
        return Generation(self._loaded, self._cache, prompt, sampling, cancelled, self._multi_step)

    def error_after(self, generation: Generation, error: Exception) -> VrThinkerError:
        """Clear the half-written cache and return the exception to raise."""
        self._clear(generation)
        return to_judge_error(error, token_count(generation.prompt))

    def close(self) -> None:
        """Free the KV cache."""
        self._cache = self._multi_step = None

    def _clear(self, generation: Generation) -> None:
        generation.cache.clear()
        if self._multi_step is not None:
            self._multi_step.clear()


PATCHES_AT_ONCE = 32_768
"""Image patches that are encoded in one pass: 32 frames of 448 x 448 pixels. The limit bounds the
memory of a pass. It also keeps the images of a batch from pushing each other out of the vision
encoder's cache before they are prefilled.
"""


class _BatchSequence:
    """One request of a batch."""

    def __init__(self, index: int, request: GenerationRequest) -> None:
        if not isinstance(request.conversation, LocalConversation):
            raise BackendFailed("This conversation belongs to another judge.")
        self._index, self._conversation = index, request.conversation
        self._error: Exception | None = None
        self.generation: Generation = request.conversation.start_generation(
            request.messages, request.sampling, request.cancelled
        )
        prompt, cache = self.generation.prompt, self.generation.cache
        new = prompt[cache.common_prefix(prompt) :]
        # The prompt's vision items that are not in the KV cache
        self.new_images = [item for item in new if isinstance(item, VisionItem)]
        self.items = self._items()

    def attempt(self, step: Callable[[], None]) -> None:
        """Call `step`; its exception ends the stream."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - becomes an item of the stream
            self._error = error

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _items(self) -> Iterator[tuple[int, StreamItem] | None]:
        """Yield the stream's items, and None where a token must be processed."""
        try:
            self._raise()
            for text in self.generation.run():
                yield None if text is None else (self._index, text)
                self._raise()
            yield self._index, self.generation.completion()
        except Exception as error:  # noqa: BLE001 - the other requests go on
            yield self._index, self._conversation.error_after(self.generation, error)


def _patches(items: Sequence[VisionItem]) -> int:
    return sum(math.prod(item.grid_thw) for item in items)


def _decode_together(loaded: LoadedModel, sequences: Sequence[_BatchSequence]) -> bool:
    """Process the token of each sequence; return whether that could be done."""
    generations = [each.generation for each in sequences]
    if loaded.step is None or len(generations) < 2:
        return False
    try:
        logits = decode_together(loaded.step, {each.cache: each.token for each in generations})
    except Exception:  # noqa: BLE001 - alone, each sequence raises its own error
        return False
    for generation, own in zip(generations, logits, strict=True):
        generation.logits = own
    return True


SLOW_BITS = "Weights in 8 bits run without CUDA graphs: ?quantize=4bit is faster."


class TransformersBackend(MarkedJudge):
    """A `Backend` and `BatchBackend` on a checkpoint with checked weights.

    Thread-safe: conversations share only weights and cached image features. No gradients are
    computed. A small model on the CPU runs with one thread, and leaves torch set so
    (`torch.set_num_threads(1)`) in the calling thread.
    """

    def __init__(self, checkpoint: Checkpoint, name: str, notes: tuple[str, ...] = ()) -> None:
        super().__init__(name, checkpoint.marker)
        self.notes = notes
        model, tokenizer = checkpoint.model, SafeTokenizer(checkpoint.tokenizer)
        config, control = model.generation_config, tokenizer.control
        stops = (control.im_end, control.endoftext, *end_tokens(config))
        step = DecodeStep(model) if DecodeStep.fits(model) else None
        # The model must be alone on a GPU of its own: ZeroGPU takes a lent one back
        captures = step and model.device.type == "cuda" and not borrows_gpu()
        if captures and checkpoint.bits == "8bit":  # Its kernels wait for the host
            captures, self.notes = False, (*notes, SLOW_BITS)
        self.loaded = LoadedModel(
            model=model,
            tokenizer=tokenizer,
            vision=VisionEncoder(model, checkpoint.processor, threads=checkpoint.threads),
            context_length=int(model.config.get_text_config().max_position_embeddings),
            stop_tokens=frozenset(int(token) for token in stops),
            label_digits=LabelDigits(enumerate(tokenizer.vocabulary)),
            marker=checkpoint.marker,
            repetition_penalty=float(config.repetition_penalty or 1.0),
            step=step,
            # A cancel and new text may each come eight tokens later
            steps_per_sync=8 if captures else 0,
        )

    @classmethod
    def load(
        cls, source: str, *, device: str | None = None, dtype: torch.dtype | None = None
    ) -> TransformersBackend:
        """Open a folder or a hub id.

        `device` is "cpu", "cuda", "cuda:1", "mps" or "xpu". By default small models run on the CPU
        in float32, others on the best device in bfloat16. On a CPU, batched replies equal single
        replies in float32 only.

        Raises `CheckpointError` if the checkpoint is missing, damaged or too large.
        """
        checkpoint = open_checkpoint(source, device=device, dtype=dtype)
        return cls(checkpoint, folder_title(checkpoint.folder))

    def open_conversation(self) -> LocalConversation:
        """Return a new conversation; its first prompt allocates the KV cache."""
        return LocalConversation(self.loaded)

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """Decode all requests in one batch: see `BatchBackend`.

        Each reply equals the reply of a single request, token for token. If a batched step fails,
        each sequence is stepped alone, so an error ends only its own sequence.
        """
        sequences: list[_BatchSequence] = []
        for index, request in enumerate(requests):
            try:
                sequences.append(_BatchSequence(index, request))
            except Exception as error:  # noqa: BLE001 - becomes an item of the stream
                yield index, error
        new_patches = [_patches(each.new_images) for each in sequences]
        for few in groups_up_to(PATCHES_AT_ONCE, sequences, new_patches):
            self._prefill(few)
        together = True
        while sequences:
            waiting = []
            for sequence in sequences:
                for item in sequence.items:
                    if item is None:
                        waiting.append(sequence)
                        break
                    yield item
            sequences = waiting
            if not (together and _decode_together(self.loaded, sequences)):
                together = False  # Nor would another try succeed
                for sequence in sequences:
                    sequence.attempt(sequence.generation.process)

    def _prefill(self, sequences: Sequence[_BatchSequence]) -> None:
        """Encode all new vision items at once, then prefill each prompt."""
        vision = self.loaded.vision
        items = [item for each in sequences for item in each.new_images]
        # Only a single sequence can have more patches: its prefill encodes them chunk by chunk
        if _patches(items) <= PATCHES_AT_ONCE:
            with suppress(Exception):  # The prefill raises it again
                vision.encode(items)
        if (threads := parallelism(vision.threads)) == 1:
            # In a new thread torch would start its own threads again
            for sequence in sequences:
                sequence.attempt(sequence.generation.prefill)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda each: each.attempt(each.generation.prefill), sequences))

    def close(self) -> None:
        """Free cached image features; the last reference frees the weights."""
        self.loaded.vision.clear()
