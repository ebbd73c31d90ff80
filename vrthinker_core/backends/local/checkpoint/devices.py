"""The device a model runs on: whether CUDA can be used, how much memory is free, and which errors mean that it ran out."""

import errno
import os
from contextlib import suppress

import psutil  # type: ignore[import-untyped]
import torch

from vrthinker_core.cpus import CGROUP
from vrthinker_core.errors import CheckpointError

MEMORY_MARGIN = (
    1.15  # Memory that a model takes, loading and generation included, as a multiple of its weights
)

_MEMORY_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)
"""By version of the control group, 2 and 1: limit, memory in use, and a table with its line for cached file pages."""


def has_cuda() -> bool:
    """A CUDA device can be used."""
    return torch.cuda.is_available()


def is_out_of_memory(error: BaseException) -> bool:
    """The device's memory did not suffice. Torch also raises a plain RuntimeError for it, which only its words tell:
    on a CPU, and where CUDA or a library of it found no room outside torch's own allocator.
    """
    words = (
        "DefaultCPUAllocator",
        "CUDA error: out of memory",
        "STATUS_ALLOC_FAILED",
        os.strerror(errno.ENOMEM),
    )
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        each in str(error) for each in words
    )


def require_memory(weight_bytes: int, available: int | None, device: str) -> None:
    """Raises CheckpointError when weights of that many bytes do not fit into `available` bytes (None: not known)."""
    needed = int(weight_bytes * MEMORY_MARGIN)
    if available is not None and needed > available:
        memory = "memory" if device == "cpu" else f"memory of {device}"
        raise CheckpointError(
            f"This judge needs {needed / 2**30:.1f} GiB, but only {available / 2**30:.1f} GiB of {memory} are free: "
            "close other programs, take a larger machine, or choose the built-in judge."
        )


def available_memory(device: str) -> int | None:
    """Free bytes of a device ("cpu", "cuda" for all GPUs, "cuda:1"), None where they are not known."""
    if device.startswith("cuda"):
        return _cuda_memory(device)
    if device != "cpu":
        return None
    system, group = int(psutil.virtual_memory().available), _cgroup_memory()
    return system if group is None else min(system, group)


def _cuda_memory(device: str) -> int | None:
    try:
        devices = (
            range(torch.cuda.device_count()) if device == "cuda" else [torch.device(device).index]
        )
        return sum(int(torch.cuda.mem_get_info(each)[0]) for each in devices)
    except (RuntimeError, AssertionError, AttributeError, TypeError, ValueError):
        return None


def _cgroup_memory() -> int | None:
    """Free bytes under the control group's limit, None without one. Cached file pages count as free: they are evicted on demand."""
    for limit, used, table, cached in _MEMORY_FILES:
        with suppress(OSError, ValueError):
            pages = dict(line.split() for line in (CGROUP / table).read_text("ascii").splitlines())
            allowed, taken = (int((CGROUP / name).read_text("ascii")) for name in (limit, used))
            return max(0, allowed - taken + int(pages.get(cached, 0)))
    return None
