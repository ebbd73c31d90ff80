"""A frozen vision tower: it is not trained, so each picture is encoded once, for the rollout and all passes of the learner."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vrthinker_core.backends.local.engine.generation import LoadedModel
from vrthinker_core.training.token_rows import PIXELS, TokenRow, collate, pictures


def freeze_vision(model: Qwen2_5_VLForConditionalGeneration) -> Qwen2_5_VLForConditionalGeneration:
    """The model, whose `pixel_values` are from now on image features, (tokens, hidden), as `collate_features` gives them.

    Its vision tower has no gradients; whoever calls the tower itself, as the vision encoder does, still gets what it sees.
    """
    inner: Any = model.model
    inner.visual.requires_grad_(False)
    inner.get_image_features = inner.get_video_features = _GivenFeatures(int(inner.visual.spatial_merge_size) ** 2)
    return model


def collate_features(rows: Sequence[TokenRow], loaded: LoadedModel, multiple: int = 16) -> dict[str, torch.Tensor]:
    """The batch of `collate` for a model whose tower is frozen: image features in the place of patches, encoded once a picture."""
    batch = collate(rows, loaded, multiple, pixels=False)
    for kind, name in PIXELS.items():
        if items := pictures(rows, kind):
            batch[name] = torch.cat(loaded.vision.encode(items)).float()
    return batch


class _GivenFeatures:
    """In the place of the tower's own method: features as they come, one tensor a picture."""

    def __init__(self, patches: int) -> None:
        self._patches = patches  # Of one token

    def __call__(self, pixel_values: torch.Tensor, grid_thw: torch.Tensor, **_: object) -> BaseModelOutputWithPooling:
        parts: Any = torch.split(pixel_values, (grid_thw.prod(-1) // self._patches).tolist())
        return BaseModelOutputWithPooling(pooler_output=parts)
