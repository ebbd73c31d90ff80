"""Keys and values of several readings side by side in one tensor per layer, so that one step of the model reads for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.decode_step import DecodeStep, LayerStorage, capture_cuda_graph
from vrthinker_core.backends.local.engine.kv_cache import GrowingLayer, PrefixCache

SPARE_ROWS = 256
"""Free rows beyond the longest reading: so many tokens later the block is laid out anew."""


class BatchedCache:
    """Readings of equal kind in common rows. Each reading goes on living in its own row, so it may read alone in between.

    The last row of the room belongs to nobody: what a reading that sits out would write goes there.
    """

    def __init__(
        self, model: Qwen2_5_VLForConditionalGeneration, readings: Sequence[PrefixCache], *, cuda_graphs: bool = False
    ) -> None:
        """`graphs`: on a GPU, every step is the replay of one."""
        self._caches = list(readings)
        for reading in readings:
            reading.trim()
        self._rows = max(reading.num_tokens for reading in readings) + SPARE_ROWS
        self._storage = [_stack_layers([r.layers[n] for r in readings], self._rows) for n in range(len(readings[0].layers))]
        self._step = DecodeStep(model, self._storage)
        self._cuda_graphs = cuda_graphs
        self._replay: Callable[[], None] | None = None
        self._logits = torch.empty(0)

    def fits(self, readings: Sequence[PrefixCache]) -> bool:
        """These readings are all here, each still in its row with room for one more token, and too few rows are idle to matter."""
        here = set(map(id, self._caches))
        return len(readings) * 2 >= len(self._caches) and all(
            id(reading) in here and reading.num_tokens < self._rows and self._shares_storage(reading.layers[0])
            for reading in readings
        )

    @torch.inference_mode()
    def decode(self, tokens: dict[int, int]) -> dict[int, torch.Tensor]:
        """Read one token in some of the readings, {id(reading): token}; gives the logits after each, (vocabulary,) in float32."""
        live = [reading for reading in self._caches if id(reading) in tokens]
        logits = self._run_step(tokens, max(reading.num_tokens for reading in live) + 1)
        for reading in live:
            reading.append(tokens[id(reading)])
        return {id(reading): row for reading, row in zip(self._caches, logits, strict=True) if id(reading) in tokens}

    # -- steps -------------------------------------------------------------------------------------------------------------

    def _run_step(self, tokens: dict[int, int], longest: int) -> torch.Tensor:
        if not self._cuda_graphs:
            self._load_inputs(tokens)
            return self._step.forward(longest)
        if self._replay is None:
            self._load_inputs(tokens)
            self._replay = capture_cuda_graph(self._store_logits, self._step.token_ids.device)
        self._load_inputs(tokens)
        self._replay()
        return self._logits

    def _store_logits(self) -> None:
        self._logits = self._step.forward()

    def _load_inputs(self, tokens: dict[int, int]) -> None:
        ends = [reading.num_tokens if id(reading) in tokens else self._rows for reading in self._caches]
        self._step.load_inputs(
            [tokens.get(id(reading), 0) for reading in self._caches], ends, [r.next_position for r in self._caches]
        )

    def _shares_storage(self, layer: GrowingLayer) -> bool:
        return layer.storage[0].untyped_storage().data_ptr() == self._storage[0][0].untyped_storage().data_ptr()


def _stack_layers(layers: Sequence[GrowingLayer], room: int) -> LayerStorage:
    """(readings, heads, room + 1, width), of which each reading's own layer holds a row as its room from now on.

    Zeros behind what is held: a masked row must not be a number that is none.
    """
    held = [layer.get_seq_length() for layer in layers]
    stores = tuple(_stack_storage([layer.storage[which] for layer in layers], held, room) for which in (0, 1))
    for n, layer in enumerate(layers):
        layer.storage = (stores[0][n : n + 1, :, :room], stores[1][n : n + 1, :, :room])
        layer.truncate(held[n])
    return stores[0], stores[1]


def _stack_storage(rooms: Sequence[torch.Tensor], held: Sequence[int], room: int) -> torch.Tensor:
    first = rooms[0]
    store = first.new_zeros(len(rooms), first.shape[1], room + 1, first.shape[3])
    for row, old, length in zip(store, rooms, held, strict=True):
        row[:, :length] = old[0, :, :length]
    return store
