"""A frozen vision tower: it is not trained, so each picture is encoded once for all passes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vrthinker_core.backends.local.engine.generation import LoadedModel
from vrthinker_core.backends.local.engine.vision_encoder import VisionEncoder
from vrthinker_core.backends.local.text.chat_template import VisionItem
from vrthinker_core.training.token_rows import PIXELS, TokenRow, collate, pictures


def freeze_vision(model: Qwen2_5_VLForConditionalGeneration) -> Qwen2_5_VLForConditionalGeneration:
    """The model, whose `pixel_values` are from now on image features, (tokens, hidden), as `collate_features` gives them.

    Its vision tower has no gradients; whoever calls the tower itself, as the vision encoder does, still gets what it sees.
    """
    inner: Any = model.model
    inner.visual.requires_grad_(False)
    inner.get_image_features = inner.get_video_features = _GivenFeatures(
        int(inner.visual.spatial_merge_size) ** 2
    )
    return model


Encode = Callable[[Sequence[VisionItem]], list[torch.Tensor]]
"""Image features of each item, (tokens, hidden), in order."""


class KeptFeatures:
    """An `Encode` over the pictures of some rows: all are encoded ahead and in one order, and kept.

    Features differ in their last bits with what is beside them, so a training that is gone on with has them the same.
    """

    def __init__(self, rows: Iterable[TokenRow], vision: VisionEncoder) -> None:
        self._features: dict[VisionItem, torch.Tensor] = {}
        for row in rows:
            for item, features in zip(row.items, vision.encode(row.items), strict=True):
                self._features.setdefault(replace(item, frames=()), features)
        vision.clear()

    def __call__(self, items: Sequence[VisionItem]) -> list[torch.Tensor]:
        """Those of pictures of the rows, in order."""
        return [self._features[item] for item in items]


def collate_features(
    rows: Sequence[TokenRow], loaded: LoadedModel, encode: Encode
) -> dict[str, torch.Tensor]:
    """The batch of `collate` for a model whose tower is frozen: image features in place of patches."""
    batch = collate(rows, loaded, pixels=False)
    for kind, name in PIXELS.items():
        if items := pictures(rows, kind):
            batch[name] = torch.cat(encode(items)).float()
    return batch


class _GivenFeatures:
    """In the place of the tower's own method: features as they come, one tensor a picture."""

    def __init__(self, patches: int) -> None:
        self._patches = patches  # Of one token

    def __call__(
        self, pixel_values: torch.Tensor, grid_thw: torch.Tensor, **_: object
    ) -> BaseModelOutputWithPooling:
        parts: Any = torch.split(pixel_values, (grid_thw.prod(-1) // self._patches).tolist())
        return BaseModelOutputWithPooling(pooler_output=parts)
