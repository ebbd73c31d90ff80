"""What plain transformers makes of the same messages: its chat template, its positions, its whole forward, from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image as Picture
from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

from vrthinker_core.types import Frame
from vrthinker_core.types.messages import GeneratedText, Image, Message, Part, Video

REPLY_PLACEHOLDER = "\x00"
"""Stands for a reply of known tokens until the text is tokenised."""


class StockModel:
    """The same folder, opened and run the stock way."""

    def __init__(self, folder: Path) -> None:
        self.model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.processor = Qwen2VLImageProcessorPil.from_pretrained(folder)

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Prompt ids of the chat template, each picture's place repeated as often as its grid needs.

        A reply whose tokens are known is left out of the text and put in as tokens.
        """
        written = [{"role": m.role, "content": [_described(part) for part in m.parts]} for m in messages]
        text = self.tokenizer.apply_chat_template(written, add_generation_prompt=True, tokenize=False)
        known = [list(p.tokens) for m in messages for p in m.parts if isinstance(p, GeneratedText) and p.tokens]
        ids = []
        for between, spoken in zip(text.split(REPLY_PLACEHOLDER), [*known, []], strict=True):
            ids += [*self.tokenizer.encode(between, add_special_tokens=False), *spoken]
        counts = iter([int(np.prod(grid)) // self.processor.merge_size**2 for _, _, grid in self._vision_inputs(messages)])
        return [i for token in ids for i in ([token] * next(counts) if token in (5, 6) else [token])]

    def inputs(self, messages: Sequence[Message], ids: Sequence[int]) -> dict[str, torch.Tensor]:
        """Everything stock `forward` takes for `ids`, which begin with the prompt of `messages`."""
        tokens = torch.tensor([list(ids)])
        given = {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "mm_token_type_ids": (tokens == 5).int() + 2 * (tokens == 6).int(),
        }
        for kind, pixels, grid in (("image", "pixel_values", "image_grid_thw"), ("video", "pixel_values_videos", "video_grid_thw")):
            mine = [(rows, shape) for which, rows, shape in self._vision_inputs(messages) if which == kind]
            if mine:
                given[pixels] = torch.from_numpy(np.concatenate([rows for rows, _ in mine]))
                given[grid] = torch.tensor([shape for _, shape in mine])
        return given

    @torch.inference_mode()
    def logits(self, messages: Sequence[Message]) -> torch.Tensor:
        """(vocabulary,) after the whole prompt, read at once."""
        self.model.model.rope_deltas = None
        return self.model(**self.inputs(messages, self.prompt_ids(messages)), use_cache=False).logits[0, -1]

    def generate(self, messages: Sequence[Message], count: int, spoken: Sequence[int] = ()) -> list[int]:
        """`count` greedy tokens after the prompt and what the judge has `spoken` of its reply already."""
        ids = [*self.prompt_ids(messages), *spoken]
        self.model.model.rope_deltas = None
        written = self.model.generate(**self.inputs(messages, ids), max_new_tokens=count, do_sample=False)
        return [int(token) for token in written[0, len(ids) :] if int(token) not in (0, 2)]

    def _vision_inputs(self, messages: Sequence[Message]) -> list[tuple[str, np.ndarray, tuple[int, int, int]]]:
        found = []
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, Image):
                made = self.processor(images=[_pil(part.frame)], return_tensors="np")
                found.append(("image", made["pixel_values"], tuple(int(n) for n in made["image_grid_thw"][0])))
            elif isinstance(part, Video):
                found.append(("video", *self._video_patches(part.frames)))
        return found

    def _video_patches(self, frames: Sequence[Frame]) -> tuple[np.ndarray, tuple[int, int, int]]:
        """A video's patches cut straight from its pixels: (times, rows, columns) of 2 x 14 x 14, merged by twos."""
        shown = [*frames, *frames[-1:]] if len(frames) % 2 else list(frames)
        film = np.stack([np.frombuffer(f.rgb, np.uint8).reshape(f.height, f.width, 3) for f in shown]).astype(np.float32) / 255
        film = (film - np.array(self.processor.image_mean, np.float32)) / np.array(self.processor.image_std, np.float32)
        times, high, wide = len(shown) // 2, frames[0].height // 14, frames[0].width // 14
        cut = film.transpose(0, 3, 1, 2).reshape(times, 2, 3, high // 2, 2, 14, wide // 2, 2, 14)
        return cut.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(times * high * wide, -1), (times, high, wide)


def _described(part: Part) -> dict[str, str]:
    if isinstance(part, Image):
        return {"type": "image"}
    if isinstance(part, Video):
        return {"type": "video"}
    return {"type": "text", "text": REPLY_PLACEHOLDER if isinstance(part, GeneratedText) and part.tokens else part.text}


def _pil(frame: Frame) -> Picture.Image:
    return Picture.frombytes("RGB", (frame.width, frame.height), frame.rgb)
