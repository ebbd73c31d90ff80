"""BatchedCache: the KV caches of several sequences in one tensor a layer, so that one decode step serves all of them."""

from collections.abc import Callable, Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.decode_step import (
    DecodeStep,
    LayerStorage,
    capture_cuda_graph,
)
from vrthinker_core.backends.local.engine.kv_cache import GrowingLayer, PrefixCache

SPARE_ROWS = 256  # Unused cache rows after the longest sequence: the storage is reallocated after that many tokens


class BatchedCache:
    """`PrefixCache`s of one model, stacked. Each keeps working on its slice of the batch, so it may decode alone in between.

    Each sequence has one cache row more than it can use: a sequence that sits a step out writes there.
    """

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        caches: Sequence[PrefixCache],
        *,
        cuda_graphs: bool = False,
    ) -> None:
        """Move the keys and values of `caches` into common tensors. `cuda_graphs`: on a GPU, replay every step as a CUDA graph."""
        self._caches = list(caches)
        for cache in caches:
            cache.trim()
        self._rows = max(cache.num_tokens for cache in caches) + SPARE_ROWS
        self._storage = [
            _stack_layers([cache.layers[n] for cache in caches], self._rows)
            for n in range(len(caches[0].layers))
        ]
        self._step = DecodeStep(model, self._storage)
        self._cuda_graphs = cuda_graphs
        self._replay: Callable[[], None] | None = None
        self._logits = torch.empty(0)

    def fits(self, caches: Sequence[PrefixCache]) -> bool:
        """Can decode for these: all are in the batch with a free row, none was reallocated, and they are at least half of it."""
        batch = set(map(id, self._caches))
        return len(caches) * 2 >= len(self._caches) and all(
            id(cache) in batch
            and cache.num_tokens < self._rows
            and _address(cache.layers[0].storage) == _address(self._storage[0])
            for cache in caches
        )

    @torch.inference_mode()
    def decode(self, tokens: dict[int, int]) -> dict[int, torch.Tensor]:
        """Process one token in some of the caches, {id(cache): token}; gives the logits after each, (vocabulary,) in float32."""
        live = [cache for cache in self._caches if id(cache) in tokens]
        logits = self._run_step(tokens, max(cache.num_tokens for cache in live) + 1)
        for cache in live:
            cache.append(tokens[id(cache)])
        return {
            id(cache): row
            for cache, row in zip(self._caches, logits, strict=True)
            if id(cache) in tokens
        }

    def _run_step(self, tokens: dict[int, int], visible_rows: int) -> torch.Tensor:
        self._load_inputs(tokens)
        if not self._cuda_graphs:
            return self._step.forward(visible_rows)
        if self._replay is None:
            self._replay = capture_cuda_graph(self._store_logits, self._step.token_ids.device)
            self._load_inputs(tokens)  # again, as `capture_cuda_graph` wants it
        self._replay()
        return self._logits

    def _store_logits(self) -> None:
        self._logits = self._step.forward()

    def _load_inputs(self, tokens: dict[int, int]) -> None:
        self._step.load_inputs(
            token_ids=[tokens.get(id(cache), 0) for cache in self._caches],
            cache_rows=[
                cache.num_tokens if id(cache) in tokens else self._rows for cache in self._caches
            ],
            position_ids=[cache.next_position for cache in self._caches],
        )


def _address(storage: LayerStorage) -> int:
    return storage[0].untyped_storage().data_ptr()


def _stack_layers(layers: Sequence[GrowingLayer], rows: int) -> LayerStorage:
    """The storage of one layer for the batch, (batch, heads, rows + 1, head_dim); each layer's own storage becomes a view of it.

    Unused rows are zeros: a masked row must not be NaN.
    """
    like = layers[0].storage[0]
    keys, values = (
        like.new_zeros(len(layers), like.shape[1], rows + 1, like.shape[3]) for _ in range(2)
    )
    for n, layer in enumerate(layers):
        length = layer.get_seq_length()
        for stacked, own in zip((keys, values), layer.storage, strict=True):
            stacked[n, :, :length] = own[0, :, :length]
        layer.storage = (keys[n : n + 1, :, :rows], values[n : n + 1, :, :rows])
        layer.truncate(length)
    return keys, values
