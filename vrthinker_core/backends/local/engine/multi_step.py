"""MultiStepDecoder: greedy decoding with few GPU synchronisations."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.decode_step import (
    WARMUP_STEPS,
    DecodeStep,
    LayerStorage,
    capture_cuda_graph,
)
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.label_digits import LabelDigits, SampledToken
from vrthinker_core.backends.local.engine.threads import limit_threads


class MultiStepDecoder:
    """A greedy decoder that runs ahead of its `PrefixCache`.

    Each step samples its next token on the device. Keys and values are written to the cache rows
    after the used rows; the cache does not count them. The caller appends each token to the cache
    as it accepts it.
    """

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        cache: PrefixCache,
        digits: LabelDigits,
        penalty: float,
        steps: int,
    ) -> None:
        """Decode `steps` tokens a call; a `penalty` of 1 is none."""
        self._model, self._cache, self._digits = model, cache, digits
        self._penalty, self._steps = penalty, steps
        self._prompt_tokens: list[int] = []
        self._seen: torch.Tensor
        """For each token, whether the prompt or the reply so far has it: the repetition penalty
        lowers its logit.
        """
        self._placeholders: torch.Tensor
        """Tokens that are never sampled: see `placeholders_of`."""
        self.clear()

    def clear(self) -> None:
        """Drop the captured step, which keeps the cache's tensors alive."""
        self._storage: list[LayerStorage] = []
        self._captured: tuple[DecodeStep, Callable[[], None]] | None = None
        """The step and its replay function."""
        self._scores = torch.empty(0)
        """Logits of the last sampled token after the repetition penalty, (vocabulary,) in float32.
        A graph never moves this tensor.
        """

    def start_reply(self, prompt_tokens: Iterable[int], count: int) -> None:
        """Prepare a prefill of `count` tokens; penalise repeats of `prompt_tokens`."""
        self._prompt_tokens = list(prompt_tokens)
        self._make_way(count)

    @torch.inference_mode()
    def decode(self, reply: Sequence[int]) -> list[SampledToken]:
        """Process the last token of `reply` and sample `steps` more.

        `reply` holds the tokens so far. The last sampled token is not processed.
        """
        limit_threads(self._cache.threads)
        self._make_way(self._cache.num_tokens + self._steps + WARMUP_STEPS)
        self._cache.reserve(self._steps + WARMUP_STEPS)
        storage = [layer.storage for layer in self._cache.layers]
        if self._captured and any(
            now is not then for now, then in zip(storage, self._storage, strict=True)
        ):
            self.clear()  # Free the old step's memory before the next step is allocated
        step, replay = self._captured = self._captured or self._capture(storage, reply)
        # Again after a capture: its warm-up steps changed the inputs
        self._load_inputs(step, reply)
        sampled = torch.empty(self._steps, dtype=torch.long, device=self._seen.device)
        scores = torch.empty(self._steps, len(self._seen), device=self._seen.device)
        for n in range(self._steps):
            replay()
            sampled[n : n + 1].copy_(step.token_ids)
            scores[n].copy_(self._scores)
        # Except for labels, the host waits for the device only here
        tokens = [int(token) for token in sampled.tolist()]
        return self._digits.with_probabilities(tokens, scores)

    def _make_way(self, tokens: int) -> None:
        """Drop the captured step before the cache grows: it holds old tensors."""
        if not self._cache.has_rows(tokens):
            self.clear()

    def _capture(
        self, storage: list[LayerStorage], reply: Sequence[int]
    ) -> tuple[DecodeStep, Callable[[], None]]:
        """Return a captured decode step, valid until `storage` is reallocated."""
        self._storage, step = storage, DecodeStep(self._model, storage)
        device = step.token_ids.device
        self._seen = torch.zeros(
            self._model.config.get_text_config().vocab_size, dtype=torch.bool, device=device
        )
        self._placeholders = placeholders_of(self._model.config, device)
        self._load_inputs(step, reply)
        return step, capture_cuda_graph(partial(self._step_and_sample, step), device)

    def _load_inputs(self, step: DecodeStep, reply: Sequence[int]) -> None:
        step.load_inputs([reply[-1]], [self._cache.num_tokens], [self._cache.next_position])
        if self._penalty != 1.0:
            self._seen.zero_()
            self._seen[
                torch.tensor(sorted({*self._prompt_tokens, *reply}), device=self._seen.device)
            ] = True

    def _step_and_sample(self, step: DecodeStep) -> None:
        """Run one decode step and replace its inputs with the next step's."""
        logits = step.forward()[0]
        if self._penalty != 1.0:
            logits = torch.where(
                self._seen, apply_repetition_penalty(logits, self._penalty), logits
            )
        self._scores = logits = logits.index_fill(0, self._placeholders, -math.inf)
        step.token_ids.copy_(logits.argmax(dim=-1, keepdim=True))
        if self._penalty != 1.0:
            self._seen.index_fill_(0, step.token_ids, True)
        step.cache_rows += 1
        step.position_ids += 1


def placeholders_of(config: Qwen2_5_VLConfig, device: torch.device) -> torch.Tensor:
    """Return the placeholder tokens of pictures, which must never be sampled.

    A reply has no picture to replace them with. The stock model refuses a conversation with more
    placeholders than pictures, in training and in the next turn.
    """
    return torch.tensor([config.image_token_id, config.video_token_id], device=device)


def apply_repetition_penalty(logits: torch.Tensor, penalty: float) -> torch.Tensor:
    """Lower logits of tokens that have occurred, as stock `generate()` does."""
    return torch.where(logits < 0, logits * penalty, logits / penalty)
