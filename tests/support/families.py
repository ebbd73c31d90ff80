"""Small random models of other families than our own engine's, from configurations alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from transformers import (
    CONFIG_MAPPING,
    AutoModelForImageTextToText,
    AutoTokenizer,
    GenerationConfig,
)

from vrthinker_core.backends import NANO

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% for p in m.content %}{% if p.type == 'image' %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TURNS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}"
    "<start_of_turn>{{ m.role }}\n{% for p in m.content %}{% if p.type == 'image' %}<start_of_image>{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>assistant\n{% endif %}"
)
TEXT = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 16384, "pad_token_id": 0,
}  # fmt: skip
PICTURES = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_convert_rgb": True}
QWEN_VISION = {
    "depth": 2, "num_heads": 2, "hidden_size": 16, "intermediate_size": 32, "patch_size": 16, "spatial_merge_size": 2,
    "temporal_patch_size": 2, "out_hidden_size": 32, "deepstack_visual_indexes": [0], "num_position_embeddings": 64,
}  # fmt: skip
GEMMA_VISION = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 112,
    "patch_size": 14, "vision_use_head": False,
}  # fmt: skip
Named = Mapping[str, str]
NONE: Named = MappingProxyType({})


def write_qwen3_vl(folder: Path, template: str = CHATML) -> Path:
    """A Qwen3-VL with the vocabulary of the built-in judge: 16 tokens a frame."""
    tokenizer = _write_tokenizer(folder)
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]}
    text = TEXT | {"rope_parameters": rope | {"mrope_interleaved": True}}
    config = {"vision_config": QWEN_VISION, "text_config": text}
    for name in ("image_pad", "video_pad", "vision_start", "vision_end"):
        key = f"{name.replace('_pad', '')}_token_id"
        config[key] = tokenizer.convert_tokens_to_ids(f"<|{name}|>")
    size = {"shortest_edge": 4096, "longest_edge": 16384}
    pictures = {"size": size, "image_processor_type": "Qwen2VLImageProcessor"}
    pictures |= {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    return _write(folder, "qwen3_vl", config, "<|im_end|>", template, pictures, "Qwen3VLProcessor")


def write_gemma3(folder: Path, template: str = TURNS) -> Path:
    """A Gemma 3, whose template here refuses system messages: 16 tokens a frame."""
    named = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    named |= {"image_token": "<image_soft_token>"}
    ends = {"bos_token": "<bos>", "eos_token": "<end_of_turn>"}
    tokenizer = _write_tokenizer(folder, ["<start_of_turn>"], named, ends)
    ids = {f"{key}_index": tokenizer.convert_tokens_to_ids(token) for key, token in named.items()}
    text = TEXT | {"sliding_window": 1024}
    config = {"mm_tokens_per_image": 16, "vision_config": GEMMA_VISION, "text_config": text} | ids
    size = {"height": 112, "width": 112}
    pictures = {"size": size, "image_processor_type": "Gemma3ImageProcessor"}
    length = {"image_seq_length": 16}
    kind = "gemma3", config, "<end_of_turn>", template, pictures | length, "Gemma3Processor"
    return _write(folder, *kind, **length)


def _write_tokenizer(
    folder: Path, added: Sequence[str] = (), named: Named = NONE, ends: Named = NONE
) -> Any:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokenizer = AutoTokenizer.from_pretrained(NANO)
    tokenizer.add_special_tokens({"additional_special_tokens": [*added, *named.values()]})
    tokenizer.add_special_tokens(dict(ends))
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    said = json.loads(path.read_text()) | {"extra_special_tokens": dict(named), **named}
    said.pop("chat_template", None)
    path.write_text(json.dumps(said))
    return tokenizer


def _write(
    folder: Path,
    kind: str,
    config: dict[str, Any],
    end: str,
    template: str,
    pictures: dict[str, Any],
    processor: str,
    **more: Any,
) -> Path:
    (folder / "chat_template.jinja").write_text(template)
    named = {"processor_class": processor}
    (folder / "preprocessor_config.json").write_text(json.dumps({**PICTURES, **pictures, **named}))
    (folder / "processor_config.json").write_text(json.dumps({**named, **more}))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config["text_config"] = {**config["text_config"], "vocab_size": -(-len(tokenizer) // 64) * 64}
    torch.manual_seed(0)
    shape = CONFIG_MAPPING[kind](**config, tie_word_embeddings=True)
    model = AutoModelForImageTextToText.from_config(shape).float()
    ends = {"eos_token_id": [tokenizer.convert_tokens_to_ids(end)], "pad_token_id": 0}
    model.generation_config = GenerationConfig(do_sample=True, temperature=0.7, top_k=20, **ends)
    model.save_pretrained(folder)
    return folder
