"""Qwen2.5-VL models with random weights to measure with: the 7B's proportions at a small size, and the 7B's own shape."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from tests.backends.support.random_model import draw_weights, small_config, write_random_checkpoint
from vrthinker_core.backends.checkpoint import Checkpoint, open_checkpoint
from vrthinker_core.backends.layers import attention_for
from vrthinker_core.training.estimate import TEXT_7B, VISION_7B


def random_checkpoint(folder: Path, *, quick: bool, side: int, gpu: bool = False) -> Checkpoint:
    """12.6 million weights with `quick`, else 226 million; with `gpu` the 7B in bfloat16. Images are resized to `side` x `side`."""
    if gpu:
        return build_on_device(folder, shape_of_7b(), side, "cuda", torch.bfloat16)
    config = _small_config(384, 6, 128) if quick else _small_config(2048, 4, 640)
    write_random_checkpoint(folder / "random", config=config, pixels=side * side)
    return open_checkpoint(str(folder / "random"), device="cpu", dtype=torch.float32)


def build_on_device(
    folder: Path, config: Qwen2_5_VLConfig, side: int, device: str, dtype: torch.dtype
) -> Checkpoint:
    """A model initialised on its device, so that 15 GB of noise need not be written and read back.

    `folder` gets the tokenizer and the processor.
    """
    small = write_random_checkpoint(folder / "random", pixels=side * side)
    checkpoint = open_checkpoint(str(small), device="cpu", dtype=torch.float32)
    fill_vocabulary(checkpoint.folder, int(config.get_text_config().vocab_size))
    attention = attention_for(device, dtype)
    with torch.device(device):
        model = Qwen2_5_VLForConditionalGeneration._from_config(
            config, dtype=dtype, attn_implementation=attention
        )
    draw_weights(model)
    model.generation_config = checkpoint.model.generation_config
    return replace(checkpoint, model=model.eval(), threads=None)


def fill_vocabulary(folder: Path, size: int) -> None:
    """Make the tokenizer of a folder one of `size` tokens, with tokens that no text has: as many as the model has rows."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    # Else they would be numbered anew
    vocabulary |= {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    taken = set(vocabulary.values())
    vocabulary |= {f"<filler {number}>": number for number in range(size) if number not in taken}
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")


def shape_of_7b() -> Qwen2_5_VLConfig:
    """The shape of Qwen2.5-VL-7B (its config.json), with the control tokens of the small tokenizer."""
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
    text = {"max_position_embeddings": 128_000, "rope_parameters": rope}
    vision = {"window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31]}
    return small_config({**TEXT_7B, **text}, {**VISION_7B, **vision})


def _small_config(hidden: int, layers: int, vision_hidden: int) -> Qwen2_5_VLConfig:
    """The proportions of the 7B: nine tenths of the weights are the language model's, one tenth the vision tower's."""
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]}
    text = {
        "hidden_size": hidden, "intermediate_size": 11 * hidden // 4, "num_hidden_layers": layers,
        "num_attention_heads": hidden // 64, "num_key_value_heads": hidden // 128,
        "max_position_embeddings": 65_536, "rope_parameters": rope,
    }  # fmt: skip
    vision = {
        "depth": layers, "hidden_size": vision_hidden, "intermediate_size": 3 * vision_hidden,
        "num_heads": vision_hidden // 64, "out_hidden_size": hidden, "window_size": 112,
        "fullatt_block_indexes": [layers // 2 - 1, layers - 1],
    }  # fmt: skip
    return small_config(text, vision)
