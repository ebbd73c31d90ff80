"""The device a model runs on: choice, free memory, out-of-memory errors, ZeroGPU.

Importing torch takes seconds, so each function does it for itself.
"""

import errno
import math
import os
import sys
from dataclasses import dataclass

from vrthinker_core.errors import CheckpointError
from vrthinker_core.protocols.paired import Paired
from vrthinker_core.system import cpu_count, free_memory, peak_memory
from vrthinker_core.types import Settings

GPU_FILES = ("nvidiactl", "nvmap", "dxg", "kfd", "dri")
"""What the drivers of GPUs put below /dev on Linux: NVIDIA, Tegra, WSL, AMD and Intel."""


def best_device() -> str:
    """Return the best device of this machine: "cuda", "mps", "xpu" or "cpu"."""
    drivers = any(os.path.exists(f"/dev/{name}") for name in GPU_FILES)  # noqa: PTH110
    if sys.platform == "linux" and not drivers and not borrows_gpu():
        return "cpu"  # Without asking torch
    return next((each for each in ("cuda", "mps", "xpu") if _is_there(each)), "cpu")


def check_device(device: str) -> None:
    """Raise `CheckpointError` if this machine lacks the device."""
    import torch

    kind, _, number = device.partition(":")
    counted = getattr(torch, kind, None)
    if kind == "cpu" or (_is_there(kind) and int(number or 0) < counted.device_count()):  # type: ignore[union-attr]
        return
    raise CheckpointError(
        f"This machine has no device {device}, or torch cannot use it: "
        f"leave ?device= out, or choose {best_device()}."
    )


def _is_there(kind: str) -> bool:
    import torch

    if kind == "mps":
        return torch.backends.mps.is_available()
    return bool(getattr(torch, kind).is_available())


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the device ran out of memory.

    Torch also raises a plain `RuntimeError`, which only its words tell: on a CPU, and if CUDA or a
    CUDA library found no room outside torch's own allocator.
    """
    import torch

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
    if not device.startswith(("cuda", "xpu", "mps")):
        return free_memory()
    import torch

    if device.startswith("cuda"):
        try:
            gpus = range(torch.cuda.device_count())
            chosen = gpus if device == "cuda" else [torch.device(device).index]
            return sum(int(torch.cuda.mem_get_info(each)[0]) for each in chosen)
        except (RuntimeError, AssertionError, AttributeError, TypeError, ValueError):
            return None
    if device.startswith("xpu"):
        return int(torch.xpu.mem_get_info(torch.device(device))[0])
    # An Apple GPU shares the machine's memory; macOS lends a part of it to the GPU
    return min(free_memory(), int(torch.mps.recommended_max_memory()))


@dataclass(frozen=True, slots=True)
class Needs:
    """The bytes that a judge takes on its device."""

    weights: int
    cache: int  # Keys and values of a long deliberation, 20,000 tokens

    @property
    def total(self) -> int:
        """Both, and a twentieth of the weights for a pass's intermediate values."""
        return int(1.05 * self.weights) + self.cache


def limit_threads(threads: int | None) -> None:
    """Set torch's thread count in the calling thread; None leaves it.

    Call it before each forward: any forward may run in another thread. The threads of a small
    model's small matrices wait for one another: on a busy machine two threads were many times
    slower than one.
    """
    import torch

    if threads is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def parallelism(threads: int | None) -> int:
    """Return the number of computations to run in parallel.

    A model that is limited to one thread runs one computation a CPU, because such computations
    never wait for one another. Any other model runs one: it uses all CPUs for each computation.
    """
    return cpu_count() if threads == 1 else 1


MAX_GPU_SECONDS = 75  # ZeroGPU refuses a run that needs more than a visitor's remaining quota


def borrows_gpu() -> bool:
    """Return whether this is a Space with ZeroGPU.

    ZeroGPU gives a GPU to the process of a run only. Elsewhere `spaces` imitates one, but only in
    the thread that imported `spaces`.
    """
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


def gpu_seconds(settings: Settings) -> int:
    """Return seconds for which a run asks for the GPU of ZeroGPU.

    Ten to start, then each turn 1 s to prefill and 25 tokens a second to decode. Both orders take
    twice as many turns.
    """
    turns = min(max(settings.max_turns or Paired.max_turns, 1), MAX_GPU_SECONDS)
    orders = 2 if settings.swap == "on" else 1
    seconds = 10 + orders * turns * (1 + min(settings.max_new_tokens, 300) / 25)
    return min(MAX_GPU_SECONDS, math.ceil(seconds))


def peak_memory_gb() -> float:
    """Return the most gigabytes that this process has held: on its GPUs, else of RAM."""
    torch = sys.modules.get("torch")  # If it was never imported, no model has used a GPU
    if torch is not None and torch.cuda.is_initialized():
        gpus = range(torch.cuda.device_count())
        return sum(int(torch.cuda.max_memory_reserved(each)) for each in gpus) / 1e9
    return peak_memory() / 1e9
