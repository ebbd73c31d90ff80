"""A reply while a judge writes it: word by word, one conversation alone or many side by side."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.kv_cache import Reading
from vrthinker_core.backends.local.engine.multi_step import Stride, penalised
from vrthinker_core.backends.local.engine.vision_encoder import Sight
from vrthinker_core.backends.local.text.chat_template import Item, size
from vrthinker_core.backends.local.text.detokenizer import Utterance
from vrthinker_core.backends.local.text.tokenizer import Spelling
from vrthinker_core.messages import Cancelled, Completion, Sampling

Stop = Literal["end", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Judge:
    """What all conversations of one backend share. Only `sight` ever changes, under its own lock."""

    model: Qwen2_5_VLForConditionalGeneration
    spelling: Spelling
    sight: Sight
    capacity: int
    threads: int | None
    ends: frozenset[int]
    """Tokens that end a reply."""
    forced: tuple[str, str] | None
    """Stands in for the protocol's own `Sampling.redirect`."""
    penalty: float
    """The checkpoint's own repetition penalty, which stock `generate()` applies in greedy decoding too; 1 for none."""
    stride: int = 0
    """Greedy tokens written between two looks at the host; 0 for one at a time, without fixed tensors."""


class Speech:
    """One reply being written. Between two words the reading always holds a whole number of items."""

    def __init__(
        self,
        judge: Judge,
        reading: Reading,
        prompt: list[Item],
        sampling: Sampling,
        cancelled: Cancelled,
        stride: Stride | None = None,
    ) -> None:
        self.prompt = prompt
        redirect = judge.forced or sampling.redirect if sampling.redirect else None
        self.said = Utterance(judge.spelling, redirect)
        self.stop: Stop | None = None
        self.reading = reading
        self._reused = 0
        self._began = time.perf_counter()
        self._judge = judge
        self._cancelled = cancelled
        self.choice = Choice(judge, prompt, sampling)
        self._room = min(sampling.max_new_tokens, judge.capacity - size(prompt))
        self._logits: torch.Tensor | None = None
        self._stride = stride if sampling.temperature <= 0 else None
        self._ahead: deque[int] = deque()
        """Tokens that were written ahead; all but the last are read already."""

    def news(self) -> Sequence[Item]:
        """What of the prompt must be read."""
        return self.prompt[self.reading.common(self.prompt) :]

    def begin(self) -> None:
        """Read the prompt, as far as it is new."""
        self._logits, self._reused = self.reading.follow(self.prompt, self._cancelled)
        if self._stride is not None:
            self._stride.begin(self.choice.read)

    def word(self) -> None:
        """Write one more token, or set `stop`."""
        token = self.choose()
        if token is None:
            return
        if self._stride is None:
            self.hear(self.reading.step(token))
            return
        if not self._ahead:
            self._ahead.extend(self._stride.run(self.said.tokens))
        self.reading.took(token)

    def choose(self) -> int | None:
        """Choose one more token; gives it where the judge must read it before the next one, or sets `stop`."""
        if self._logits is None or self._cancelled():
            self.stop = "cancelled"
            return None
        if len(self.said.tokens) >= self._room:
            self.stop = "length"
            return None
        token = self._ahead.popleft() if self._ahead else self.choice(self._logits, self.said.tokens)
        if token in self._judge.ends:
            self.stop = "end"
            return None
        self.said.add([token])
        if self.said.turn():
            self._ahead.clear()
            self._logits, _ = self.reading.follow([*self.prompt, *self.said.tokens], self._cancelled)
            return None
        return token if len(self.said.tokens) < self._room else None

    def hear(self, logits: torch.Tensor) -> None:
        """The logits after the token that was chosen last, (vocabulary,)."""
        self._logits = logits

    def completion(self) -> Completion:
        """The reply, once `stop` is set and `said.rest()` was asked for."""
        return Completion(
            self.said.text,
            self.stop or "cancelled",
            tokens=tuple(self.said.tokens),
            pieces=tuple(self.said.pieces),
            prompt_tokens=size(self.prompt),
            reused_tokens=self._reused,
            new_tokens=len(self.said.tokens),
            seconds=time.perf_counter() - self._began,
        )


class Choice:
    """Picks tokens for one reply. `read` are the tokens of its prompt."""

    def __init__(self, judge: Judge, prompt: Sequence[Item], sampling: Sampling) -> None:
        self._penalty = judge.penalty
        self._temperature = sampling.temperature
        self._generator = torch.Generator().manual_seed(sampling.seed)
        pads = {"image": judge.spelling.control.image, "video": judge.spelling.control.video}
        self.read = {item if isinstance(item, int) else pads[item.kind] for item in prompt}

    @torch.inference_mode()
    def __call__(self, logits: torch.Tensor, said: Sequence[int]) -> int:
        """The next token, from logits of shape (vocabulary,)."""
        if self._penalty != 1.0:
            seen = torch.tensor(sorted(self.read | set(said)), device=logits.device)
            logits = logits.index_put((seen,), penalised(logits[seen], self._penalty))
        if self._temperature <= 0:
            return int(logits.argmax())
        chances = torch.softmax(logits.double().cpu() / self._temperature, dim=-1)
        return int(torch.multinomial(chances, 1, generator=self._generator))
