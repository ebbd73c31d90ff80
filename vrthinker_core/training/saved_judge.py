"""A trained model saved as a checkpoint: the files of its source with new weights, sealed anew."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.checkpoint_files import (
    DOWNLOAD_PATTERNS,
    MARKER,
    locate,
    read_marker,
    read_marker_file,
    seal,
    weight_files,
)
from vrthinker_core.types import ProtocolName


def save_judge(
    model: Qwen2_5_VLForConditionalGeneration,
    source: str,
    out: Path,
    learnt: Sequence[ProtocolName] = (),
) -> None:
    """Write the model into `out`, beside copies of the other files of `source`, a folder or hub id.

    Weights get the number type they have in `source`. If that names no protocol, the marker names
    those that were `learnt`. Raises OSError.
    """
    folder = locate(source)
    dtype = stored_dtype(folder)
    # Tied weights go on sharing their memory, so that they are written once
    done: dict[int, torch.Tensor] = {}
    weights = {
        name: done.setdefault(value.data_ptr(), value.detach().to("cpu", dtype))
        for name, value in model.state_dict().items()
    }
    small = sum(value.nbytes for value in weights.values()) < 100 * 2**20
    # Shards that are small enough for any repository
    model.save_pretrained(out, state_dict=weights, max_shard_size="8MB" if small else "4GB")
    for path in (path for pattern in DOWNLOAD_PATTERNS for path in folder.glob(pattern)):
        if not path.name.endswith((".safetensors", ".index.json")) and path.name != MARKER:
            shutil.copyfile(path, out / path.name)
    protocols = read_marker(folder, source).protocols or learnt
    seal(out, {**read_marker_file(folder), "protocol": list(protocols)})


def stored_dtype(folder: Path) -> torch.dtype:
    """The number type of the first tensor of a checkpoint."""
    with safe_open(weight_files(folder)[0], framework="pt") as file:
        tensor: torch.Tensor = file.get_tensor(next(iter(file.keys())))
        return tensor.dtype
