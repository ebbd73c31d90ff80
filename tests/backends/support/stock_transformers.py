"""Plain transformers on the same messages, to compare with: its chat template, its positions, its forward without a cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image as PilImage
from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

from vrthinker_core.types import Frame
from vrthinker_core.types.messages import GeneratedText, Image, Message, Part, Video

REPLY_PLACEHOLDER = "\x00"
"""In the place of a reply of known tokens until the text is tokenised."""


class StockModel:
    """A checkpoint loaded and run by transformers alone."""

    def __init__(self, folder: Path) -> None:
        self.model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.processor = Qwen2VLImageProcessorPil.from_pretrained(folder)

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Prompt ids of the chat template, each image or video placeholder repeated as often as its grid needs.

        A reply whose tokens are known is left out of the text and inserted as tokens.
        """
        chat = [{"role": m.role, "content": [*map(_template_part, m.parts)]} for m in messages]
        text = self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        parts = [part for message in messages for part in message.parts]
        replies = [list(p.tokens) for p in parts if isinstance(p, GeneratedText) and p.tokens]
        ids = []
        for before, reply in zip(text.split(REPLY_PLACEHOLDER), [*replies, []], strict=True):
            ids += [*self.tokenizer.encode(before, add_special_tokens=False), *reply]
        grids = [grid for _, _, grid in self._vision_inputs(messages)]
        counts = iter([math.prod(grid) // self.processor.merge_size**2 for grid in grids])
        return [i for token in ids for i in [token] * (next(counts) if token in (5, 6) else 1)]

    def inputs(self, messages: Sequence[Message], ids: Sequence[int]) -> dict[str, torch.Tensor]:
        """The arguments of stock `forward` for `ids`, which start with the prompt of `messages`."""
        tokens = torch.tensor([list(ids)])
        arguments = {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "mm_token_type_ids": (tokens == 5).int() + 2 * (tokens == 6).int(),
        }
        found = self._vision_inputs(messages)
        for kind, suffix in (("image", ""), ("video", "_videos")):
            of_kind = [(patches, grid) for which, patches, grid in found if which == kind]
            if of_kind:
                pixels, grids = zip(*of_kind, strict=True)
                arguments[f"pixel_values{suffix}"] = torch.from_numpy(np.concatenate(pixels))
                arguments[f"{kind}_grid_thw"] = torch.tensor(grids)
        return arguments

    @torch.inference_mode()
    def logits(self, messages: Sequence[Message]) -> torch.Tensor:
        """Logits after the whole prompt, (vocabulary,), in one forward without a cache."""
        self.model.model.rope_deltas = None
        inputs = self.inputs(messages, self.prompt_ids(messages))
        return self.model(**inputs, use_cache=False).logits[0, -1]

    def generate(
        self, messages: Sequence[Message], count: int, reply: Sequence[int] = ()
    ) -> list[int]:
        """`count` greedy tokens after the prompt and the tokens of `reply`, which starts the assistant's message."""
        ids = [*self.prompt_ids(messages), *reply]
        self.model.model.rope_deltas = None
        how = {"max_new_tokens": count, "do_sample": False}
        generated = self.model.generate(**self.inputs(messages, ids), **how)
        return [int(token) for token in generated[0, len(ids) :] if int(token) not in (0, 2)]

    def _vision_inputs(
        self, messages: Sequence[Message]
    ) -> list[tuple[str, np.ndarray, tuple[int, int, int]]]:
        found = []
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, Image):
                frame = part.frame
                picture = PilImage.frombytes("RGB", (frame.width, frame.height), frame.rgb)
                processed = self.processor(images=[picture], return_tensors="np")
                grid = tuple(processed["image_grid_thw"][0].tolist())
                found.append(("image", processed["pixel_values"], grid))
            elif isinstance(part, Video):
                found.append(("video", *self._video_patches(part.frames)))
        return found

    def _video_patches(self, frames: Sequence[Frame]) -> tuple[np.ndarray, tuple[int, int, int]]:
        """A video's patches straight from its pixels, in merge order, and their grid: (times, rows, columns) of 2 x 14 x 14."""
        even = [*frames, *frames[-1:]] if len(frames) % 2 else list(frames)
        pixels = [np.frombuffer(f.rgb, np.uint8).reshape(f.height, f.width, 3) for f in even]
        colours = [self.processor.image_mean, self.processor.image_std]
        mean, std = np.array(colours, np.float32)
        video = (np.stack(pixels).astype(np.float32) / 255 - mean) / std
        times, rows, columns = len(even) // 2, frames[0].height // 14, frames[0].width // 14
        shape = (times, 2, 3, rows // 2, 2, 14, columns // 2, 2, 14)
        patches = video.transpose(0, 3, 1, 2).reshape(shape).transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
        return patches.reshape(times * rows * columns, -1), (times, rows, columns)


def _template_part(part: Part) -> dict[str, str]:
    if isinstance(part, Image | Video):
        return {"type": type(part).__name__.lower()}
    known = isinstance(part, GeneratedText) and part.tokens
    return {"type": "text", "text": REPLY_PLACEHOLDER if known else part.text}
