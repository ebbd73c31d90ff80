"""VisionEncoder: frames to image features, each image once."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, groupby
from typing import Any, Literal

import numpy as np
import torch
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil
from transformers.image_utils import SizeDict
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

from vrthinker_core.backends.chat_template import VisionItem
from vrthinker_core.backends.devices import limit_threads, parallelism
from vrthinker_core.backends.layers import use_window_attention
from vrthinker_core.types import Frame

CACHE_BYTES = 512 * 2**20  # About 290 frames of 448 x 448 pixels for the 7B
CACHE_ITEMS = 4096  # Limits the cache of a small model: about 16 MB for the built-in judge


class VisionEncoder:
    """A model's vision half and an LRU cache of image features.

    The cache is keyed by content and shared by all conversations. Thread-safe.
    """

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        processor: Qwen2VLImageProcessorPil,
        cache_bytes: int = CACHE_BYTES,
        cache_items: int = CACHE_ITEMS,
        threads: int | None = None,
    ) -> None:
        """Create an empty cache; for `threads` see `limit_threads`."""
        self._encoder, self._processor, self.threads = model.model.visual, processor, threads
        use_window_attention(self._encoder)
        # What the processor makes of each byte of each channel, (3, 256)
        values: Any = np.broadcast_to(np.arange(256, dtype=np.uint8), (3, 1, 256))
        if processor.do_rescale:
            values = processor.rescale(values, processor.rescale_factor)
        if processor.do_normalize:
            values = processor.normalize(values, processor.image_mean, processor.image_std)
        self._values = torch.from_numpy(np.ascontiguousarray(values[:, 0], np.float32))
        self._features: OrderedDict[VisionItem, torch.Tensor] = OrderedDict()
        self._max_bytes, self._max_items = cache_bytes, cache_items
        self._bytes = 0
        self._lock = threading.Lock()

    def vision_item(self, kind: Literal["image", "video"], frames: tuple[Frame, ...]) -> VisionItem:
        """Return the vision item of some frames; no pixel is read.

        The item has the patch grid and the number of prompt tokens. A video has two frames to a
        temporal patch; an odd last frame is used twice.

        Raises `ValueError` if no patch grid fits: the frames of a video differ in size, or the
        aspect ratio of a frame exceeds 200.
        """
        processor, first = self._processor, frames[0]
        if any((frame.width, frame.height) != (first.width, first.height) for frame in frames):
            raise ValueError("the frames of one video item differ in size")
        low, high = int(processor.size["shortest_edge"]), int(processor.size["longest_edge"])
        height, width = smart_resize(
            first.height, first.width, processor.patch_size * processor.merge_size, low, high
        )
        times = -(-len(frames) // processor.temporal_patch_size) if kind == "video" else 1
        grid = (times, height // processor.patch_size, width // processor.patch_size)
        num_tokens = grid[0] * grid[1] * grid[2] // processor.merge_size**2
        return VisionItem(kind, tuple(frame.key for frame in frames), grid, num_tokens, frames)

    def pixel_values(
        self, items: Sequence[VisionItem], device: torch.device | str = "cpu"
    ) -> torch.Tensor:
        """Return the model's patches, (patches, channels * 2 * patch * patch) in float32.

        Frames go to `device` as bytes, an eighth of their patches; values are looked up and patches
        cut there. An image's patch has its frame twice, a video's has two frames, the last one
        twice if their number is odd.
        """
        depth, merge = self._processor.temporal_patch_size, self._processor.merge_size
        side = self._processor.patch_size
        table = self._values.flatten().to(device)
        channels = 256 * torch.arange(3, dtype=torch.int32, device=device)
        patches = []
        for (kind, *grid), run in groupby(items, lambda item: (item.kind, *item.grid_thw[1:])):
            rows, columns = grid
            frames: list[np.ndarray] = []
            for item in run:
                frames += [
                    self._resized(frame, side * rows, side * columns) for frame in item.frames
                ]
                if kind == "video":
                    frames += frames[-1:] * (-len(item.frames) % depth)
            pixels = torch.from_numpy(np.stack(frames)).to(device)
            values = table[pixels.int() + channels]
            at_once = 1 if kind == "image" else depth
            values = values.view(-1, at_once, side * rows, side * columns, 3)
            cells = values.expand(-1, depth, -1, -1, -1).view(
                -1, depth, rows // merge, merge, side, columns // merge, merge, side, 3
            )
            cells = cells.permute(0, 2, 5, 3, 6, 8, 1, 4, 7)
            patches.append(cells.reshape(-1, 3 * depth * side * side))
        return torch.cat(patches)

    @torch.inference_mode()
    def encode(self, items: Sequence[VisionItem]) -> list[torch.Tensor]:
        """Return the image features of each item, (tokens, hidden), in order.

        Items that are not in the cache are computed in one pass.
        """
        found = {}
        for item in items:
            with self._lock:
                if item in self._features:
                    self._features.move_to_end(item)
                    found[item] = self._features[item]
        new = [item for item in dict.fromkeys(items) if item not in found]
        # Another thread pays off for 16 items
        threads = max(1, min(parallelism(self.threads), len(new) // 16))
        size = max(1, -(-len(new) // threads))
        batches = [new[start : start + size] for start in range(0, len(new), size)]
        if threads == 1:
            computed = list(map(self._forward, batches))
        else:
            with ThreadPoolExecutor(threads) as pool:
                computed = list(pool.map(self._forward, batches))
        found |= dict(zip(new, chain.from_iterable(computed), strict=True))
        return [found[item] for item in items]

    def clear(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._features.clear()
            self._bytes = 0

    @torch.inference_mode()
    def _forward(self, items: Sequence[VisionItem]) -> list[torch.Tensor]:
        limit_threads(self.threads)
        weight = self._encoder.patch_embed.proj.weight
        patches = self.pixel_values(items, weight.device).to(weight.dtype)
        grid_thw = torch.tensor([item.grid_thw for item in items], device=weight.device)
        output = self._encoder(patches, grid_thw=grid_thw).pooler_output
        split = output.split([item.num_tokens for item in items])
        per_item = [features.clone() for features in split]
        for item, features in zip(items, per_item, strict=True):
            key = replace(item, frames=())  # Without the pixels
            with self._lock:
                if key not in self._features:
                    self._features[key] = features
                    self._bytes += features.nbytes
                while self._bytes > self._max_bytes or len(self._features) > self._max_items:
                    self._bytes -= self._features.popitem(last=False)[1].nbytes
        return per_item

    def _resized(self, frame: Frame, height: int, width: int) -> np.ndarray:
        """Return a frame's pixels as the processor resizes them, (height, width, 3)."""
        pixels = np.asarray(frame.image)
        if (frame.height, frame.width) == (height, width):
            return pixels
        own, edges = self._processor, ("shortest_edge", "longest_edge")
        size = SizeDict(**{name: own.size[name] for name in edges})
        image = pixels.transpose(2, 0, 1)
        resized = own.resize(image, size, own.resample, own.patch_size * own.merge_size)
        return resized.transpose(1, 2, 0)
