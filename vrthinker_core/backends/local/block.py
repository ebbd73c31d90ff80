"""Keys and values of several readings side by side in one tensor per layer, so that one step of the model reads for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Cache, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer

from vrthinker_core.backends.local.prefix import Growing, Reading

SPARE = 256
"""Free rows beyond the longest reading: so many tokens later the block is laid out anew."""


class Block:
    """Readings of equal kind in common rows. Each reading goes on living in its own row, so it may read alone in between.

    The last row of the room belongs to nobody: what a reading that sits out would write goes there.
    """

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, readings: Sequence[Reading]) -> None:
        self._model = model
        self._readings = list(readings)
        for reading in readings:
            reading.settle()
        self._room = max(reading.tokens for reading in readings) + SPARE
        self._shelves = [_Shelf([r.layers[n] for r in readings], self._room) for n in range(len(readings[0].layers))]

    def fits(self, readings: Sequence[Reading]) -> bool:
        """These readings are all here, each still in its row with room for one more token, and too few rows are idle to matter."""
        here = set(map(id, self._readings))
        return len(readings) * 2 >= len(self._readings) and all(
            id(reading) in here and reading.tokens < self._room and self._shelves[0].holds(reading.layers[0])
            for reading in readings
        )

    @torch.inference_mode()
    def step(self, tokens: dict[int, int]) -> dict[int, torch.Tensor]:
        """Read one token in some of the readings, {id(reading): token}; gives the logits after each, (vocabulary,) in float32."""
        live = [reading for reading in self._readings if id(reading) in tokens]
        ends = self._row([r.tokens if id(r) in tokens else self._room for r in self._readings])
        longest = max(reading.tokens for reading in live) + 1
        for shelf in self._shelves:
            shelf.aim(ends, longest)
        logits = self._logits(
            self._row([tokens.get(id(reading), 0) for reading in self._readings]),
            self._row([reading.place for reading in self._readings]),
            torch.arange(longest, device=ends.device) <= ends[:, None],
        )
        for reading in live:
            reading.took(tokens[id(reading)])
        return {id(reading): row for reading, row in zip(self._readings, logits, strict=True) if id(reading) in tokens}

    def _row(self, numbers: list[int]) -> torch.Tensor:
        return torch.tensor(numbers, device=self._model.device)

    def _logits(self, ids: torch.Tensor, places: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        model: Any = self._model
        hidden = model.model.language_model(
            inputs_embeds=model.get_input_embeddings()(ids[:, None]),
            attention_mask={"full_attention": seen[:, None, None]},
            position_ids=places[None, :, None].expand(3, -1, 1),
            past_key_values=Cache(layers=list(self._shelves)),
            use_cache=True,
        ).last_hidden_state
        logits: torch.Tensor = model.lm_head(hidden[:, -1]).float()
        return logits


class _Shelf(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer of a block: (readings, heads, room + 1, width), of which each reading's own layer holds a row as its room."""

    def __init__(self, layers: Sequence[Growing], room: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        held = [layer.get_seq_length() for layer in layers]
        self._stores = tuple(_side_by_side([layer.room[which] for layer in layers], held, room) for which in (0, 1))
        self._rows = torch.arange(len(layers), device=self._stores[0].device)
        for n, layer in enumerate(layers):
            layer.room = tuple(store[n : n + 1, :, :room] for store in self._stores)
            layer.cut(held[n])

    def holds(self, layer: Growing) -> bool:
        """The layer's room is a row of this very shelf."""
        return layer.room[0].untyped_storage().data_ptr() == self._stores[0].untyped_storage().data_ptr()

    def aim(self, ends: torch.Tensor, longest: int) -> None:
        """Where the next token of each reading is written, and how many rows can be seen."""
        self._ends, self._longest = ends, longest

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:  # noqa: ARG002
        """Write (readings, heads, 1, width); gives the rows that can be seen."""
        for store, new in zip(self._stores, (key_states, value_states), strict=True):
            store[self._rows, :, self._ends] = new[:, :, 0]
        keys, values = (store[:, :, : self._longest] for store in self._stores)
        return keys, values


def _side_by_side(rooms: Sequence[torch.Tensor], held: Sequence[int], room: int) -> torch.Tensor:
    """Zeros behind what is held: a masked row must not be a number that is none."""
    first = rooms[0]
    store = first.new_zeros(len(rooms), first.shape[1], room + 1, first.shape[3])
    for row, old, length in zip(store, rooms, held, strict=True):
        row[:, :length] = old[0, :, :length]
    return store
