"""One token of one or many readings at a time, in tensors that stay where they are, so that a GPU can replay the whole step.

A token of a 7B costs a GPU a few milliseconds of reading weights, and eager Python several times that in launching kernels: a CUDA
graph launches them all at once. The step itself is the same code on every device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import Cache, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer

WARMUP_STEPS = 2
"""Steps made before one is recorded: kernels are chosen and workspaces made in them. Each writes like a step."""

LayerStorage = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of one layer, (readings, heads, rows, width) each."""


class DecodeStep:
    """Reads one token in each reading: writes its keys and values to the row `end`, gives the logits after it."""

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, stores: Sequence[LayerStorage]) -> None:
        keys = stores[0][0]
        self._model = model
        self._layers = [StaticLayer(store) for store in stores]
        self._all_rows = torch.arange(keys.shape[2], device=keys.device)
        self.token_ids, self.cache_rows, self.position_ids = (
            torch.zeros(len(keys), dtype=torch.long, device=keys.device) for _ in range(3)
        )

    def load_inputs(self, tokens: Sequence[int], ends: Sequence[int], places: Sequence[int]) -> None:
        """What each reading reads next, the row it goes to, and its position."""
        for held, numbers in ((self.token_ids, tokens), (self.cache_rows, ends), (self.position_ids, places)):
            held.copy_(torch.tensor(numbers, dtype=torch.long))

    def forward(self, shown: int | None = None) -> torch.Tensor:
        """(readings, vocabulary) in float32. No row from `shown` on is looked at (None: all rows, as a recorded step needs it)."""
        rows = self._all_rows[:shown]
        for layer in self._layers:
            layer.set_rows(self.cache_rows, len(rows))
        model: Any = self._model
        hidden = model.model.language_model(
            inputs_embeds=model.get_input_embeddings()(self.token_ids[:, None]),
            attention_mask={"full_attention": (rows <= self.cache_rows[:, None])[:, None, None]},
            position_ids=self.position_ids[None, :, None].expand(3, -1, 1),
            past_key_values=Cache(layers=list(self._layers)),
            use_cache=True,
        ).last_hidden_state
        logits: torch.Tensor = model.lm_head(hidden[:, -1]).float()
        return logits


class StaticLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's stores; the mask says what of them is held."""

    def __init__(self, stores: LayerStorage) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._storage = stores
        self._batch_index = torch.arange(len(stores[0]), device=stores[0].device)

    def set_rows(self, ends: torch.Tensor, shown: int) -> None:
        """Where the next token of each reading is written, and how many rows can be seen."""
        self._ends, self._shown = ends, shown

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:  # noqa: ARG002
        """Write (readings, heads, 1, width); gives the rows that can be seen."""
        for store, new in zip(self._storage, (key_states, value_states), strict=True):
            store[self._batch_index, :, self._ends] = new[:, :, 0]
        keys, values = (store[:, :, : self._shown] for store in self._storage)
        return keys, values


def capture_cuda_graph(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same step, launched as one on a GPU that can; `step` must read and write tensors that never move.

    It runs `REHEARSALS` times before: whatever it counts must be set again. What cannot be recorded is done step by step.
    """
    if device.type != "cuda":
        return step
    try:
        return _capture(step, device)
    except RuntimeError as error:
        logging.getLogger(__name__).warning("The judge speaks slower than it could: its step cannot be recorded (%s).", error)
        return step


def _capture(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(WARMUP_STEPS):
            step()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Callable[[], None] = graph.replay
    return replay
