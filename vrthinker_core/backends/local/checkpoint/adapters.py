"""LoRA adapters of peft: small matrices and a base model's name."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from vrthinker_core.backends.judge_name import HUB_ID, folder_title
from vrthinker_core.backends.local.checkpoint.checkpoint_files import (
    ADAPTER,
    read_json,
    tensor_shapes,
)
from vrthinker_core.errors import CheckpointError

WEIGHTS = "adapter_model.safetensors"


def base_of(folder: Path) -> str:
    """Return an adapter's base model: a hub id or a folder.

    Raises `CheckpointError` if the adapter cannot be used.
    """
    title, said = folder_title(folder), read_json(folder / ADAPTER)
    kind = said.get("peft_type")
    if kind != "LORA":
        raise CheckpointError(
            f"{title} is an adapter of the kind {str(kind)[:40]!r}: only LORA is read. "
            "Merge it into its base model first."
        )
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(
            f"{title} has no {WEIGHTS}: an adapter is read from safetensors alone, "
            "since other files can run code."
        )
    if find_spec("peft") is None:
        raise CheckpointError(
            f"{title} is an adapter, which takes peft: run pip install -e '.[quantize]'."
        )
    base = said.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise CheckpointError(f"{title} does not name its base model in {ADAPTER}.")
    for path in (Path(base).expanduser(), folder / base):
        if path.is_dir():
            return str(path)
    if not HUB_ID.fullmatch(base):
        raise CheckpointError(
            f"The base model of {title} is not here: "
            f"put it where {ADAPTER} says ({Path(base).name}), or correct "
            "base_model_name_or_path there."
        )
    return base


def check_adapter(folder: Path) -> None:
    """Raise `CheckpointError` if an adapter is damaged or has non-finite values."""
    tensor_shapes(folder / WEIGHTS)
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        for name in file.keys():  # noqa: SIM118 - no mapping
            if not torch.isfinite(file.get_tensor(name)).all():
                raise CheckpointError(
                    f"{folder_title(folder)} is damaged: "
                    f"{name[:200]} holds values that are no numbers."
                )


def with_adapter(model: Any, folder: Path, *, merge: bool) -> Any:
    """Return the model with the adapter in it.

    The adapter is merged, or stays beside quantised weights, which a merge would round. Raises
    `CheckpointError` if the adapter belongs to another model.
    """
    from peft import PeftModel

    title = folder_title(folder)
    stored = len(tensor_shapes(folder / WEIGHTS))
    try:
        with warnings.catch_warnings(action="ignore"):  # peft uses deprecated transformers names
            adapted = PeftModel.from_pretrained(model, folder)
    except Exception as error:
        raise CheckpointError(
            f"{title} does not belong to its base model: {' '.join(str(error).split())[:200]}"
        ) from error
    placed = sum("lora_" in name for name, _ in adapted.named_parameters())
    if placed != stored:
        raise CheckpointError(
            f"{title} does not belong to its base model: "
            f"{placed} of its {stored} tensors have a place there."
        )
    return adapted.merge_and_unload() if merge else adapted.get_base_model()
