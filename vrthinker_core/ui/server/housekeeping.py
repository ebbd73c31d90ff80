"""Housekeeping: what a server does every half minute, whether or not anybody visits."""

import ctypes
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

SECONDS = 30.0


class Housekeeping:
    """Calls every task once each `seconds`, in a thread of its own, until `stop`."""

    def __init__(self, *tasks: Callable[[], object], seconds: float = SECONDS) -> None:
        self._tasks = tasks
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="housekeeping", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Call no task any more, and wait for one that is going on."""
        self._stopped.set()
        self._thread.join(10)

    def _work(self) -> None:
        while not self._stopped.wait(self._seconds):
            for task in self._tasks:
                try:
                    task()
                except Exception as error:  # noqa: BLE001 - outermost in the thread: the other tasks go on
                    logging.getLogger(__name__).warning(
                        "Housekeeping: %s could not be done: %s", task, error
                    )


def give_back_memory() -> None:
    """Give the memory of what was dropped back to the system, where the C library has a call for it: glibc keeps it otherwise."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
