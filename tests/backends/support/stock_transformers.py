"""Plain transformers on the same messages, to compare with: its chat template, its positions, its forward without a cache."""

from __future__ import annotations

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
        chat = [
            {"role": m.role, "content": [_template_part(part) for part in m.parts]}
            for m in messages
        ]
        text = self.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        replies = [
            list(p.tokens)
            for m in messages
            for p in m.parts
            if isinstance(p, GeneratedText) and p.tokens
        ]
        ids = []
        for text_before, reply in zip(text.split(REPLY_PLACEHOLDER), [*replies, []], strict=True):
            ids += [*self.tokenizer.encode(text_before, add_special_tokens=False), *reply]
        counts = iter(
            [
                int(np.prod(grid)) // self.processor.merge_size**2
                for _, _, grid in self._vision_inputs(messages)
            ]
        )
        return [
            i for token in ids for i in ([token] * next(counts) if token in (5, 6) else [token])
        ]

    def inputs(self, messages: Sequence[Message], ids: Sequence[int]) -> dict[str, torch.Tensor]:
        """The arguments of stock `forward` for `ids`, which start with the prompt of `messages`."""
        tokens = torch.tensor([list(ids)])
        arguments = {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
            "mm_token_type_ids": (tokens == 5).int() + 2 * (tokens == 6).int(),
        }
        for kind, pixels, grid in (
            ("image", "pixel_values", "image_grid_thw"),
            ("video", "pixel_values_videos", "video_grid_thw"),
        ):
            of_kind = [
                (patches, shape)
                for which, patches, shape in self._vision_inputs(messages)
                if which == kind
            ]
            if of_kind:
                arguments[pixels] = torch.from_numpy(
                    np.concatenate([patches for patches, _ in of_kind])
                )
                arguments[grid] = torch.tensor([shape for _, shape in of_kind])
        return arguments

    @torch.inference_mode()
    def logits(self, messages: Sequence[Message]) -> torch.Tensor:
        """Logits after the whole prompt, (vocabulary,), in one forward without a cache."""
        self.model.model.rope_deltas = None
        return self.model(
            **self.inputs(messages, self.prompt_ids(messages)), use_cache=False
        ).logits[0, -1]

    def generate(
        self, messages: Sequence[Message], count: int, reply: Sequence[int] = ()
    ) -> list[int]:
        """`count` greedy tokens after the prompt and the tokens of `reply`, which starts the assistant's message."""
        ids = [*self.prompt_ids(messages), *reply]
        self.model.model.rope_deltas = None
        generated = self.model.generate(
            **self.inputs(messages, ids), max_new_tokens=count, do_sample=False
        )
        return [int(token) for token in generated[0, len(ids) :] if int(token) not in (0, 2)]

    def _vision_inputs(
        self, messages: Sequence[Message]
    ) -> list[tuple[str, np.ndarray, tuple[int, int, int]]]:
        found = []
        for part in (part for message in messages for part in message.parts):
            if isinstance(part, Image):
                processed = self.processor(images=[_pil(part.frame)], return_tensors="np")
                found.append(
                    (
                        "image",
                        processed["pixel_values"],
                        tuple(int(n) for n in processed["image_grid_thw"][0]),
                    )
                )
            elif isinstance(part, Video):
                found.append(("video", *self._video_patches(part.frames)))
        return found

    def _video_patches(self, frames: Sequence[Frame]) -> tuple[np.ndarray, tuple[int, int, int]]:
        """A video's patches straight from its pixels, in merge order, and their grid: (times, rows, columns) of 2 x 14 x 14."""
        even = [*frames, *frames[-1:]] if len(frames) % 2 else list(frames)
        video = (
            np.stack(
                [np.frombuffer(f.rgb, np.uint8).reshape(f.height, f.width, 3) for f in even]
            ).astype(np.float32)
            / 255
        )
        video = (video - np.array(self.processor.image_mean, np.float32)) / np.array(
            self.processor.image_std, np.float32
        )
        times, height, width = len(even) // 2, frames[0].height // 14, frames[0].width // 14
        patches = video.transpose(0, 3, 1, 2).reshape(
            times, 2, 3, height // 2, 2, 14, width // 2, 2, 14
        )
        return patches.transpose(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(times * height * width, -1), (
            times,
            height,
            width,
        )


def _template_part(part: Part) -> dict[str, str]:
    if isinstance(part, Image):
        return {"type": "image"}
    if isinstance(part, Video):
        return {"type": "video"}
    return {
        "type": "text",
        "text": REPLY_PLACEHOLDER if isinstance(part, GeneratedText) and part.tokens else part.text,
    }


def _pil(frame: Frame) -> PilImage.Image:
    return PilImage.frombytes("RGB", (frame.width, frame.height), frame.rgb)
