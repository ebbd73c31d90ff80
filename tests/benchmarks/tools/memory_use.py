"""How much memory one way of doing things takes, when two of them alternate in one process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


class PeakMemory:
    """The most memory one way took, over all blocks it was measured in: GPU memory where there is a GPU, else resident memory.

    Without a GPU this reads Linux's /proc; elsewhere it is 0.
    """

    def __init__(self) -> None:
        self._held = 0.0
        self._peak = 0.0

    @property
    def peak_mb(self) -> int:
        """Megabytes at the peak; what was kept from one block to the next is part of it."""
        return round(self._peak)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """What is allocated inside this block counts, and nothing else."""
        _reset_peak()
        before, _ = _current_and_peak()
        try:
            yield
        finally:
            after, peak = _current_and_peak()
            self._peak = max(self._peak, self._held + peak - before)
            self._held += after - before


def _reset_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    elif _CLEAR_REFS.exists():
        with suppress(AttributeError):
            # Else pages that the other way has freed would be used and not counted
            ctypes.CDLL(None).malloc_trim(0)
        _CLEAR_REFS.write_text("5")


def _current_and_peak() -> tuple[float, float]:
    """Megabytes now, and at most since `_reset_peak`."""
    if torch.cuda.is_available():
        return torch.cuda.memory_allocated() / 1e6, torch.cuda.max_memory_allocated() / 1e6
    if not _STATUS.exists():
        return 0.0, 0.0
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
    resident, peak = (int(fields[name].split()[0]) / 1000 for name in ("VmRSS", "VmHWM"))
    return resident, peak
