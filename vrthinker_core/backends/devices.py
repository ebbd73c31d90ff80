"""The device a model runs on: choice, free memory, out-of-memory errors."""

import errno
import os

import torch

from vrthinker_core.errors import CheckpointError
from vrthinker_core.system import cpu_count, free_memory


def best_device() -> str:
    """Return the best device of this machine: "cuda", "mps", "xpu" or "cpu"."""
    return next((each for each in ("cuda", "mps", "xpu") if _is_there(each)), "cpu")


def check_device(device: str) -> None:
    """Raise `CheckpointError` if this machine lacks the device."""
    kind, _, number = device.partition(":")
    counted = getattr(torch, kind, None)
    if kind == "cpu" or (_is_there(kind) and int(number or 0) < counted.device_count()):  # type: ignore[union-attr]
        return
    raise CheckpointError(
        f"This machine has no device {device}, or torch cannot use it: "
        f"leave ?device= out, or choose {best_device()}."
    )


def _is_there(kind: str) -> bool:
    if kind == "mps":
        return torch.backends.mps.is_available()
    return bool(getattr(torch, kind).is_available())


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the device ran out of memory.

    Torch also raises a plain `RuntimeError`, which only its words tell: on a CPU, and if CUDA or a
    CUDA library found no room outside torch's own allocator.
    """
    words = (
        "DefaultCPUAllocator",
        "MPS backend out of memory",
        "CUDA error: out of memory",
        "STATUS_ALLOC_FAILED",
        os.strerror(errno.ENOMEM),
    )
    told = any(each in str(error) for each in words)
    return told or isinstance(error, MemoryError | torch.OutOfMemoryError)


def available_memory(device: str) -> int | None:
    """Return the free bytes of a device, None if unknown.

    `device` is "cpu", "mps", "cuda" for all GPUs, "cuda:1" or "xpu".
    """
    if device.startswith("cuda"):
        try:
            gpus = range(torch.cuda.device_count())
            chosen = gpus if device == "cuda" else [torch.device(device).index]
            return sum(int(torch.cuda.mem_get_info(each)[0]) for each in chosen)
        except (RuntimeError, AssertionError, AttributeError, TypeError, ValueError):
            return None
    if device.startswith("xpu"):
        return int(torch.xpu.mem_get_info(torch.device(device))[0])
    free = free_memory()
    # An Apple GPU shares the machine's memory; macOS lends a part of it to the GPU
    return min(free, int(torch.mps.recommended_max_memory())) if device == "mps" else free


def limit_threads(threads: int | None) -> None:
    """Set torch's thread count in the calling thread; None leaves it.

    Call it before each forward: any forward may run in another thread. The threads of a small
    model's small matrices wait for one another: on a busy machine two threads were many times
    slower than one.
    """
    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def parallelism(threads: int | None) -> int:
    """Return the number of computations to run in parallel.

    A model that is limited to one thread runs one computation a CPU, because such computations
    never wait for one another. Any other model runs one: it uses all CPUs for each computation.
    """
    return cpu_count() if threads == 1 else 1
