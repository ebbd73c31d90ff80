"""The published loop, as its model card describes it, to be measured against: every turn begins from nothing.

Each wanted frame opens the file, seeks and reads; each turn shrinks, cuts and encodes every picture of the conversation again,
writes and tokenises the whole conversation again, and lets stock `generate()` read all of it. Only the words are given from
outside, so that two loops can be compared over the same replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
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
from vrthinker_core.dialects import make_dialect
from vrthinker_core.types import Settings

SLOTS, SIDE = 128, 448
FIRST = (16, 48, 80, 112)


def read_frames(path: Path, slots: Sequence[int]) -> list[Image.Image]:
    """Frames of one file, one seek each; a frame that cannot be read is left out."""
    capture = cv2.VideoCapture(str(path))
    count = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
    found = []
    for slot in slots:
        capture.set(cv2.CAP_PROP_POS_FRAMES, min(int(slot / SLOTS * count), count - 1))
        good, pixels = capture.read()
        if good:
            found.append(Image.fromarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)).resize((SIDE, SIDE)))
    capture.release()
    return found


class PublishedLoop:
    """One comparison in the published way; `turn` after `turn`."""

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        tokenizer: TokenizersBackend,
        processor: Qwen2VLImageProcessorPil,
        videos: tuple[Path, Path],
        watch: PhaseTimer,
    ) -> None:
        self._model, self._tokenizer, self._processor = model, tokenizer, processor
        self._videos, self._watch = videos, watch
        self._images: list[Image.Image] = []
        system = make_dialect(Settings(), "paired").system
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": [{"type": "text", "text": system}]}]

    def turn(self, wanted: Sequence[int], reply: Sequence[int]) -> str:
        """Show the frames of the slots `wanted` (the first ones in the first turn), and write `reply`; gives its text."""
        with self._watch.phase("video"):
            images = self._opening() if not self._images else self._pairs(wanted)
        self._images += images
        content = [*({"type": "image"} for _ in images), {"type": "text", "text": f"Frames {list(wanted)} of both videos."}]
        self._messages.append({"role": "user", "content": content})
        written = self._generate(reply)
        self._messages.append({"role": "assistant", "content": [{"type": "text", "text": written}]})
        return written

    def _opening(self) -> list[Image.Image]:
        return [image for path in self._videos for image in read_frames(path, FIRST)]

    def _pairs(self, wanted: Sequence[int]) -> list[Image.Image]:
        return [image for slot in wanted for path in self._videos for image in read_frames(path, [slot])]

    @torch.inference_mode()
    def _generate(self, reply: Sequence[int]) -> str:
        with self._watch.phase("preprocess"):
            inputs = self._inputs()
        length = inputs["input_ids"].shape[1]
        with self._watch.phase("decode"):
            ids = self._model.generate(
                **inputs,
                max_new_tokens=len(reply),
                do_sample=False,
                logits_processor=LogitsProcessorList([ForcedTokens(length, reply)]),
            )
        return str(self._tokenizer.decode(ids[0, length:], skip_special_tokens=True))

    def _inputs(self) -> dict[str, torch.Tensor]:
        """All that stock `forward` takes, for the whole conversation: what a stock processor makes of text and images."""
        text = str(self._tokenizer.apply_chat_template(self._messages, add_generation_prompt=True, tokenize=False))
        made = self._processor(images=self._images, return_tensors="pt")
        counts = iter((made["image_grid_thw"].prod(-1) // self._processor.merge_size**2).tolist())
        pad = self._model.config.image_token_id
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        ids = np.array([i for token in encoded for i in ([token] * next(counts) if token == pad else [token])])
        tokens = torch.from_numpy(ids)[None].to(self._model.device)
        return {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "mm_token_type_ids": (tokens == pad).int(),
            "pixel_values": made["pixel_values"].to(self._model.device, self._model.dtype),
            "image_grid_thw": made["image_grid_thw"].to(self._model.device),
        }


class ForcedTokens(LogitsProcessor):
    """Writes given tokens after a prompt of `start` tokens."""

    def __init__(self, start: int, tokens: Sequence[int]) -> None:
        self._start, self._tokens = start, tokens

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        only = torch.full_like(scores, -torch.inf)
        only[:, self._tokens[input_ids.shape[1] - self._start]] = 0.0
        return only
