"""Random Qwen2.5-VLs to measure with: the proportions of the 7B in small, and the 7B itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from tests.backends.support.random_model import small_config, write_random_checkpoint
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint, open_checkpoint


def random_checkpoint(folder: Path, *, quick: bool, side: int, gpu: bool = False) -> Checkpoint:
    """12.6 million weights with `quick`, else 226 million; on a GPU the 7B in bfloat16. Pictures are brought to `side` x `side`."""
    if gpu:
        return build_on_device(folder, seven_billion(), side, "cuda", torch.bfloat16)
    wide, deep, looks = (384, 6, 128) if quick else (2048, 4, 640)
    write_random_checkpoint(folder / "random", config=_small(wide, deep, looks), pixels=side * side)
    return open_checkpoint(str(folder / "random"), device="cpu", dtype=torch.float32)


def build_on_device(folder: Path, config: Qwen2_5_VLConfig, side: int, device: str, dtype: torch.dtype) -> Checkpoint:
    """A model made where it is used: no 15 GB of noise are written and read back. `folder` gets tokenizer and processor."""
    checkpoint = open_checkpoint(str(write_random_checkpoint(folder / "random", pixels=side * side)), device="cpu", dtype=torch.float32)
    with torch.device(device):
        model = Qwen2_5_VLForConditionalGeneration._from_config(config, dtype=dtype)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0.0, weight[0].numel() ** -0.5)
        model.lm_head.weight[:7] = 0.0
    model.generation_config = checkpoint.model.generation_config
    return replace(checkpoint, model=model.eval(), threads=None)


def seven_billion() -> Qwen2_5_VLConfig:
    """The shape of Qwen2.5-VL-7B (its config.json), with the control tokens of the small tokenizer."""
    return small_config(
        {
            "vocab_size": 152_064,
            "hidden_size": 3584,
            "intermediate_size": 18_944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "max_position_embeddings": 128_000,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
        },
        {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": 3584,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
    )


def _small(wide: int, deep: int, looks: int) -> Qwen2_5_VLConfig:
    """The proportions of the 7B: nine tenths of the weights read text, one tenth looks."""
    halved = wide % 128 == 0 and (wide // 64) % (wide // 128) == 0
    return small_config(
        {
            "hidden_size": wide,
            "intermediate_size": 11 * wide // 4,
            "num_hidden_layers": deep,
            "num_attention_heads": wide // 64,
            "num_key_value_heads": wide // 128 if halved else wide // 64,
            "max_position_embeddings": 65_536,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [8, 12, 12]},
        },
        {
            "depth": deep,
            "hidden_size": looks,
            "intermediate_size": 3 * looks,
            "num_heads": looks // 64,
            "out_hidden_size": wide,
            "window_size": 112,
            "fullatt_block_indexes": [deep // 2 - 1, deep - 1],
        },
    )
