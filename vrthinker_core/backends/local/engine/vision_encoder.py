"""Frames become features, each picture once: patches as the image processor cuts them, the vision tower, a bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from PIL import Image
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from vrthinker_core.backends.local.engine.threads import limit_threads, parallelism
from vrthinker_core.backends.local.text.chat_template import VisionItem
from vrthinker_core.types import Frame

CACHE_BYTES = 512 * 2**20
"""Bytes of features kept: about 290 frames of 448 x 448 pixels for the 7B."""

ITEMS_PER_THREAD = 16
"""Pictures that are worth a thread of their own."""


class VisionEncoder:
    """The vision half of a model, shared by all its conversations; features are kept by content, the least used leave first."""

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        processor: Qwen2VLImageProcessorPil,
        room: int = CACHE_BYTES,
        threads: int | None = None,
    ) -> None:
        """`threads` is how many the tower computes with, None for torch's own choice."""
        self._tower = model.model.visual
        self._threads = threads
        self._processor = processor
        self._max_bytes = room
        self._bytes = 0
        self._features: OrderedDict[VisionItem, torch.Tensor] = OrderedDict()
        self._lock = threading.Lock()

    def vision_item(self, kind: Literal["image", "video"], frames: tuple[Frame, ...]) -> VisionItem:
        """The places and the grid that frames of these sizes will take. No pixel is touched.

        A video packs two frames into one temporal patch; an odd last frame stands twice. Raises ValueError for frames that no
        patch grid fits: frames of several sizes in one video, or one more than 200 times as wide as high.
        """
        processor, first = self._processor, frames[0]
        if any((frame.width, frame.height) != (first.width, first.height) for frame in frames):
            raise ValueError("the frames of one video item differ in size")
        high, wide = smart_resize(
            first.height,
            first.width,
            factor=processor.patch_size * processor.merge_size,
            min_pixels=int(processor.size["shortest_edge"]),
            max_pixels=int(processor.size["longest_edge"]),
        )
        times = -(-len(frames) // processor.temporal_patch_size) if kind == "video" else 1
        grid = (times, high // processor.patch_size, wide // processor.patch_size)
        tokens = grid[0] * grid[1] * grid[2] // processor.merge_size**2
        return VisionItem(kind, tuple(frame.key for frame in frames), grid, tokens, frames)

    @torch.inference_mode()
    def encode(self, pictures: Sequence[VisionItem]) -> list[torch.Tensor]:
        """Features of each picture, (tokens, hidden), in order; only those never seen are computed, in one pass."""
        found = {picture: features for picture in pictures if (features := self._cached(picture)) is not None}
        new = [picture for picture in dict.fromkeys(pictures) if picture not in found]
        if new:
            found |= dict(zip(new, self._encode_new(new), strict=True))
        return [found[picture] for picture in pictures]

    def clear(self) -> None:
        """Give the kept features back."""
        with self._lock:
            self._features.clear()
            self._bytes = 0

    # -- the memory --------------------------------------------------------------------------------------------------------

    def _cached(self, picture: VisionItem) -> torch.Tensor | None:
        with self._lock:
            features = self._features.get(picture)
            if features is not None:
                self._features.move_to_end(picture)
            return features

    def _store(self, picture: VisionItem, features: torch.Tensor) -> None:
        key = VisionItem(picture.kind, picture.keys, picture.grid, picture.tokens, ())
        with self._lock:
            if key in self._features:
                return
            self._features[key] = features
            self._bytes += features.nbytes
            while self._bytes > self._max_bytes:
                self._bytes -= self._features.popitem(last=False)[1].nbytes

    # -- the tower ---------------------------------------------------------------------------------------------------------

    def _encode_new(self, pictures: Sequence[VisionItem]) -> list[torch.Tensor]:
        """Many pictures are shared out."""
        parts = min(parallelism(self._threads), len(pictures) // ITEMS_PER_THREAD)
        if parts < 2:
            return self._forward(pictures)
        size = -(-len(pictures) // parts)
        with ThreadPoolExecutor(parts) as pool:
            found = pool.map(self._forward, [pictures[start : start + size] for start in range(0, len(pictures), size)])
            return [features for part in found for features in part]

    @torch.inference_mode()
    def _forward(self, pictures: Sequence[VisionItem]) -> list[torch.Tensor]:
        limit_threads(self._threads)
        weight = self._tower.patch_embed.proj.weight
        patches = torch.from_numpy(np.concatenate([self._patches(picture) for picture in pictures]))
        grid = torch.tensor([picture.grid for picture in pictures], device=weight.device)
        seen = self._tower(patches.to(weight.device, weight.dtype), grid_thw=grid).pooler_output
        split = [features.clone() for features in seen.split([picture.tokens for picture in pictures])]
        for picture, features in zip(pictures, split, strict=True):
            self._store(picture, features)
        return split

    def _patches(self, picture: VisionItem) -> np.ndarray:
        """Rows of one flattened patch each, (temporal * vertical * horizontal, channels * 2 * patch * patch).

        The processor gives an image whose two temporal halves are equal; a video's patch takes one half from each frame.
        """
        images = [Image.frombytes("RGB", (frame.width, frame.height), frame.rgb) for frame in picture.frames]
        depth, times = self._processor.temporal_patch_size, picture.grid[0]
        rows = np.asarray(self._processor(images=images, return_tensors="np")["pixel_values"])
        if picture.kind == "image":
            return rows
        single = rows.reshape(len(images), picture.grid[1] * picture.grid[2], 3, depth, -1)[:, :, :, 0]
        single = np.concatenate([single, single[-1:].repeat(times * depth - len(images), axis=0)])
        packed = single.reshape(times, depth, *single.shape[1:]).transpose(0, 2, 3, 1, 4)
        return packed.reshape(times * packed.shape[1], -1)
