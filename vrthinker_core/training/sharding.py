"""What FSDP2 and DeepSpeed need of a Qwen2.5-VL beyond what accelerate and TRL do for it."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import parse_flag_from_env, patch_environment
from safetensors import safe_open
from torch.distributed.fsdp import FSDPModule
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from vrthinker_core.backends.checkpoint import Checkpoint, open_for_training
from vrthinker_core.backends.checkpoint_files import (
    DOWNLOAD_PATTERNS,
    MARKER,
    locate,
    read_marker,
    read_marker_file,
    seal,
    weight_files,
)
from vrthinker_core.errors import BadInput
from vrthinker_core.types import ProtocolName


def save_judge(
    model: Qwen2_5_VLForConditionalGeneration,
    source: str,
    out: Path,
    learnt: Sequence[ProtocolName] = (),
) -> None:
    """Write the model with the other files of `source`, a folder or hub id.

    Weights get the number type they have there. If `source` names no protocol, the marker names
    the `learnt` ones. Raises OSError.
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
    """Return the number type of a checkpoint's first tensor."""
    with safe_open(weight_files(folder)[0], framework="pt") as file:
        tensor: torch.Tensor = file.get_tensor(next(iter(file.keys())))
        return tensor.dtype


EFFICIENT_LOADING = "FSDP_CPU_RAM_EFFICIENT_LOADING"


def check_launch(*, adapters: bool = False) -> None:
    """Raise BadInput for a launch that cannot work."""
    if "LOCAL_RANK" not in os.environ and torch.cuda.device_count() > 1:
        raise BadInput(
            f"One process sees {torch.cuda.device_count()} GPUs and trains on one: start it with "
            "accelerate launch, or choose one with CUDA_VISIBLE_DEVICES=0."
        )
    if uses_fsdp() and os.environ.get("FSDP_VERSION") != "2":
        raise BadInput(
            "Weights are spread with FSDP2 alone: set fsdp_version to 2 in the configuration that "
            "is launched."
        )
    if adapters and is_sharded():
        raise BadInput(
            "Adapters stand beside a whole model: launch with data_parallel.yaml, or train all "
            "weights (grpo.lora=0)."
        )


def uses_fsdp() -> bool:
    """Return whether `accelerate launch` spreads weights with FSDP."""
    return bool(parse_flag_from_env("ACCELERATE_USE_FSDP"))


def is_sharded() -> bool:
    """Return whether each weight is spread over the processes, in whatever way."""
    return uses_fsdp() or bool(parse_flag_from_env("ACCELERATE_USE_DEEPSPEED"))


def launched_in_bf16() -> bool:
    """Return the launch's choice; DeepSpeed refuses a trainer that says otherwise."""
    return os.environ.get("ACCELERATE_MIXED_PRECISION") == "bf16"


def open_whole(checkpoint: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Open a whole checkpoint on the CPU, also if DeepSpeed is set up. Raises CheckpointError."""
    forget_deepspeed()
    return open_for_training(str(checkpoint), dtype)


def forget_deepspeed() -> None:
    """Let this process open whole models from now on."""
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]


@contextmanager
def heads_in_root() -> Iterator[None]:
    """With FSDP2, gather embedding and head with the model, not as own units.

    TRL multiplies hidden states by the head's weight and never calls the head, so the hooks of a
    unit of its own do not run: on a GPU the weights were NaN after the first step of GRPO (torch
    2.11, accelerate 1.15, TRL 1.16; torch 2.13 completes such units). accelerate asks a model for
    both before it is sharded, and makes no unit of what it is not told.
    """
    if not uses_fsdp():
        yield
        return

    def none_until_sharded(getter: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda model: getter(model) if isinstance(model, FSDPModule) else None

    model: Any = Qwen2_5_VLForConditionalGeneration
    heads = ("get_input_embeddings", "get_output_embeddings")
    stock = {name: getattr(model, name) for name in heads}
    for name, getter in stock.items():
        setattr(model, name, none_until_sharded(getter))
    try:
        yield
    finally:
        for name, getter in stock.items():
            setattr(model, name, getter)


def weights_in_every_process() -> AbstractContextManager[None]:
    """With FSDP, let every process read the weights: TRL sends no reference model's."""
    loading = {EFFICIENT_LOADING: "false"} if uses_fsdp() else {}
    made: AbstractContextManager[None] = patch_environment(**loading)
    return made
