"""What a model may run on: whether there is a CUDA device, and how much memory is free, asked before anything is loaded."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from vrthinker_core.errors import CheckpointError

MEMORY_MARGIN = 1.15
"""Loading and speaking take some memory beyond the weights."""


def require_memory(weights: int, available: int | None, where: str) -> None:
    """Raises CheckpointError when `weights` bytes and what comes with them do not fit into `available` (None: not known)."""
    needed = int(weights * MEMORY_MARGIN)
    if available is not None and needed > available:
        place = "memory" if where == "cpu" else f"memory of {where}"
        raise CheckpointError(
            f"This judge needs {needed / 2**30:.1f} GiB, but only {available / 2**30:.1f} GiB of {place} are free: "
            "close other programs, take a larger machine, or choose the built-in judge."
        )


def available_memory(where: str) -> int | None:
    """Bytes that are free on a device ("cpu", "cuda", "cuda:1"), None where that cannot be told."""
    if where.startswith("cuda"):
        return _cuda_memory(where)
    known = [n for n in (_system_memory(), _cgroup_memory()) if n is not None]
    return min(known) if where == "cpu" and known else None


def _cuda_memory(where: str) -> int | None:
    try:
        devices = range(torch.cuda.device_count()) if where == "cuda" else [torch.device(where).index]
        return sum(int(torch.cuda.mem_get_info(device)[0]) for device in devices)
    except (RuntimeError, AssertionError, AttributeError, TypeError, ValueError):
        return None


def _system_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _cgroup_memory() -> int | None:
    """What a control group leaves, where one sets a limit. Cached file pages count as free: they are given back on demand."""
    root = Path("/sys/fs/cgroup")
    try:
        limit = int((root / "memory.max").read_text(encoding="ascii"))
        used = int((root / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (root / "memory.stat").read_text(encoding="ascii").splitlines())
    except (OSError, ValueError):
        return None
    return max(0, limit - used + int(stat.get("inactive_file", 0)))


def has_cuda() -> bool:
    """A CUDA device can be used here."""
    return torch.cuda.is_available()
