"""The published loop, as its model card describes it, to be measured against: every turn starts from nothing.

Each requested frame opens the file, seeks and reads. Each turn resizes, patches and encodes every image of the conversation again,
renders and tokenizes the whole conversation again, and lets stock `generate()` prefill all of it. Only the tokens of each reply are
given from outside, so that two loops can be compared over the same replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import torch
from PIL import Image
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2VLImageProcessorPil,
    TokenizersBackend,
)

from tests.benchmarks.tools.phase_timer import PhaseTimer
from vrthinker_core.protocols import make_protocol
from vrthinker_core.types import Settings

SLOTS, SIDE = 128, 448
FIRST = (16, 48, 80, 112)


def read_frames(path: Path, slots: Sequence[int]) -> list[Image.Image]:
    """Frames of one file, one seek each; a frame that cannot be read is left out."""
    capture = cv2.VideoCapture(str(path))
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    images = []
    for slot in slots:
        capture.set(cv2.CAP_PROP_POS_FRAMES, min(int(slot / SLOTS * count), count - 1))
        read, pixels = capture.read()
        if read:
            image = Image.fromarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))
            images.append(image.resize((SIDE, SIDE)))
    capture.release()
    return images


class PublishedLoop:
    """One comparison in the published way. Call `turn` once for each reply."""

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        tokenizer: TokenizersBackend,
        processor: Qwen2VLImageProcessorPil,
        videos: tuple[Path, Path],
        timer: PhaseTimer,
    ) -> None:
        self._model, self._tokenizer, self._processor = model, tokenizer, processor
        self._videos, self._timer = videos, timer
        self._images: list[Image.Image] = []
        system = [{"type": "text", "text": make_protocol(Settings(), "paired").system}]
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": system}]

    def turn(self, requested: Sequence[int], reply: Sequence[int]) -> str:
        """Show the frames of the slots `requested` (the first turn shows `FIRST`), then write `reply`; returns its text."""
        with self._timer.phase("video"):
            images = self._frames([[slot] for slot in requested] if self._images else [FIRST])
        self._images += images
        content = [
            *({"type": "image"} for _ in images),
            {"type": "text", "text": f"Frames {list(requested)} of both videos."},
        ]
        self._messages.append({"role": "user", "content": content})
        text = self._generate(reply)
        self._messages.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
        return text

    def _frames(self, calls: Sequence[Sequence[int]]) -> list[Image.Image]:
        """The slots of each call, of one video after the other."""
        both = [(call, path) for call in calls for path in self._videos]
        return [image for call, path in both for image in read_frames(path, call)]

    @torch.inference_mode()
    def _generate(self, reply: Sequence[int]) -> str:
        with self._timer.phase("preprocess"):
            inputs = self._inputs()
        length = inputs["input_ids"].shape[1]
        with self._timer.phase("decode"):
            forced = LogitsProcessorList([ForcedTokens(length, reply)])
            how = {"max_new_tokens": len(reply), "do_sample": False, "logits_processor": forced}
            ids = self._model.generate(**inputs, **how)
        return str(self._tokenizer.decode(ids[0, length:], skip_special_tokens=True))

    def _inputs(self) -> dict[str, torch.Tensor]:
        """The arguments of stock `forward` for the whole conversation, as a stock processor makes them of text and images."""
        how = {"add_generation_prompt": True, "tokenize": False}
        text = str(self._tokenizer.apply_chat_template(self._messages, **how))
        features = self._processor(images=self._images, return_tensors="pt")
        patches = features["image_grid_thw"].prod(-1)
        counts = iter((patches // self._processor.merge_size**2).tolist())
        pad = self._model.config.image_token_id
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        ids = [i for each in encoded for i in [each] * (next(counts) if each == pad else 1)]
        tokens = torch.tensor([ids], device=self._model.device)
        return {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "mm_token_type_ids": (tokens == pad).int(),
            "pixel_values": features["pixel_values"].to(self._model.device, self._model.dtype),
            "image_grid_thw": features["image_grid_thw"].to(self._model.device),
        }


class ForcedTokens(LogitsProcessor):
    """Makes `generate()` write the given tokens after a prompt of `prompt_length` tokens."""

    def __init__(self, prompt_length: int, tokens: Sequence[int]) -> None:
        self._prompt_length, self._tokens = prompt_length, tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        forced = torch.full_like(scores, -torch.inf)
        forced[:, self._tokens[input_ids.shape[1] - self._prompt_length]] = 0.0
        return forced
