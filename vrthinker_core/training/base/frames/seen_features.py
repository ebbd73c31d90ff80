"""Frames as the trained tower sees them: the language model learns to read its own kind of errors, once it can read the code."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from vrthinker_core.training.base.model.compiled_layers import picture_features, to_patches
from vrthinker_core.training.base.model.model_shape import SIDE
from vrthinker_core.training.drawn_teacher.evidence import PairFrame
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer
from vrthinker_core.training.drawn_world.scenes import DrawnPair
from vrthinker_core.types import Side

AT_ONCE = 8  # Pictures in one pass of the tower, always as many: each number of them is compiled anew


class PairFeatures:
    """The tower's features of a pair's frames; each is drawn and seen once."""

    def __init__(self, pair: DrawnPair, visual: Any) -> None:
        self._pair, self._visual = pair, visual
        self._renderers: dict[Side, SceneRenderer] = {}
        self._known: dict[PairFrame, torch.Tensor] = {}

    def features(self, frames: Sequence[PairFrame]) -> torch.Tensor:
        """The features of these frames, each a video's and its index: [frames, tokens, hidden]."""
        new = [frame for frame in dict.fromkeys(frames) if frame not in self._known]
        if new:
            pictures = np.stack([self._draw(*frame) for frame in new])
            self._known |= dict(zip(new, self._seen(pictures), strict=True))
        return torch.stack([self._known[frame] for frame in frames])

    @torch.no_grad()
    def _seen(self, pictures: np.ndarray) -> torch.Tensor:
        """The features of pictures [n, side, side, 3]: [n, tokens, hidden]."""
        rest = -len(pictures) % AT_ONCE
        patches = to_patches(np.concatenate([pictures, np.zeros((rest, *pictures.shape[1:]), np.uint8)]))
        return torch.cat([picture_features(self._visual, part) for part in torch.split(patches, AT_ONCE)]).float()[: len(pictures)]

    def _draw(self, side: Side, index: int) -> np.ndarray:
        if side not in self._renderers:
            self._renderers[side] = SceneRenderer(self._pair.scenes[side], SIDE, wear=self._pair.wear)
        return self._renderers[side].frame(index)
