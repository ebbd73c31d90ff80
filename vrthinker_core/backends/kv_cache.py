"""PrefixCache: the KV cache of one conversation."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeVar, cast

import torch
from transformers import Cache, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer

from vrthinker_core.backends.chat_template import PromptItem, VisionItem, token_count
from vrthinker_core.backends.devices import limit_threads
from vrthinker_core.backends.layers import DecodeStep, LayerStorage, attend_from_row
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.types.messages import Cancelled

T = TypeVar("T")

CPU_PREFILL_CHUNK = 1024
"""Tokens processed between two calls of `cancelled`. With 256, a prompt of 8,000 tokens takes a
sixth longer on two CPUs.
"""

GPU_PREFILL_CHUNK = 4096  # The same on a CUDA GPU, where every chunk launches all kernels again


class PrefixCache:
    """The processed prompt items, their keys and values; not thread-safe.

    A prompt is prefilled from its first change on; no token before the change is computed twice.
    Nothing is stored on the model: two conversations would overwrite each other's `rope_deltas`.
    """

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        vision: VisionEncoder,
        step: DecodeStep | None = None,
    ) -> None:
        """Create an empty cache; without a `step`, the model's own modules read a single token."""
        self.model, self.vision, self.step = model, vision, step
        self._chunk = GPU_PREFILL_CHUNK if model.device.type == "cuda" else CPU_PREFILL_CHUNK
        config: Any = model.config.vision_config
        self._merge_size = int(config.spatial_merge_size)
        # Two temporal patches of a video item are one second apart: the published code counts a
        # list of frames without a rate as two a second, and so does transformers
        self._positions_per_grid = float(config.tokens_per_second)
        self.clear()

    @property
    def num_tokens(self) -> int:
        """The number of tokens in the cache."""
        return self._ends[-1][0]

    @property
    def next_position(self) -> int:
        """Position of the next token, on all three m-RoPE axes for text."""
        return self._ends[-1][1]

    def clear(self) -> None:
        """Empty the cache."""
        self._items: list[PromptItem] = []
        # Number of tokens and next position, at the beginning and after each item
        self._ends = [(0, 0)]
        layers = range(self.model.config.get_text_config().num_hidden_layers)
        self.layers = [GrowingLayer() for _ in layers]  # type: ignore[no-untyped-call]
        self._cache = Cache(layers=list(self.layers))

    def common_prefix(self, items: Sequence[PromptItem]) -> int:
        """Count the first `items` that need no prefill; the last one does."""
        limit = min(len(self._items), len(items) - 1)
        return next((n for n in range(limit) if self._items[n] != items[n]), limit)

    def prefill(
        self, items: Sequence[PromptItem], cancelled: Cancelled
    ) -> tuple[torch.Tensor | None, int]:
        """Make the cache hold exactly `items`.

        Keeps the longest common prefix and processes the rest in chunks. Returns the logits after
        the last item, (vocabulary,) in float32, or None if cancelled; and the number of kept
        tokens.
        """
        kept = self.common_prefix(items)
        del self._items[kept:], self._ends[kept + 1 :]
        self.trim()
        new, reused, logits = items[kept:], self.num_tokens, None
        for chunk in groups_up_to(self._chunk, new, [token_count([item]) for item in new]):
            if cancelled():
                return None, reused
            logits = self.forward(chunk)
        return logits, reused

    def append(self, token: int) -> None:
        """Count a token that another decoder has written to the next row."""
        self._items.append(token)
        self._ends.append((self.num_tokens + 1, self.next_position + 1))

    def has_rows(self, tokens: int) -> bool:
        """Return whether `tokens` tokens fit without another allocation."""
        layer = self.layers[0]
        return bool(layer.is_initialized) and tokens <= layer.storage[0].shape[-2]

    def reserve(self, tokens: int) -> None:
        """Allocate rows for `tokens` more tokens of a non-empty cache."""
        for layer in self.layers:
            layer.reserve(self.num_tokens + tokens)

    def trim(self) -> None:
        """Make every layer's length `num_tokens`, after calls of `append` and `decode`."""
        for layer in self.layers:
            layer.truncate(self.num_tokens)

    @property
    def storage(self) -> list[LayerStorage]:
        """All allocated rows of each layer."""
        return [layer.storage for layer in self.layers]

    def decode(self, token: int) -> torch.Tensor:
        """Process one token; return the logits after it, (vocabulary,) in float32."""
        if self.step is None:
            self.trim()
            return self.forward([token])
        return decode_together(self.step, {self: token})[0]

    @torch.inference_mode()
    def forward(self, items: Sequence[PromptItem]) -> torch.Tensor:
        """Process some items; return the logits after them, (vocabulary,) in float32."""
        limit_threads(self.vision.threads)
        embedding: Any = self.model.get_input_embeddings()
        config = self.model.config
        pads = {"image": config.image_token_id, "video": config.video_token_id}
        ids: list[int] = []
        spans: list[slice] = []  # Of the placeholders that each vision item's features replace
        ends: list[int] = []
        before = self.num_tokens
        for item in items:
            if isinstance(item, int):
                ids.append(item)
            else:
                spans.append(slice(len(ids), len(ids) + item.num_tokens))
                ids += [pads[item.kind]] * item.num_tokens
            ends.append(before + len(ids))
        device = embedding.weight.device
        embedded: torch.Tensor = embedding(torch.tensor([ids], device=device))
        vision_items = [item for item in items if isinstance(item, VisionItem)]
        for span, features in zip(spans, self.vision.encode(vision_items), strict=True):
            embedded[0, span] = features.to(device, embedded.dtype)
        position_ids, next_positions = self._mrope_positions(items)
        position_ids = position_ids.unsqueeze(1).to(device)
        language_model: Any = self.model.model.language_model
        # By position: transformers 5.24 renamed `past_key_values` to `cache` and warns of the old
        hidden = language_model(
            None, None, position_ids, self._cache, embedded, use_cache=True
        ).last_hidden_state
        logits: torch.Tensor = self.model.lm_head(hidden[:, -1])[0].float()
        self._items += items
        self._ends += zip(ends, next_positions, strict=True)
        return logits

    def _mrope_positions(self, items: Sequence[PromptItem]) -> tuple[torch.Tensor, list[int]]:
        """Return m-RoPE positions, (3, tokens), and the position after each item.

        A vision item spreads over its merged grid from its start. The next item starts after the
        longer side of the grid, for any number of temporal patches.
        """
        columns, next_positions = list[torch.Tensor](), [self.next_position]
        for kind, run in groupby(items, key=type):
            start = next_positions[-1]
            if kind is int:
                ends = range(start + 1, start + 1 + len(list(run)))
                columns.append(torch.arange(start, ends[-1]).expand(3, -1))
                next_positions += ends
                continue
            for item in cast("Iterator[VisionItem]", run):
                times, *patches = item.grid_thw
                height, width = (side // self._merge_size for side in patches)
                interval = self._positions_per_grid if item.kind == "video" else 1
                when = (torch.arange(times) * interval).long()
                grid = torch.meshgrid(
                    when, torch.arange(height), torch.arange(width), indexing="ij"
                )
                columns.append(torch.stack(grid).reshape(3, -1) + next_positions[-1])
                next_positions.append(next_positions[-1] + max(height, width))
        return torch.cat(columns, dim=1), next_positions[1:]


@torch.inference_mode()
def decode_together(step: DecodeStep, tokens: Mapping[PrefixCache, int]) -> torch.Tensor:
    """Process one token in each cache; return the logits after each, (caches, vocabulary).

    Projections are common to all, attention is each cache's own: no rows are copied or masked.
    """
    caches = list(tokens)
    limit_threads(caches[0].vision.threads)
    for cache in caches:
        if not cache.has_rows(cache.num_tokens + 1):
            cache.reserve(1)
    attends = [attend_from_row(cache.storage, cache.num_tokens) for cache in caches]

    def attend(layer: int, *states: torch.Tensor) -> torch.Tensor:
        if len(attends) == 1:
            return attends[0](layer, *states)
        own = zip(attends, *(each.split(1) for each in states), strict=True)  # type: ignore[no-untyped-call]
        return torch.cat([attend_one(layer, *one) for attend_one, *one in own])

    device = caches[0].layers[0].storage[0].device
    token_ids = torch.tensor(list(tokens.values()), device=device)
    positions = torch.tensor([cache.next_position for cache in caches], device=device)
    logits = step(token_ids, positions, attend)
    for cache, token in tokens.items():
        cache.append(token)
    return logits


class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer, in storage that grows by blocks."""

    block_rows = 1024
    storage: tuple[torch.Tensor, torch.Tensor]
    """Allocated keys and values, (1, heads, rows, head_dim) each. `keys` and `values` are views of
    the used rows.
    """

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[Any, Any]:
        """Append (batch, heads, new tokens, head_dim) and return all used rows."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.storage = (key_states[..., :0, :], value_states[..., :0, :])
        length = self.get_seq_length()
        total = length + key_states.shape[-2]
        self.reserve(total)
        for storage, states in zip(self.storage, (key_states, value_states), strict=True):
            storage[..., length:total, :] = states
        self.truncate(total)
        return self.keys, self.values

    def reserve(self, rows: int) -> None:
        """Allocate at least `rows` rows; keep all old rows, unused ones too."""
        *heads, kept, size = self.storage[0].shape
        if rows > kept:
            blocks = -(-rows // self.block_rows)
            old = self.storage
            keys, values = (each.new_zeros(*heads, blocks * self.block_rows, size) for each in old)
            keys[..., :kept, :], values[..., :kept, :] = old
            self.storage = (keys, values)
            self.truncate(self.get_seq_length())

    def truncate(self, length: int) -> None:
        """Make the first `length` rows the used rows."""
        if self.is_initialized:
            self.keys, self.values = (storage[..., :length, :] for storage in self.storage)


def groups_up_to(limit: int, items: Sequence[T], sizes: Sequence[int]) -> Iterator[list[T]]:
    """Yield runs of items up to `limit`; a larger item is alone."""
    group: list[T] = []
    total = 0
    for item, size in zip(items, sizes, strict=True):
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
