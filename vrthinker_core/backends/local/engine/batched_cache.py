"""Keys and values of several readings side by side in one tensor per layer, so that one step of the model reads for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.decode_step import Step, Stores, recorded
from vrthinker_core.backends.local.engine.kv_cache import Growing, Reading

SPARE = 256
"""Free rows beyond the longest reading: so many tokens later the block is laid out anew."""


class Block:
    """Readings of equal kind in common rows. Each reading goes on living in its own row, so it may read alone in between.

    The last row of the room belongs to nobody: what a reading that sits out would write goes there.
    """

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, readings: Sequence[Reading], *, graphs: bool = False) -> None:
        """`graphs`: on a GPU, every step is the replay of one."""
        self._readings = list(readings)
        for reading in readings:
            reading.settle()
        self._room = max(reading.tokens for reading in readings) + SPARE
        self._stores = [_side_by_side([r.layers[n] for r in readings], self._room) for n in range(len(readings[0].layers))]
        self._step = Step(model, self._stores)
        self._graphs = graphs
        self._go: Callable[[], None] | None = None
        self._heard = torch.empty(0)

    def fits(self, readings: Sequence[Reading]) -> bool:
        """These readings are all here, each still in its row with room for one more token, and too few rows are idle to matter."""
        here = set(map(id, self._readings))
        return len(readings) * 2 >= len(self._readings) and all(
            id(reading) in here and reading.tokens < self._room and self._holds(reading.layers[0]) for reading in readings
        )

    @torch.inference_mode()
    def step(self, tokens: dict[int, int]) -> dict[int, torch.Tensor]:
        """Read one token in some of the readings, {id(reading): token}; gives the logits after each, (vocabulary,) in float32."""
        live = [reading for reading in self._readings if id(reading) in tokens]
        logits = self._logits(tokens, max(reading.tokens for reading in live) + 1)
        for reading in live:
            reading.took(tokens[id(reading)])
        return {id(reading): row for reading, row in zip(self._readings, logits, strict=True) if id(reading) in tokens}

    # -- steps -------------------------------------------------------------------------------------------------------------

    def _logits(self, tokens: dict[int, int], longest: int) -> torch.Tensor:
        if not self._graphs:
            self._stand(tokens)
            return self._step.logits(longest)
        if self._go is None:
            self._stand(tokens)
            self._go = recorded(self._hear, self._step.token.device)
        self._stand(tokens)
        self._go()
        return self._heard

    def _hear(self) -> None:
        self._heard = self._step.logits()

    def _stand(self, tokens: dict[int, int]) -> None:
        ends = [reading.tokens if id(reading) in tokens else self._room for reading in self._readings]
        self._step.stand([tokens.get(id(reading), 0) for reading in self._readings], ends, [r.place for r in self._readings])

    def _holds(self, layer: Growing) -> bool:
        return layer.room[0].untyped_storage().data_ptr() == self._stores[0][0].untyped_storage().data_ptr()


def _side_by_side(layers: Sequence[Growing], room: int) -> Stores:
    """(readings, heads, room + 1, width), of which each reading's own layer holds a row as its room from now on.

    Zeros behind what is held: a masked row must not be a number that is none.
    """
    held = [layer.get_seq_length() for layer in layers]
    stores = tuple(_stacked([layer.room[which] for layer in layers], held, room) for which in (0, 1))
    for n, layer in enumerate(layers):
        layer.room = (stores[0][n : n + 1, :, :room], stores[1][n : n + 1, :, :room])
        layer.cut(held[n])
    return stores[0], stores[1]


def _stacked(rooms: Sequence[torch.Tensor], held: Sequence[int], room: int) -> torch.Tensor:
    first = rooms[0]
    store = first.new_zeros(len(rooms), first.shape[1], room + 1, first.shape[3])
    for row, old, length in zip(store, rooms, held, strict=True):
        row[:, :length] = old[0, :, :length]
    return store
