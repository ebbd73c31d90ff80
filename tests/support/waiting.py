"""How long a test waits for what must come: a machine with too much to do may take long over it.

A wait costs nothing once it has what it waits for, however long it might have lasted. A test that measures names its own limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 40.0
"""Seconds; what does not come within them does not come at all."""
PATIENCE_MS = 1000 * PATIENCE_S
"""The same for a browser."""


def until(ready: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Returns as soon as `ready` is true; fails the test after so many seconds."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.005)


def until_equal(read: Callable[[], object], expected: object) -> None:
    """Returns as soon as what is read is what is expected; fails the test, and says what was read last, after `PATIENCE_S`."""
    end = time.monotonic() + PATIENCE_S
    while (found := read()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    assert found == expected, f"{found!r} instead of {expected!r}"
