"""Weights in 4 or 8 bits, adapters, and a model's memory needs."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from packaging.version import Version
from safetensors import safe_open
from transformers import BitsAndBytesConfig

from vrthinker_core.backends.checkpoint_files import ADAPTER, read_json, refuse, tensor_shapes
from vrthinker_core.backends.devices import Needs, available_memory
from vrthinker_core.backends.judge_name import HUB_ID, Bits, folder_title
from vrthinker_core.errors import CheckpointError

BYTES_A_WEIGHT: dict[Bits, float] = {"4bit": 0.5 + 1 / 64 + 4 / (64 * 256), "8bit": 1.0}
"""Bytes of a quantised weight. "4bit" is NF4 with double quantisation: a byte for 64 weights, and 4
bytes for 256 of these bytes. "8bit" is int8.
"""


def kept_modules(model: Any) -> list[str]:
    """Return what is not quantised: all beside the language model.

    bitsandbytes compares names from their beginning and would silently skip a bare `visual`.
    """
    names = {module: name for name, module in model.named_modules()}
    path = names[model.get_decoder()].split(".")
    above = {".".join(path[:depth]) for depth in range(len(path))}
    beside = (name for name in names.values() if name.rpartition(".")[0] in above)
    return [name for name in beside if name not in above | {".".join(path)}]


def needs_of(model: Any, bits: Bits | None, dtype: torch.dtype) -> Needs:
    """Return the memory needs of a model, given on the meta device."""
    size_of = {id(each.weight): BYTES_A_WEIGHT[bits] for each in _linears(model)} if bits else {}
    weights = sum(
        weight.numel() * size_of.get(id(weight), dtype.itemsize) for weight in model.parameters()
    )
    text = model.config.get_text_config()
    heads = int(getattr(text, "num_key_value_heads", None) or text.num_attention_heads)
    size = int(getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
    row = 2 * int(text.num_hidden_layers) * heads * size * dtype.itemsize
    return Needs(int(weights), row * 20_000)


def require_room(
    title: str, model: Any, bits: Bits | None, dtype: torch.dtype, device: str
) -> None:
    """Raise `CheckpointError`, with bits that fit, if the model does not."""
    needs, free = needs_of(model, bits, dtype), available_memory(device)
    if free is None or needs.total <= free:
        return
    memory = "memory" if device == "cpu" else f"{device.upper()} memory"
    way = (
        "close other programs, choose a smaller judge or one on a server "
        "(local, openai:MODEL), or the built-in judge, nano"
    )
    smaller: tuple[Bits, ...] = {None: ("8bit", "4bit"), "8bit": ("4bit",)}.get(bits, ())
    for fewer in smaller:
        if (total := needs_of(model, fewer, dtype).total) <= free:
            way = f"add ?quantize={fewer}, {total / 1e9:.1f} GB"
            break
    raise CheckpointError(
        f"{title} needs {needs.total / 1e9:.1f} GB of {memory} "
        f"and {free / 1e9:.1f} are free: {way}."
    )


def loading_options(model: Any, bits: Bits | None, dtype: torch.dtype) -> dict[str, Any]:
    """Return quantisation options; {} for None."""
    if bits is None:
        return {}
    config: Any = BitsAndBytesConfig
    how = config(
        load_in_4bit=bits == "4bit",
        load_in_8bit=bits == "8bit",
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        llm_int8_skip_modules=kept_modules(model),
    )
    return {"quantization_config": how}


def require_bitsandbytes() -> None:
    """Raise `CheckpointError` if bitsandbytes is missing; quiet its line a layer."""
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    if find_spec("bitsandbytes") is None:
        raise CheckpointError(
            "Weights in 4 or 8 bits take bitsandbytes: run pip install -e '.[quantize]'."
        )


def stored_bits(title: str, config: dict[str, Any]) -> Bits | None:
    """Return the bits of stored weights; raise `CheckpointError` for other kinds."""
    if not (said := config.get("quantization_config")):
        return None
    said = said if isinstance(said, dict) else {"quant_method": said}
    if (method := said.get("quant_method")) != "bitsandbytes":
        raise CheckpointError(
            f"{title} is quantised by {str(method)[:40]!r}, which is not read here: "
            "give the checkpoint that it was made from, and add ?quantize=4bit."
        )
    require_bitsandbytes()
    return "4bit" if said.get("load_in_4bit") else "8bit"


@torch.inference_mode()
def check_kernels(title: str, model: Any, bits: Bits) -> None:
    """Run each kind of quantised layer once; raise `CheckpointError` if one fails."""
    quantized = (each for each in _linears(model) if type(each) is not torch.nn.Linear)
    kinds = {(type(each), each.in_features, each.out_features): each for each in quantized}
    for linear in kinds.values():
        device = linear.weight.device
        try:
            linear(torch.zeros(1, linear.in_features, device=device, dtype=model.dtype))
        except Exception as error:
            cause = " ".join(str(error).split())[:150]
            raise CheckpointError(
                f"{title} cannot run in {bits} on this {device.type}: {cause}. "
                "Leave ?quantize= out, or take another device."
            ) from error


def _linears(model: Any) -> Iterator[Any]:
    """Return the layers of the language model that quantisation replaces."""
    return (each for each in model.get_decoder().modules() if isinstance(each, torch.nn.Linear))


WEIGHTS = "adapter_model.safetensors"
PEFT = "0.21"  # Earlier ones import what an adapter names
LAYER = re.compile(r"(?:base_model\.model\.)?(.*)\.lora_.*")
PLAIN = "megatron.core"  # What peft writes for an adapter without Megatron


def check_adapter(folder: Path) -> str:
    """Return an adapter's base, a hub id or folder; raise `CheckpointError`."""
    title, said = folder_title(folder), read_json(folder / ADAPTER)
    refuse(title, _adapter_faults(folder, said))
    refuse(title, _costs(folder, said))
    base = str(said["base_model_name_or_path"])
    for path in (os.path.expanduser(base), os.path.join(folder, base)):  # noqa: PTH111, PTH118 - never raise
        if os.path.isdir(path):  # noqa: PTH112
            return path
    if not HUB_ID.fullmatch(base):
        raise CheckpointError(
            f"The base model of {title} is not here: put it where {ADAPTER} says "
            f"({Path(base).name}), or correct base_model_name_or_path there."
        )
    return base


def _adapter_faults(folder: Path, said: dict[str, Any]) -> Iterator[str]:
    kind, base = said.get("peft_type"), said.get("base_model_name_or_path")
    if kind != "LORA":
        yield (
            f"is an adapter of the kind {str(kind)[:40]!r}: only LORA is read. "
            "Merge it into its base model first."
        )
    if not (folder / WEIGHTS).is_file():
        yield (
            f"has no {WEIGHTS}: an adapter is read from safetensors alone, "
            "since other files can run code."
        )
    if find_spec("peft") is None or Version(version("peft")) < Version(PEFT):
        yield f"is an adapter, which takes peft {PEFT}: run pip install -e '.[quantize]'."
    if not isinstance(base, str) or not base:
        yield f"does not name its base model in {ADAPTER}."


def _costs(folder: Path, said: dict[str, Any]) -> Iterator[str]:
    """Yield non-finite weights, and what costs before peft looks at them.

    A rank beyond theirs takes memory, a pattern time, and Megatron imports.
    """
    shapes = tensor_shapes(folder / WEIGHTS)
    most = max((shape[0] for name, shape in shapes.items() if "lora_A" in name), default=0)
    patterns: list[Any] = [said.get(f"{name}_pattern") or {} for name in ("rank", "alpha")]
    if not all(isinstance(each, dict) for each in patterns):
        yield f"is damaged: {ADAPTER} cannot be read."
    if said.get("megatron_config") or said.get("megatron_core", PLAIN) not in (None, PLAIN):
        yield "is an adapter for Megatron, which is not read."
    ranks = [said.get("r"), *patterns[0].values()]
    if not all(type(rank) is int and 0 < rank <= most for rank in ranks):
        yield f"is damaged: {ADAPTER} asks for ranks that no weight has."
    if not all(re.fullmatch(r"[\w.]+", key) for each in patterns for key in each):
        yield f"names layers by patterns in {ADAPTER}: write their names, or {{}}."
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - no mapping
            if not torch.isfinite(file.get_tensor(name)).all():
                yield f"is damaged: {name[:200]} holds values that are no numbers."


def with_adapter(model: Any, folder: Path, *, merge: bool) -> Any:
    """Return the model with the adapter in it.

    The adapter is merged, or stays beside quantised weights, which a merge would round. Raises
    `CheckpointError` if the adapter belongs to another model.
    """
    from peft import PeftConfig, PeftModel

    shapes = tensor_shapes(folder / WEIGHTS)
    other = f"{folder_title(folder)} does not belong to its base model:"
    try:
        with warnings.catch_warnings(action="ignore"):  # peft uses deprecated transformers names
            config: Any = PeftConfig.from_pretrained(folder)
            # The layers that have weights: what is written may be a pattern that takes for ever
            config.target_modules = {LAYER.sub(r"\1", name) for name in shapes}
            config.exclude_modules = config.layers_pattern = config.layers_to_transform = None
            adapted = PeftModel.from_pretrained(model, folder, config=config)
    except Exception as error:
        raise CheckpointError(f"{other} {' '.join(str(error).split())[:200]}") from error
    placed = sum("lora_" in name for name, _ in adapted.named_parameters())
    if placed != len(shapes):
        raise CheckpointError(f"{other} {placed} of its {len(shapes)} tensors have a place there.")
    return adapted.merge_and_unload() if merge else adapted.get_base_model()
