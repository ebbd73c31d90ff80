"""What is measured of a server and of a crowd on it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil

from tests.benchmarks.tools.page_client import ObservedRun
from tests.ui.conftest import Server, write_script

TIMEOUT = 240.0
"""Seconds after which nobody waits any longer."""

Result = TypeVar("Result")


@contextmanager
def scripted_server(folder: Path, replies: Sequence[str], pause: float, *options: str) -> Iterator[Server]:
    """The page with a scripted judge; its temporary files go below `server.folder`."""
    home = folder / "server"
    home.mkdir()
    server = Server(home, write_script(folder / "script.jsonl", replies, protocol="paired", pause=pause), *options)
    try:
        yield server
    finally:
        server.stop()


# -- the server ----------------------------------------------------------------------------------------------------------


def process_tree(server: Server) -> list[psutil.Process]:
    """The server and all its processes."""
    parent = psutil.Process(server.process.pid)
    return [parent, *parent.children(recursive=True)]


def resident_mb(server: Server) -> float:
    """Resident memory of all of them in megabytes; what they share is counted for each."""
    total = 0
    for process in process_tree(server):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return round(total / 1e6, 1)


def list_files(folder: Path) -> set[Path]:
    """Every file; folders may vanish meanwhile."""
    return {Path(place, name) for place, _, names in os.walk(folder) for name in names}


class PeakUsage:
    """The most processes and memory at any time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.processes = 0
        self.megabytes = 0.0

    async def sample(self) -> None:
        """Look twice a second, until cancelled."""
        while True:
            self.processes = max(self.processes, len(process_tree(self._server)) - 1)
            self.megabytes = max(self.megabytes, resident_mb(self._server))
            await asyncio.sleep(0.5)


# -- the crowd -----------------------------------------------------------------------------------------------------------


class Outcome(Protocol):
    """What became of a comparison, for whoever asked for it."""

    @property
    def complete(self) -> bool: ...
    @property
    def busy(self) -> bool: ...
    @property
    def seconds(self) -> float: ...


def run_in_thread(doing: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`, in a thread of its own: a test's own thread may have a browser's loop running."""
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(asyncio.run, doing).result()


async def with_timeout(doing: Coroutine[Any, Any, Result]) -> Result | None:
    """What comes of it; None when nothing does."""
    try:
        return await asyncio.wait_for(doing, TIMEOUT)
    except TimeoutError:
        return None


async def gather_all(doing: Iterable[Coroutine[Any, Any, Result]]) -> list[Result | None]:
    """All at once; None for who got no answer."""
    return list(await asyncio.gather(*map(with_timeout, doing)))


def percentiles(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    """Median, 95th percentile (the value that 95 of 100 do not pass) and maximum; None where somebody who counts has no value."""
    found = sorted(value for value in values if value is not None)
    places = {"median": 50, "p95": 95, "max": 100}
    at = {word: max(0, -(-len(values) * percent // 100) - 1) for word, percent in places.items()}
    return {f"{name}_{word}": round(found[place], 2) if place < len(found) else None for word, place in at.items()}


def at_most(value: float | None, limit: float) -> bool:
    """Whether there is a value, and it keeps to its limit."""
    return value is not None and value <= limit


def max_concurrent(runs: Iterable[ObservedRun]) -> int:
    """How many runs at most were between their first frames and their end at the same time."""
    steps = [
        step for run in runs for step in ((run.started + (run.first_frames or run.seconds), 1), (run.started + run.seconds, -1))
    ]
    most = now = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most
