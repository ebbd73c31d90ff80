"""How much memory a way of doing things takes, beside another way in the same process."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


class PeakMemory:
    """Megabytes beyond what was there before, over all turns of one way: of the GPU where one is used, else resident ones.

    Without a GPU, Linux alone tells them; elsewhere they are 0.
    """

    def __init__(self) -> None:
        self._held = 0.0
        self._peak = 0.0

    @property
    def peak_mb(self) -> int:
        """The most at any time; what the way holds between its turns is part of it."""
        return round(self._peak)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """What happens inside is this way's own."""
        _begin()
        before, _ = _now()
        try:
            yield
        finally:
            after, most = _now()
            self._peak = max(self._peak, self._held + most - before)
            self._held += after - before


def _begin() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    elif _RESET.exists():
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)  # what the other way has freed is not to be had for nothing
        _RESET.write_text("5")


def _now() -> tuple[float, float]:
    """Now, and the most since `_begin`."""
    if torch.cuda.is_available():
        return torch.cuda.memory_allocated() / 1e6, torch.cuda.max_memory_allocated() / 1e6
    if not _STATUS.exists():
        return 0.0, 0.0
    fields = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
    resident, most = (int(fields[name].split()[0]) / 1000 for name in ("VmRSS", "VmHWM"))
    return resident, most
