"""What a conversation has read, kept as keys and values, so that no token before the first change is computed twice.

The language model is called with its embeddings, explicit positions and our own cache; nothing is written on the model, whose
own `rope_deltas` two conversations would fight over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from transformers import Cache, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer

from vrthinker_core.backends.local.engine.threads import limit_threads
from vrthinker_core.backends.local.engine.vision_encoder import VisionEncoder
from vrthinker_core.backends.local.text.chat_template import PromptItem, VisionItem, token_count
from vrthinker_core.types.messages import Cancelled

PREFILL_CHUNK = 1024
"""Tokens read between two looks at `cancelled`. With 256 a prompt of 8,000 tokens takes a sixth longer on two processors."""

SECONDS_PER_GRID = 1.0
"""Seconds between two temporal patches of a video item, which set its temporal positions.

The protocols send chosen frames, not a film of known rate. A list of frames without a rate counts as two a second in the
published code, so a patch of two frames lasts one second; it is also what transformers takes where nothing is said.
"""


class PrefixCache:
    """Items read so far and their keys and values. Not for two threads at once."""

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, sight: VisionEncoder, threads: int | None = None) -> None:
        self._model = model
        self._vision = sight
        self.threads = threads
        vision: Any = model.config.vision_config
        self._merge = int(vision.spatial_merge_size)
        self._interval = float(vision.tokens_per_second) * SECONDS_PER_GRID
        self._pads = {"image": int(model.config.image_token_id), "video": int(model.config.video_token_id)}
        self.clear()

    @property
    def num_tokens(self) -> int:
        """How many tokens are held."""
        return self._token_counts[-1]

    def clear(self) -> None:
        """Forget everything."""
        self._items: list[PromptItem] = []
        self._token_counts = [0]
        self._next_positions = [0]
        self.layers = [GrowingLayer() for _ in range(self._model.config.get_text_config().num_hidden_layers)]
        self._cache = Cache(layers=list(self.layers))

    def common_prefix(self, items: Sequence[PromptItem]) -> int:
        """How many items need not be read again. The last one always is, because its logits are wanted."""
        most = min(len(self._items), len(items) - 1)
        return next((n for n in range(most) if self._items[n] != items[n]), most)

    def prefill(self, items: Sequence[PromptItem], cancelled: Cancelled) -> tuple[torch.Tensor | None, int]:
        """Make the reading equal `items`: keep the longest common beginning, read the rest.

        Gives the logits after the last item, (vocabulary,) in float32, None when cancelled on the way; and the tokens kept.
        """
        kept = self._truncate_to_common(items)
        reused = self.num_tokens
        logits = None
        for part in _chunks(items[kept:], PREFILL_CHUNK):
            if cancelled():
                return None, reused
            logits = self._forward(part)
        return logits, reused

    def decode(self, token: int) -> torch.Tensor:
        """Read one more token and give the logits after it."""
        return self._forward([token])

    @property
    def next_position(self) -> int:
        """Position of the next token, on all three axes if it is text."""
        return self._next_positions[-1]

    def append(self, token: int) -> None:
        """One more token was read, elsewhere: its keys and values stand after the others in the rooms of `layers`."""
        self._items.append(token)
        self._token_counts.append(self._token_counts[-1] + 1)
        self._next_positions.append(self._next_positions[-1] + 1)

    def reserve(self, more: int) -> None:
        """Have room for that many more tokens. Something must have been read before."""
        for layer in self.layers:
            layer.reserve(self.num_tokens + more)

    def trim(self) -> None:
        """Let every layer show as many rows as there are tokens."""
        for layer in self.layers:
            layer.truncate(self.num_tokens)

    # -- steps -------------------------------------------------------------------------------------------------------------

    def _truncate_to_common(self, items: Sequence[PromptItem]) -> int:
        """Drop what follows the common beginning."""
        kept = self.common_prefix(items)
        for layer in self.layers:
            layer.truncate(self._token_counts[kept])
        self._items = self._items[:kept]
        self._token_counts, self._next_positions = self._token_counts[: kept + 1], self._next_positions[: kept + 1]
        return kept

    @torch.inference_mode()
    def _forward(self, items: Sequence[PromptItem]) -> torch.Tensor:
        limit_threads(self.threads)
        embeddings = self._embed(items)
        positions, places = self._mrope_positions(items)
        hidden = self._model.model.language_model(
            inputs_embeds=embeddings,
            position_ids=positions.unsqueeze(1).to(embeddings.device),
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        logits: torch.Tensor = self._model.lm_head(hidden[:, -1])[0].float()
        for item in items:
            self._token_counts.append(self._token_counts[-1] + token_count([item]))
        self._items.extend(items)
        self._next_positions.extend(places)
        return logits

    def _embed(self, items: Sequence[PromptItem]) -> torch.Tensor:
        """(1, tokens, hidden): rows of the embedding, and features in the places of pictures."""
        table: Any = self._model.get_input_embeddings()
        ids = [i for item in items for i in ([item] if isinstance(item, int) else [self._pads[item.kind]] * item.tokens)]
        embedded: torch.Tensor = table(torch.tensor([ids], device=table.weight.device))
        pictures = [item for item in items if isinstance(item, VisionItem)]
        features = iter(self._vision.encode(pictures) if pictures else ())
        start = 0
        for item in items:
            end = start + token_count([item])
            if isinstance(item, VisionItem):
                embedded[0, start:end] = next(features).to(embedded.device, embedded.dtype)
            start = end
        return embedded

    def _mrope_positions(self, items: Sequence[PromptItem]) -> tuple[torch.Tensor, list[int]]:
        """m-RoPE positions, (3, tokens), and where the next item begins after each item.

        Text advances all three axes by one. A picture spreads over its merged grid from where it begins, and what follows
        begins after its longer side, however many temporal patches it has.
        """
        place, columns, places = self._next_positions[-1], [], []
        for item in items:
            if isinstance(item, int):
                columns.append(torch.full((3, 1), place))
                place += 1
            else:
                times, high, wide = item.grid[0], item.grid[1] // self._merge, item.grid[2] // self._merge
                interval = self._interval if item.kind == "video" else 1
                axes = ((torch.arange(times) * interval).long(), torch.arange(high), torch.arange(wide))
                columns.append(torch.stack(torch.meshgrid(*axes, indexing="ij")).reshape(3, -1) + place)
                place += max(high, wide)
            places.append(place)
        return torch.cat(columns, dim=1), places


class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values that grow in blocks: adding a token copies one row, not the whole history."""

    block_rows = 1024

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.storage: tuple[torch.Tensor, torch.Tensor]
        """Where keys and values stand, (1, heads, rows, width) each; rows past the held ones are free."""

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:  # noqa: ARG002
        """Append (batch, heads, new, width); gives all rows held."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.storage = (key_states[..., :0, :], value_states[..., :0, :])
        held = self.get_seq_length()
        total = held + key_states.shape[-2]
        self._grow(total, key_states, held)
        for store, new in zip(self.storage, (key_states, value_states), strict=True):
            store[..., held:total, :] = new
        self.keys, self.values = (store[..., :total, :] for store in self.storage)
        return self.keys, self.values

    def reserve(self, rows: int) -> None:
        """Have room for that many rows, of which as many stay as there was room for."""
        self._grow(rows, self.storage[0], self.storage[0].shape[-2])
        self.truncate(self.get_seq_length())

    def truncate(self, length: int) -> None:
        """Keep the first `length` rows."""
        if self.is_initialized:
            self.keys, self.values = (store[..., :length, :] for store in self.storage)

    def _grow(self, total: int, like: torch.Tensor, held: int) -> None:
        if total > self.storage[0].shape[-2]:
            rows = -(-total // self.block_rows) * self.block_rows
            self.storage = (self._copied(like, held, rows, 0), self._copied(like, held, rows, 1))

    def _copied(self, like: torch.Tensor, held: int, rows: int, which: int) -> torch.Tensor:
        store = like.new_zeros(*like.shape[:-2], rows, like.shape[-1])
        store[..., :held, :] = self.storage[which][..., :held, :]
        return store


def _chunks(items: Sequence[PromptItem], most: int) -> Iterator[list[PromptItem]]:
    """Runs of whole items of about `most` tokens; a single larger picture is a part of its own."""
    part: list[PromptItem] = []
    held = 0
    for item in items:
        if part and held + token_count([item]) > most:
            yield part
            part, held = [], 0
        part.append(item)
        held += token_count([item])
    if part:
        yield part
