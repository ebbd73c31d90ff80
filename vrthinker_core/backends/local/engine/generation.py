"""A reply while a judge writes it: word by word, one conversation alone or many side by side."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.multi_step import MultiStepDecoder, apply_repetition_penalty
from vrthinker_core.backends.local.engine.vision_encoder import VisionEncoder
from vrthinker_core.backends.local.text.chat_template import PromptItem, token_count
from vrthinker_core.backends.local.text.detokenizer import StreamingDetokenizer
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.types.messages import Cancelled, Completion, Sampling

FinishReason = Literal["end", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """What all conversations of one backend share. Only `sight` ever changes, under its own lock."""

    model: Qwen2_5_VLForConditionalGeneration
    tokenizer: SafeTokenizer
    vision: VisionEncoder
    context_length: int
    threads: int | None
    stop_tokens: frozenset[int]
    """Tokens that end a reply."""
    forced_redirect: tuple[str, str] | None
    """Stands in for the protocol's own `Sampling.redirect`."""
    repetition_penalty: float
    """The checkpoint's own repetition penalty, which stock `generate()` applies in greedy decoding too; 1 for none."""
    steps_per_sync: int = 0
    """Greedy tokens written between two looks at the host; 0 for one at a time, without fixed tensors."""


class Generation:
    """One reply being written. Between two words the reading always holds a whole number of items."""

    def __init__(
        self,
        judge: LoadedModel,
        reading: PrefixCache,
        prompt: list[PromptItem],
        sampling: Sampling,
        cancelled: Cancelled,
        stride: MultiStepDecoder | None = None,
    ) -> None:
        self.prompt = prompt
        redirect = judge.forced_redirect or sampling.redirect if sampling.redirect else None
        self.detokenizer = StreamingDetokenizer(judge.tokenizer, redirect)
        self.stop: FinishReason | None = None
        self.cache = reading
        self._reused = 0
        self._began = time.perf_counter()
        self._model = judge
        self._cancelled = cancelled
        self.sampler = Sampler(judge, prompt, sampling)
        self._max_tokens = min(sampling.max_new_tokens, judge.context_length - token_count(prompt))
        self._logits: torch.Tensor | None = None
        self._multi_step = stride if sampling.temperature <= 0 else None
        self._lookahead: deque[int] = deque()
        """Tokens that were written ahead; all but the last are read already."""

    def new_items(self) -> Sequence[PromptItem]:
        """What of the prompt must be read."""
        return self.prompt[self.cache.common_prefix(self.prompt) :]

    def prefill(self) -> None:
        """Read the prompt, as far as it is new."""
        self._logits, self._reused = self.cache.prefill(self.prompt, self._cancelled)
        if self._multi_step is not None:
            self._multi_step.start_reply(self.sampler.prompt_tokens)

    def step(self) -> None:
        """Write one more token, or set `stop`."""
        token = self.sample()
        if token is None:
            return
        if self._multi_step is None:
            self.set_logits(self.cache.decode(token))
            return
        if not self._lookahead:
            self._lookahead.extend(self._multi_step.decode(self.detokenizer.tokens))
        self.cache.append(token)

    def sample(self) -> int | None:
        """Choose one more token; gives it where the judge must read it before the next one, or sets `stop`."""
        if self._logits is None or self._cancelled():
            self.stop = "cancelled"
            return None
        if len(self.detokenizer.tokens) >= self._max_tokens:
            self.stop = "length"
            return None
        token = self._lookahead.popleft() if self._lookahead else self.sampler(self._logits, self.detokenizer.tokens)
        if token in self._model.stop_tokens:
            self.stop = "end"
            return None
        self.detokenizer.append([token])
        if self.detokenizer.apply_redirect():
            self._lookahead.clear()
            self._logits, _ = self.cache.prefill([*self.prompt, *self.detokenizer.tokens], self._cancelled)
            return None
        return token if len(self.detokenizer.tokens) < self._max_tokens else None

    def set_logits(self, logits: torch.Tensor) -> None:
        """The logits after the token that was chosen last, (vocabulary,)."""
        self._logits = logits

    def completion(self) -> Completion:
        """The reply, once `stop` is set and `said.rest()` was asked for."""
        return Completion(
            self.detokenizer.text,
            self.stop or "cancelled",
            tokens=tuple(self.detokenizer.tokens),
            pieces=tuple(self.detokenizer.pieces),
            prompt_tokens=token_count(self.prompt),
            reused_tokens=self._reused,
            new_tokens=len(self.detokenizer.tokens),
            seconds=time.perf_counter() - self._began,
        )


class Sampler:
    """Picks tokens for one reply. `read` are the tokens of its prompt."""

    def __init__(self, judge: LoadedModel, prompt: Sequence[PromptItem], sampling: Sampling) -> None:
        self._penalty = judge.repetition_penalty
        self._temperature = sampling.temperature
        self._generator = torch.Generator().manual_seed(sampling.seed)
        pads = {"image": judge.tokenizer.control.image_pad, "video": judge.tokenizer.control.video_pad}
        self.prompt_tokens = {item if isinstance(item, int) else pads[item.kind] for item in prompt}

    @torch.inference_mode()
    def __call__(self, logits: torch.Tensor, said: Sequence[int]) -> int:
        """The next token, from logits of shape (vocabulary,)."""
        if self._penalty != 1.0:
            seen = torch.tensor(sorted(self.prompt_tokens | set(said)), device=logits.device)
            logits = logits.index_put((seen,), apply_repetition_penalty(logits[seen], self._penalty))
        if self._temperature <= 0:
            return int(logits.argmax())
        chances = torch.softmax(logits.double().cpu() / self._temperature, dim=-1)
        return int(torch.multinomial(chances, 1, generator=self._generator))
