"""The processor of Qwen2.5-VL for pictures alone, for `transformers serve`: the one for videos needs torchvision."""

from __future__ import annotations

from typing import Any

from transformers import AutoTokenizer, Qwen2_5_VLProcessor, Qwen2VLImageProcessorPil
from transformers.processing_utils import ProcessorMixin


class PictureProcessor(Qwen2_5_VLProcessor):
    def __init__(
        self, image_processor: Any = None, tokenizer: Any = None, chat_template: str | None = None
    ) -> None:
        self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
        self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
        self.video_token_id = tokenizer.convert_tokens_to_ids(self.video_token)
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    @classmethod
    def from_pretrained(cls, folder: str, **_: object) -> PictureProcessor:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return cls(
            Qwen2VLImageProcessorPil.from_pretrained(folder), tokenizer, tokenizer.chat_template
        )
