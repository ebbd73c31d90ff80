"""A measure of a function's own time that other processes do not spoil."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_seconds(most: float, run: Callable[[], T]) -> T:
    """What run() gives; the quickest of ten must take at most so much of the processor, for neighbours cost time too."""
    for _ in range(10):
        start = time.process_time()
        result = run()
        if time.process_time() - start <= most:
            return result
    raise AssertionError(f"Ten times slower than {most:g} s.")
