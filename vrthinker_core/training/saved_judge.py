"""A trained model saved as a checkpoint that the product opens: the files of the one it came from with new weights, sealed anew."""

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

SMALL_SHARDS = "8MB"  # Of a model of less than SMALL_BYTES: small enough for any repository
LARGE_SHARDS = "4GB"
SMALL_BYTES = 100 * 2**20


def save_judge(
    model: Qwen2_5_VLForConditionalGeneration,
    source: str,
    out: Path,
    learnt: Sequence[ProtocolName] = (),
) -> None:
    """Write the model into the folder `out`, beside copies of the other files of `source`, a folder or hub id.

    Weights get the number type they have in `source`. Where that names no protocol, the marker names those that were `learnt`.

    Raises OSError.
    """
    folder = locate(source)
    weights = _cast(model.state_dict(), stored_dtype(folder))
    size = sum(value.nbytes for value in weights.values())
    model.save_pretrained(
        out, state_dict=weights, max_shard_size=SMALL_SHARDS if size < SMALL_BYTES else LARGE_SHARDS
    )
    for path in (path for pattern in DOWNLOAD_PATTERNS for path in folder.glob(pattern)):
        if (
            path.suffix != ".safetensors"
            and not path.name.endswith(".index.json")
            and path.name != MARKER
        ):
            shutil.copyfile(path, out / path.name)
    protocols = read_marker(folder, source).protocols or learnt
    seal(out, {**read_marker_file(folder), "protocol": list(protocols)})


def _cast(state: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The weights in `dtype`; those that share their memory go on sharing it, so that tied weights are written once."""
    done: dict[int, torch.Tensor] = {}
    return {
        name: done.setdefault(value.data_ptr(), value.detach().to("cpu", dtype))
        for name, value in state.items()
    }


def stored_dtype(folder: Path) -> torch.dtype:
    """The number type of the first tensor of a checkpoint."""
    with safe_open(weight_files(folder)[0], framework="pt") as file:
        tensor: torch.Tensor = file.get_tensor(next(iter(file.keys())))
        return tensor.dtype
