"""MultiStepDecoder: greedy decoding of one reply, several decode steps between two GPU synchronisations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.decode_step import WARMUP_STEPS, DecodeStep, LayerStorage, capture_cuda_graph
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.threads import limit_threads


class MultiStepDecoder:
    """Decodes ahead of the tokens that a `PrefixCache` counts.

    Keys and values are written to the cache rows after those that are in use; the cache does not count them. The caller appends
    each token to the cache as it accepts it.
    """

    def __init__(
        self, model: Qwen2_5_VLForConditionalGeneration, cache: PrefixCache, repetition_penalty: float, steps_per_sync: int
    ) -> None:
        """`repetition_penalty` 1 is none; `steps_per_sync` is the number of tokens of one `decode`."""
        self._model = model
        self._cache = cache
        self._penalty = repetition_penalty
        self._steps = steps_per_sync
        self._loop: _DecodeLoop | None = None
        self._prompt_tokens: list[int] = []

    def start_reply(self, prompt_tokens: Iterable[int]) -> None:
        """Start a reply to a prompt of these tokens, whose logits the repetition penalty lowers."""
        self._prompt_tokens = list(prompt_tokens)

    @torch.inference_mode()
    def decode(self, reply: Sequence[int]) -> list[int]:
        """Process the last token of `reply`, the tokens so far, and sample `steps_per_sync` more; the last one is not processed."""
        limit_threads(self._cache.threads)
        self._cache.reserve(self._steps + WARMUP_STEPS)
        storage = [layer.storage for layer in self._cache.layers]
        if self._loop is None or not self._loop.uses(storage):
            self._loop = None  # frees its memory before the next one is allocated
            self._loop = _DecodeLoop(self._model, storage, self._penalty)
        seen = frozenset((*self._prompt_tokens, *reply))
        return self._loop.run(_FirstStep(reply[-1], self._cache.num_tokens, self._cache.next_position, seen), self._steps)


@dataclass(frozen=True, slots=True)
class _FirstStep:
    """Inputs of the first of several decode steps; each step makes those of the next one."""

    token: int
    cache_row: int
    position: int
    seen: frozenset[int]
    """Tokens of the prompt and the reply so far, whose logits the repetition penalty lowers."""


class _DecodeLoop:
    """Decode steps that sample their next token on the device."""

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, storage: list[LayerStorage], repetition_penalty: float) -> None:
        self._storage = storage
        self._penalty = repetition_penalty
        self._step = DecodeStep(model, storage)
        self._device = self._step.token_ids.device
        self._seen = torch.zeros(model.config.get_text_config().vocab_size, dtype=torch.bool, device=self._device)
        self._replay: Callable[[], None] | None = None

    def uses(self, storage: list[LayerStorage]) -> bool:
        """The KV cache has not been reallocated since."""
        layers = zip(storage, self._storage, strict=True)
        return all(now is then for layer, own in layers for now, then in zip(layer, own, strict=True))

    def run(self, first: _FirstStep, steps: int) -> list[int]:
        """Run that many steps; gives the token that each sampled. The host waits for the device once."""
        if self._replay is None:
            self._load_inputs(first)
            self._replay = capture_cuda_graph(self._step_and_sample, self._device)
        self._load_inputs(first)  # again: the warm-up steps have changed them
        sampled = torch.empty(steps, dtype=torch.long, device=self._device)
        for n in range(steps):
            self._replay()
            sampled[n : n + 1].copy_(self._step.token_ids)
        return [int(token) for token in sampled.tolist()]

    def _load_inputs(self, first: _FirstStep) -> None:
        self._step.load_inputs([first.token], [first.cache_row], [first.position])
        if self._penalty != 1.0:
            self._seen.zero_()
            self._seen[torch.tensor(sorted(first.seen), device=self._device)] = True

    def _step_and_sample(self) -> None:
        """One decode step that replaces its inputs with those of the next one."""
        step = self._step
        logits = step.forward()[0]
        if self._penalty != 1.0:
            logits = torch.where(self._seen, apply_repetition_penalty(logits, self._penalty), logits)
        step.token_ids.copy_(logits.argmax(dim=-1, keepdim=True))
        if self._penalty != 1.0:
            self._seen.index_fill_(0, step.token_ids, True)
        step.cache_rows += 1
        step.position_ids += 1


def apply_repetition_penalty(logits: torch.Tensor, penalty: float) -> torch.Tensor:
    """The logits of tokens that have occurred before, lowered as stock `generate()` lowers them."""
    return torch.where(logits < 0, logits * penalty, logits / penalty)
