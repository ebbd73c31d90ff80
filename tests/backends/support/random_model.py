"""A random Qwen2.5-VL small enough for a test, with the built-in judge's tokenizer; frames of noise; one whole reply."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends import NANO, Conversation
from vrthinker_core.backends.base import GenerationRequest, not_cancelled
from vrthinker_core.backends.checkpoint import SMALLEST_SIDE
from vrthinker_core.backends.transformers_local import LocalConversation, TransformersBackend
from vrthinker_core.types import Frame, FrameRef, Side
from vrthinker_core.types.messages import (
    Cancelled,
    Completion,
    GeneratedText,
    Image,
    Message,
    Sampling,
    Text,
    Video,
)

VOCABULARY_SIZE = json.loads((NANO / "config.json").read_text())["text_config"]["vocab_size"]
"""Tokens of the built-in judge's vocabulary; the first seven are control tokens."""

SMALLEST_TEXT = {
    "vocab_size": VOCABULARY_SIZE, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, "tie_word_embeddings": False,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
    "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
SMALLEST_VISION = {
    "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64, "patch_size": 14,
    "spatial_merge_size": 2, "temporal_patch_size": 2, "window_size": 56, "fullatt_block_indexes": [1], "tokens_per_second": 2,
}  # fmt: skip


def write_random_checkpoint(
    folder: Path, seed: int = 0, config: Qwen2_5_VLConfig | None = None, pixels: int | None = None
) -> Path:
    """A complete checkpoint: patches of 14, 2 x 2 merged, one windowed and one full vision layer, untied embeddings.

    `config` replaces the smallest one; with `pixels` the image processor resizes every image to that many.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(config or small_config())
    draw_weights(model)
    model.generation_config.eos_token_id = [2, 0]
    model.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(NANO / name, folder / name)
    processor = json.loads((NANO / "preprocessor_config.json").read_text()) | {
        "merge_size": 2,
        "size": {"shortest_edge": pixels or 28 * 28, "longest_edge": pixels or 12_845_056},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


@torch.no_grad()
def draw_weights(model: Qwen2_5_VLForConditionalGeneration) -> None:
    """Random weights that the product opens, which write no control token."""
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.normal_(0.0, weight[0].numel() ** -0.5)
    model.model.language_model.embed_tokens.weight.normal_()
    # Rows as different as training leaves them, in every matrix that is looked at for that
    for weight in model.parameters():
        if weight.ndim > 1 and min(len(weight), weight[0].numel()) >= SMALLEST_SIDE:
            scales = torch.linspace(0.8, 1.25, len(weight), device=weight.device)
            weight.mul_(scales.view(-1, *[1] * (weight.ndim - 1)))
    model.lm_head.weight[:7] = 0.0


def small_config(
    text: dict[str, Any] | None = None, vision: dict[str, Any] | None = None
) -> Qwen2_5_VLConfig:
    """The smallest configuration, updated with `text` and `vision`."""
    return Qwen2_5_VLConfig(
        text_config=SMALLEST_TEXT | (text or {}),
        vision_config=SMALLEST_VISION | (vision or {}),
        image_token_id=5,
        video_token_id=6,
        vision_start_token_id=3,
        vision_end_token_id=4,
        tie_word_embeddings=False,
    )


def noise_frame(slot: int, width: int = 84, height: int = 56, side: Side = Side.FIRST) -> Frame:
    """A frame of coloured noise, equal for equal slot, side and size."""
    pixels = np.random.default_rng((slot, side, width, height)).integers(
        0, 256, (height, width, 3), dtype=np.uint8
    )
    ref, key = FrameRef(slot, side), f"noise:{slot}:{int(side)}:{width}x{height}"
    shown = slot, slot / 24, (slot + 1) / 24
    return Frame(ref, *shown, width, height, key, pixels.tobytes())


def user(*parts: Frame | Video | str) -> Message:
    """A message of pictures, videos and texts."""
    made = {Frame: Image, str: Text, Video: lambda video: video}
    return Message("user", tuple(made[type(part)](part) for part in parts))


def system(text: str) -> Message:
    return Message("system", (Text(text),))


def replied(text: str, tokens: tuple[int, ...] = ()) -> Message:
    return Message("assistant", (GeneratedText(text, tokens),))


ASK = [system("You judge."), user(noise_frame(1), "Compare the two videos.")]
OPENING = [user(noise_frame(3), "Video of a red cube going left on wood.")]


def generate(
    conversation: Conversation,
    messages: Sequence[Message],
    sampling: Sampling | None = None,
    cancelled: Cancelled = not_cancelled,
) -> Completion:
    """The whole reply; asserts that the stream is pieces of text, then one completion of the same text."""
    *pieces, last = conversation.stream(messages, sampling or Sampling(24), cancelled)
    assert isinstance(last, Completion)
    assert all(isinstance(piece, str) and piece for piece in pieces)
    assert "".join(map(str, pieces)) == last.text
    assert tuple(len(str(piece)) for piece in pieces) == last.pieces
    return last


def same(one: Completion, other: Completion) -> bool:
    told = attrgetter("text", "stop", "tokens", "prompt_tokens", "reused_tokens")
    return bool(told(one) == told(other))


def asks(
    backend: TransformersBackend,
    prompts: Sequence[Sequence[Message]],
    *samplings: Sampling,
    conversations: Sequence[Conversation] = (),
) -> list[GenerationRequest]:
    """A request for each prompt; the last sampling is that of all other prompts."""
    chosen = [*samplings, *samplings[-1:] * len(prompts)]
    opened = conversations or [backend.open_conversation() for _ in prompts]
    return list(map(GenerationRequest, opened, prompts, chosen))


def completions(
    backend: TransformersBackend, requests: Sequence[GenerationRequest]
) -> list[Completion]:
    """The replies of one batch."""
    ends = {n: item for n, item in backend.stream_batch(requests) if isinstance(item, Completion)}
    return [ends[n] for n in range(len(requests))]


def conversation_with(
    backend: TransformersBackend, steps_per_sync: int, **changed: Any
) -> LocalConversation:
    return LocalConversation(replace(backend.loaded, steps_per_sync=steps_per_sync, **changed))
