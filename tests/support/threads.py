"""Work in threads of its own, and which threads a test has started."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

Result = TypeVar("Result")


def run_in_thread(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` in another thread: where a browser is driven, the test's own thread has an event loop running already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


@contextmanager
def threads_started() -> Iterator[set[threading.Thread]]:
    """The threads that this one starts, and those that they start: threads of other tests may come and go meanwhile."""
    family, start = {threading.current_thread()}, threading.Thread.start
    started = set[threading.Thread]()

    def watched(thread: threading.Thread) -> None:
        if threading.current_thread() in family:
            family.add(thread)
            started.add(thread)
        start(thread)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", watched)
        yield started
