"""How long a test waits for what must come: below a minute, beside a load of six, too.

A wait costs nothing once it has what it waits for. A test that measures names its own limit.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable

PATIENCE_S = 55.0
"""Seconds; what does not come within them does not come at all."""
PATIENCE_MS = 1000 * PATIENCE_S
"""The same for a browser."""


def until(ready: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Return as soon as `ready` is true; else fail the test and show `ready`."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"not within {seconds} s: {inspect.getsource(ready).strip()}"
        time.sleep(0.005)


def until_equal(read: Callable[[], object], expected: object) -> None:
    """Return as soon as what is read is expected; else fail the test and show it."""
    end = time.monotonic() + PATIENCE_S
    while (found := read()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    assert found == expected, f"{found!r} instead of {expected!r}"
