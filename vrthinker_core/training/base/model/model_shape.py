"""The shape of the small model: a stock Qwen2.5-VL, only tiny, so that everything that opens the 7B opens it."""

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

SIDE = 112  # Pixels per side of every picture
PATCH = 14
MERGE = 4  # Patches per side of a token
HIDDEN = 192  # Of the language model; at least as many as the frame code has numbers
CONTEXT = 4096


def model_config(vocabulary: int, control: dict[str, int], layers: int = 4) -> Qwen2_5_VLConfig:
    """The configuration for so many tokens; `control` has the ids of the control tokens by their written form."""
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": vocabulary, "hidden_size": HIDDEN, "intermediate_size": 512, "num_hidden_layers": layers,
            "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 9, 9]},
            "bos_token_id": control["<|endoftext|>"], "eos_token_id": control["<|im_end|>"],
            "pad_token_id": control["<|endoftext|>"],
        },
        vision_config={
            "depth": 4, "hidden_size": 128, "intermediate_size": 384, "num_heads": 4, "patch_size": PATCH,
            "spatial_merge_size": MERGE, "temporal_patch_size": 2, "window_size": SIDE, "out_hidden_size": HIDDEN,
            "fullatt_block_indexes": list(range(4)),
        },
        image_token_id=control["<|image_pad|>"], video_token_id=control["<|video_pad|>"],
        vision_start_token_id=control["<|vision_start|>"], vision_end_token_id=control["<|vision_end|>"],
        tie_word_embeddings=True,
    )  # fmt: skip


def new_model(config: Qwen2_5_VLConfig, seed: int) -> Qwen2_5_VLForConditionalGeneration:
    """A model of random weights in float32."""
    torch.manual_seed(seed)
    return Qwen2_5_VLForConditionalGeneration(config)


def to_bfloat16(model: torch.nn.Module) -> None:
    """Convert the weights and no buffer: `.to(torch.bfloat16)` would round the rotary frequencies too, and what is saved of a model
    that was trained so reads wrong in stock code."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
