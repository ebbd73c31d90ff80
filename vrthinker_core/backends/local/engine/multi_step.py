"""Greedy decoding of one reply: several tokens between two looks at the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.decode_step import WARMUP_STEPS, DecodeStep, LayerStorage, capture_cuda_graph
from vrthinker_core.backends.local.engine.kv_cache import PrefixCache
from vrthinker_core.backends.local.engine.threads import limit_threads


class MultiStepDecoder:
    """Writes ahead behind one reading, a reply at a time.

    Keys and values go to the rows behind those that the reading holds; the reading itself does not move: whoever takes a token over
    says `took`.
    """

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, reading: PrefixCache, penalty: float, length: int) -> None:
        """`penalty` is the checkpoint's repetition penalty, 1 for none; `length` how many tokens are written at a time."""
        self._model = model
        self._cache = reading
        self._penalty = penalty
        self._steps = length
        self._loop: _DecodeLoop | None = None
        self._prompt_tokens: list[int] = []

    def start_reply(self, heard: Iterable[int]) -> None:
        """A new reply, after a prompt that holds the tokens `heard`."""
        self._prompt_tokens = list(heard)

    @torch.inference_mode()
    def decode(self, said: Sequence[int]) -> list[int]:
        """Read the last token of `said`, the reply so far, and write on: so many tokens more, the last of them not read yet."""
        limit_threads(self._cache.threads)
        self._cache.reserve(self._steps + WARMUP_STEPS)
        rooms = [layer.storage for layer in self._cache.layers]
        if self._loop is None or not self._loop.fits(rooms):
            self._loop = None  # its memory goes before the next one's comes
            self._loop = _DecodeLoop(self._model, rooms, self._penalty)
        return self._loop.run(
            self._steps, said[-1], self._cache.num_tokens, self._cache.next_position, {*self._prompt_tokens, *said}
        )


class _DecodeLoop:
    """Steps that choose their next token themselves."""

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, rooms: list[LayerStorage], penalty: float) -> None:
        self._storage = rooms
        self._penalty = penalty
        self._step = DecodeStep(model, rooms)
        self._device = self._step.token_ids.device
        self._seen = torch.zeros(model.config.get_text_config().vocab_size, dtype=torch.bool, device=self._device)
        self._replay: Callable[[], None] | None = None

    def fits(self, rooms: list[LayerStorage]) -> bool:
        """The keys and values still stand where they stood."""
        return all(
            now is then for room, held in zip(rooms, self._storage, strict=True) for now, then in zip(room, held, strict=True)
        )

    def run(self, count: int, token: int, end: int, place: int, heard: set[int]) -> list[int]:
        """Read `token` at row `end` and position `place`, and write `count` more; the host waits once."""
        if self._replay is None:
            self._load_inputs(token, end, place, heard)
            self._replay = capture_cuda_graph(self._step_and_sample, self._device)
        self._load_inputs(token, end, place, heard)
        said = torch.empty(count, dtype=torch.long, device=self._device)
        for n in range(count):
            self._replay()
            said[n : n + 1].copy_(self._step.token_ids)
        return [int(each) for each in said.tolist()]

    def _load_inputs(self, token: int, end: int, place: int, heard: set[int]) -> None:
        self._step.load_inputs([token], [end], [place])
        if self._penalty != 1.0:
            self._seen.zero_()
            self._seen[torch.tensor(sorted(heard), device=self._device)] = True

    def _step_and_sample(self) -> None:
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
    """The logits of tokens that were heard before, as stock `generate()` lowers them."""
    return torch.where(logits < 0, logits * penalty, logits / penalty)
