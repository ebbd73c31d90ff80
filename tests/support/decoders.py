"""The processes that decode for this one, and how a test halts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil


def decoders() -> list[psutil.Process]:
    """The processes that decode for this one."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "vrthinker_core.video.fork_server" in " ".join(process.cmdline()):
                found.append(process)
    return found


@contextmanager
def halting_decoders() -> Iterator[Callable[[], list[psutil.Process]]]:
    """Gives the function that halts them, and gives them; they go on at the end of the block."""
    halted: list[psutil.Process] = []

    def halt() -> list[psutil.Process]:
        found = decoders()
        for process in found:
            process.suspend()
            halted.append(process)
        return found

    try:
        yield halt
    finally:
        for process in halted:
            with suppress(psutil.NoSuchProcess):
                process.resume()
