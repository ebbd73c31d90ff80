"""Waiting inside an event handler for what nobody announces."""

import asyncio
from collections.abc import Callable

POLL_SECONDS = 0.03  # between two looks


async def wait_while(holds: Callable[[], object], seconds: float) -> None:
    """Until that does not hold any more, at most so many seconds."""
    for _ in range(round(seconds / POLL_SECONDS)):
        if not holds():
            return
        await asyncio.sleep(POLL_SECONDS)
