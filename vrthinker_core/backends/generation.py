"""Generation: one reply from prefill to completion, and the sampler."""

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.chat_template import (
    PromptItem,
    SafeTokenizer,
    StreamingDetokenizer,
    render_prompt,
    token_count,
    videos_as_images,
)
from vrthinker_core.backends.checkpoint_files import Marker
from vrthinker_core.backends.decode import (
    LabelDigits,
    MultiStepDecoder,
    SampledToken,
    apply_repetition_penalty,
    draw_token,
    placeholders_of,
)
from vrthinker_core.backends.kv_cache import PrefixCache
from vrthinker_core.backends.layers import DecodeStep
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.errors import BackendRefused
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The parts that all conversations of one backend share.

    Only the vision encoder's cache changes, under its own lock.
    """

    model: Qwen2_5_VLForConditionalGeneration
    tokenizer: SafeTokenizer
    vision: VisionEncoder
    context_length: int  # Tokens of prompt and reply together
    stop_tokens: frozenset[int]  # Tokens that end a reply
    label_digits: LabelDigits
    marker: Marker
    repetition_penalty: float
    """The checkpoint's own, 1 for none. Stock `generate()` applies it in greedy decoding, too."""
    step: DecodeStep | None  # None: the model's own modules decode
    # Decode steps between two GPU synchronisations; 0: one at a time, no fixed tensors
    steps_per_sync: int = 0

    def render(self, messages: Sequence[Message]) -> list[PromptItem]:
        """Return the next prompt; raise `BackendRefused` if no patch grid fits."""
        messages = messages if self.marker.video_items else videos_as_images(messages)
        try:
            return render_prompt(messages, self.tokenizer, self.vision.vision_item)
        except ValueError as error:
            raise BackendRefused(f"This judge cannot take a frame: {error}.") from error


class Generation:
    """One reply, alone or in a batch.

    Between two steps the KV cache holds whole prompt items: the prompt, then the reply's processed
    tokens.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        cache: PrefixCache,
        prompt: list[PromptItem],
        sampling: Sampling,
        cancelled: Cancelled,
        multi_step: MultiStepDecoder | None,
    ) -> None:
        """Start a reply, which `multi_step` decodes if given."""
        self.prompt, self.cache = prompt, cache
        redirect = loaded.marker.redirect(sampling.redirect)
        self.detokenizer = StreamingDetokenizer(loaded.tokenizer, redirect)
        # A stop token, the token limit or a cancel; None while the reply goes on
        self.finish_reason: Literal["end", "length", "cancelled"] | None = None
        self.sampler = Sampler(loaded, prompt, sampling, getattr(multi_step, "generator", None))
        self._loaded, self._cancelled = loaded, cancelled
        self._max_tokens = min(sampling.max_new_tokens, loaded.context_length - token_count(prompt))
        self.logits: torch.Tensor | None = None  # After the last processed token, (vocabulary,)
        self.token = -1  # The last sampled token
        self._multi_step = multi_step
        self._sampled_ahead: deque[SampledToken] = deque()
        """Tokens that the reply does not hold yet. All but the last are processed."""
        self._reused_tokens = 0
        self._start_time = time.perf_counter()

    def prefill(self) -> None:
        """Process the prompt's items that are not in the KV cache."""
        if self._multi_step is not None:
            tokens, count = self.sampler.prompt_tokens, token_count(self.prompt)
            self._multi_step.start_reply(tokens, count, self.sampler.temperature)
        self.logits, self._reused_tokens = self.cache.prefill(self.prompt, self._cancelled)

    def run(self) -> Iterator[str | None]:
        """Yield new text, and None where `token` must be processed before the next item.

        Ends with `finish_reason`. The caller processes tokens: see `process`.
        """
        while self.finish_reason is None:
            needed = self._sample()
            if text := self.detokenizer.next_text():
                yield text
            if needed:
                yield None
        if text := self.detokenizer.flush():
            yield text

    def process(self) -> None:
        """Process `token` alone."""
        if self._multi_step is None:
            self.logits = self.cache.decode(self.token)
            return
        if not self._sampled_ahead:
            self._sampled_ahead.extend(self._multi_step.decode(self.detokenizer.tokens))
        self.cache.append(self.token)

    def _sample(self) -> bool:
        """Sample `token` or set `finish_reason`; return whether to process the token."""
        written, ahead = self.detokenizer, self._sampled_ahead
        if self.logits is None or self._cancelled():
            self.finish_reason = "cancelled"
            return False
        if len(written.tokens) >= self._max_tokens:
            self.finish_reason = "length"
            return False
        sampled = ahead.popleft() if ahead else self.sampler(self.logits, written.tokens)
        self.token, probabilities = sampled
        if self.token in self._loaded.stop_tokens:
            self.finish_reason = "end"
            return False
        written.append([self.token])
        if probabilities is not None:
            after = self._loaded.label_digits.characters_after[self.token]
            written.mark_digit(probabilities, after)
        if written.apply_redirect():
            ahead.clear()
            prompt = [*self.prompt, *written.tokens]
            self.logits, _ = self.cache.prefill(prompt, self._cancelled)
            return False
        return len(written.tokens) < self._max_tokens

    def completion(self) -> Completion:
        """Return the whole reply after `finish_reason` is set and text flushed."""
        written = self.detokenizer
        return Completion(
            written.text,
            self.finish_reason or "cancelled",
            tuple(written.tokens),
            tuple(written.pieces),
            token_count(self.prompt),
            self._reused_tokens,
            len(written.tokens),
            time.perf_counter() - self._start_time,
            redirected=written.redirected,
            label_tokens=written.labels(),
        )


class Sampler:
    """The sampler of one reply: penalty, then argmax or a draw."""

    def __init__(
        self,
        loaded: LoadedModel,
        prompt: Sequence[PromptItem],
        sampling: Sampling,
        generator: torch.Generator | None = None,
    ) -> None:
        """Seed `generator`, by default one on the device of the first logits."""
        self._penalty, self._digits = loaded.repetition_penalty, loaded.label_digits
        self.temperature = sampling.temperature
        self._generator, self._seed = (
            generator and generator.manual_seed(sampling.seed),
            sampling.seed,
        )
        self.prompt_tokens = {item for item in prompt if isinstance(item, int)}
        self._placeholders = placeholders_of(loaded.model.config, loaded.model.device)

    @torch.inference_mode()
    def __call__(self, logits: torch.Tensor, reply: Sequence[int]) -> SampledToken:
        """Return the next token.

        `logits` has shape (vocabulary,), `reply` holds the tokens of the reply so far. The
        probabilities of a digit are taken after the penalty and before the temperature.
        """
        if self._penalty != 1.0:
            seen = torch.tensor(sorted(self.prompt_tokens | set(reply)), device=logits.device)
            penalised = apply_repetition_penalty(logits[seen], self._penalty)
            logits = logits.index_put((seen,), penalised)
        logits = logits.index_fill(0, self._placeholders.to(logits.device), -math.inf)
        if self._generator is None:
            self._generator = torch.Generator(logits.device).manual_seed(self._seed)
        token = draw_token(logits, self.temperature, self._generator)
        return self._digits.with_probabilities(token.tolist(), logits[None])[0]
