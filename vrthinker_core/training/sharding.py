"""What FSDP2 and DeepSpeed need of a Qwen2.5-VL beyond what accelerate and TRL do for it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import parse_flag_from_env
from torch.distributed.fsdp import FSDPModule
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from vrthinker_core.backends.checkpoint import Checkpoint, open_for_training
from vrthinker_core.errors import BadInput

FSDP, DEEPSPEED = "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"  # What `accelerate launch` sets
EFFICIENT_LOADING = "FSDP_CPU_RAM_EFFICIENT_LOADING"
HEADS = ("get_input_embeddings", "get_output_embeddings")


def check_launch(*, adapters: bool = False) -> None:
    """Raise BadInput for what `accelerate launch` was told and cannot be done."""
    if "LOCAL_RANK" not in os.environ and torch.cuda.device_count() > 1:
        raise BadInput(
            f"One process sees {torch.cuda.device_count()} GPUs and trains on one: start it with accelerate launch, "
            "or choose one with CUDA_VISIBLE_DEVICES=0."
        )
    if uses_fsdp() and os.environ.get("FSDP_VERSION") != "2":
        raise BadInput(
            "Weights are spread with FSDP2 alone: set fsdp_version to 2 in the configuration that is launched."
        )
    if adapters and is_sharded():
        raise BadInput(
            "Adapters stand beside a whole model: launch with data_parallel.yaml, or train all weights (grpo.trl.lora=0)."
        )


def uses_fsdp() -> bool:
    """Whether `accelerate launch` was told to spread weights with FSDP."""
    return bool(parse_flag_from_env(FSDP))


def is_sharded() -> bool:
    """Whether it was told to spread each weight over the processes, in whatever way."""
    return uses_fsdp() or bool(parse_flag_from_env(DEEPSPEED))


def launched_in_bf16() -> bool:
    """Whether `accelerate launch` was told so: DeepSpeed refuses a trainer that says otherwise."""
    return os.environ.get("ACCELERATE_MIXED_PRECISION") == "bf16"


def open_whole(checkpoint: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Open a checkpoint on the CPU, whole: once a trainer has its arguments, DeepSpeed would spread every model as it is built.

    Raises CheckpointError.
    """
    forget_deepspeed()
    return open_for_training(str(checkpoint), dtype)


def forget_deepspeed() -> None:
    """What is opened from now on, in whichever process, is whole again."""
    unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]


@contextmanager
def heads_in_root() -> Iterator[None]:
    """With FSDP2, embedding and language model head are gathered with the model as a whole, not in units of their own.

    TRL multiplies hidden states by the head's weight and never calls the head, so the hooks of a unit of its own do not run: on a
    GPU the weights were NaN after the first step of GRPO (torch 2.11, accelerate 1.15, TRL 1.16; torch 2.13 completes such units).
    accelerate asks a model for both before it is sharded, and makes no unit of what it is not told.
    """
    if not uses_fsdp():
        yield
        return
    model: Any = Qwen2_5_VLForConditionalGeneration
    own = {name: vars(model)[name] for name in HEADS if name in vars(model)}
    for name in HEADS:
        setattr(model, name, _none_until_sharded(getattr(model, name)))
    try:
        yield
    finally:
        for name in HEADS:
            delattr(model, name)
        for name, getter in own.items():
            setattr(model, name, getter)


def _none_until_sharded(getter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda model: getter(model) if isinstance(model, FSDPModule) else None


@contextmanager
def weights_in_every_process() -> Iterator[None]:
    """With FSDP, every process reads the weights itself: TRL does not send those of a reference model from the first to the others.

    (Seen with transformers 5.17: the others compared with weights of no value.)
    """
    before = os.environ.get(EFFICIENT_LOADING)
    if uses_fsdp():
        os.environ[EFFICIENT_LOADING] = "false"
    try:
        yield
    finally:
        os.environ.pop(EFFICIENT_LOADING, None)
        if before is not None:
            os.environ[EFFICIENT_LOADING] = before
