"""One judge talking about one pair: reads what is new, writes a reply, and leaves nothing on the model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.base import never
from vrthinker_core.backends.local.prefix import Reading
from vrthinker_core.backends.local.render import Item, render, size
from vrthinker_core.backends.local.sight import Sight
from vrthinker_core.backends.local.spelling import Spelling
from vrthinker_core.backends.local.utterance import Utterance
from vrthinker_core.errors import BackendFailed, ContextFull, VrThinkerError
from vrthinker_core.messages import Cancelled, Completion, Message, Sampling

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


class LocalConversation:
    """A `Conversation` with a model in this process. One thread at a time; several conversations may speak at once.

    The cache holds exactly what was read, also after a cancel; after any error it is emptied, and the next call starts afresh.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._reading: Reading | None = Reading(judge.model, judge.sight, judge.threads)

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
        items = self._render(messages)
        if size(items) + 1 > self.capacity:
            raise ContextFull(f"The conversation has come to {size(items):,} tokens; this judge's context holds {self.capacity:,}.")
        if self._reading is None:
            raise BackendFailed("This conversation was closed.")
        try:
            yield from self._speak(_Speech(self._judge, self._reading, items, sampling, cancelled))
        except GeneratorExit:
            raise
        except BaseException as error:
            self._reading.clear()
            if isinstance(error, VrThinkerError) or not isinstance(error, Exception):
                raise
            raise BackendFailed(_cause(error, size(items))) from error

    def close(self) -> None:
        """Give the cache back."""
        self._reading = None

    # -- steps -------------------------------------------------------------------------------------------------------------

    def _render(self, messages: Sequence[Message]) -> list[Item]:
        try:
            return render(messages, self._judge.spelling, self._judge.sight.picture)
        except ValueError as error:
            raise BackendFailed(f"This judge cannot take a frame: {error}.") from error

    def _speak(self, speech: _Speech) -> Iterator[str | Completion]:
        began = time.perf_counter()
        speech.begin()
        while speech.stop is None:
            speech.word()
            if piece := speech.said.piece():
                yield piece
        if piece := speech.said.rest():
            yield piece
        yield Completion(
            speech.said.text,
            speech.stop,
            tokens=tuple(speech.said.tokens),
            pieces=tuple(speech.said.pieces),
            prompt_tokens=size(speech.prompt),
            reused_tokens=speech.reused,
            new_tokens=len(speech.said.tokens),
            seconds=time.perf_counter() - began,
        )


class _Speech:
    """One reply being written. Between two words the reading always holds a whole number of items."""

    def __init__(self, judge: Judge, reading: Reading, prompt: list[Item], sampling: Sampling, cancelled: Cancelled) -> None:
        self.prompt = prompt
        redirect = judge.forced or sampling.redirect if sampling.redirect else None
        self.said = Utterance(judge.spelling, redirect)
        self.stop: Stop | None = None
        self.reused = 0
        self._judge = judge
        self._reading = reading
        self._cancelled = cancelled
        self._choose = _Choice(judge, prompt, sampling)
        self._room = min(sampling.max_new_tokens, judge.capacity - size(prompt))
        self._logits: torch.Tensor | None = None

    def begin(self) -> None:
        """Read the prompt, as far as it is new."""
        self._logits, self.reused = self._reading.follow(self.prompt, self._cancelled)

    def word(self) -> None:
        """Write one more token, or set `stop`."""
        if self._logits is None or self._cancelled():
            self.stop = "cancelled"
            return
        if len(self.said.tokens) >= self._room:
            self.stop = "length"
            return
        token = self._choose(self._logits, self.said.tokens)
        if token in self._judge.ends:
            self.stop = "end"
            return
        self.said.add([token])
        if self.said.turn():
            self._logits, _ = self._reading.follow([*self.prompt, *self.said.tokens], self._cancelled)
        elif len(self.said.tokens) < self._room:
            self._logits = self._reading.step(token)


class _Choice:
    """Picks tokens for one reply."""

    def __init__(self, judge: Judge, prompt: Sequence[Item], sampling: Sampling) -> None:
        self._penalty = judge.penalty
        self._temperature = sampling.temperature
        self._generator = torch.Generator().manual_seed(sampling.seed)
        pads = {"image": judge.spelling.control.image, "video": judge.spelling.control.video}
        self._read = {item if isinstance(item, int) else pads[item.kind] for item in prompt}

    @torch.inference_mode()
    def __call__(self, logits: torch.Tensor, said: Sequence[int]) -> int:
        """The next token, from logits of shape (vocabulary,)."""
        if self._penalty != 1.0:
            seen = torch.tensor(sorted(self._read | set(said)), device=logits.device)
            found = logits[seen]
            logits = logits.index_put((seen,), torch.where(found < 0, found * self._penalty, found / self._penalty))
        if self._temperature <= 0:
            return int(logits.argmax())
        chances = torch.softmax(logits.double().cpu() / self._temperature, dim=-1)
        return int(torch.multinomial(chances, 1, generator=self._generator))


def _cause(error: Exception, tokens: int) -> str:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        torch.cuda.empty_cache()
        return f"The judge ran out of memory at {tokens:,} tokens: choose a shorter memory window or fewer frames a call."
    detail = str(error).strip().splitlines()
    return f"The judge stopped while it was speaking: {detail[0] if detail else type(error).__name__}"
