"""Limits of one clip.

The parent enforces wall time. The worker limits its own memory and processor time before it opens
a file.
"""

import contextlib
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.errors import VideoError

if sys.platform != "win32":
    import resource


@dataclass(frozen=True, slots=True)
class Limits:
    """Resources that one clip may use.

    A clip that passes a limit fails with `VideoError` or `DecoderDied`, so the server never hangs.
    """

    cpu_seconds: float = 20.0  # Processor time for opening, and again for each later request
    wall_seconds: float = 120.0  # Wall time for the same; longer, for busy machines
    memory_bytes: int = 1_400_000_000  # Resident memory of the worker process
    side: int = 8192  # Pixels per side that a header may declare
    pixels: int = 40_000_000  # Pixels per frame that a header may declare (8K is 33 million)


class CpuBudget:
    """Processor time left for the current request, checked while decoding."""

    def __init__(self, name: str, limits: Limits) -> None:
        self.name = name  # of the file, for error messages
        self.limits = limits
        self.restart()

    def restart(self) -> None:
        """Grant a new request the whole time again.

        The kernel's own limit moves along, to 5 s after ours.
        """
        self._end = time.process_time() + self.limits.cpu_seconds
        if sys.platform != "win32":
            _limit(resource.RLIMIT_CPU, int(self._end) + 5)

    @property
    def is_spent(self) -> bool:
        """Whether the time is used up."""
        return time.process_time() > self._end

    @property
    def nearly_spent(self) -> bool:
        """Whether four fifths of the time are used up."""
        return time.process_time() > self._end - 0.2 * self.limits.cpu_seconds

    def check(self) -> None:
        """Raise `VideoError` if the time is used up."""
        if self.is_spent:
            raise VideoError(
                f"{self.name} needs more than {self.limits.cpu_seconds:g} s of processor time to "
                "decode: cut it shorter, make it smaller, or store it as MP4 with more key frames."
            )


def confine_process(limits: Limits) -> None:
    """Limit memory; forbid core dumps and file writes (not on Windows)."""
    if sys.platform == "win32":
        return
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    # Loaded libraries reserve address space that they never use, so it is added to the limit.
    reserved = 1 << 32
    with contextlib.suppress(OSError, ValueError):
        size, resident = map(int, Path("/proc/self/statm").read_text().split()[:2])
        reserved = (size - resident) * resource.getpagesize()
    _limit(resource.RLIMIT_AS, limits.memory_bytes + reserved)


def near_memory_limit() -> bool:
    """Return whether this process came close to its memory limit.

    Decoders often report exhausted memory as a damaged file.
    """
    if sys.platform == "win32":
        return False
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        peak = next(line for line in lines if line.startswith("VmPeak"))
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        close = int(peak.split()[1]) * 1024 + (64 << 20) > limit
        return limit != resource.RLIM_INFINITY and close
    return False


def _limit(kind: int, value: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))
