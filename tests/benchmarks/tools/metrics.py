"""What is measured of a server, and of many clients at once."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import psutil

from tests.benchmarks.tools.page_client import ObservedRun, PageClient
from tests.ui.conftest import Server, write_script

TIMEOUT = 240.0
"""Seconds after which a run counts as lost."""

Result = TypeVar("Result")
Figures = dict[str, Any]
Promises = dict[str, bool]


# -- the server ----------------------------------------------------------------------------------------------------------


@contextmanager
def scripted_server(
    folder: Path, replies: Sequence[str], pause: float, *options: str
) -> Iterator[Server]:
    """The page with a scripted judge; its temporary files go below `server.folder`."""
    home = folder / "server"
    home.mkdir()
    script = write_script(folder / "script.jsonl", replies, protocol="paired", pause=pause)
    with closing(Server(home, script, *options)) as server:
        yield server


def process_tree(server: Server) -> list[psutil.Process]:
    """The server's process and all below it."""
    parent = psutil.Process(server.process.pid)
    return [parent, *parent.children(recursive=True)]


def resident_mb(server: Server) -> float:
    """Resident memory of the process tree in megabytes; a page that processes share is counted for each of them."""
    total = 0
    for process in process_tree(server):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return round(total / 1e6, 1)


class PeakUsage:
    """The most processes beside the server's own, and the most resident memory of all, at any time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.processes = 0
        self.megabytes = 0.0

    async def sample(self) -> None:
        """Sample twice a second, until cancelled."""
        while True:
            self.processes = max(self.processes, len(process_tree(self._server)) - 1)
            self.megabytes = max(self.megabytes, resident_mb(self._server))
            await asyncio.sleep(0.5)


# -- the clients ---------------------------------------------------------------------------------------------------------


async def with_timeout(coroutine: Coroutine[Any, Any, Result]) -> Result | None:
    """The coroutine's result; None when there is none after `TIMEOUT`."""
    try:
        return await asyncio.wait_for(coroutine, TIMEOUT)
    except TimeoutError:
        return None


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, Result]]) -> list[Result | None]:
    """Run all at once; None for each that timed out."""
    return list(await asyncio.gather(*map(with_timeout, coroutines)))


async def compare_at_once(
    clients: Sequence[PageClient], clips: tuple[Path, Path]
) -> list[ObservedRun | None]:
    """Let visitors press Compare in the same moment, with the same videos."""
    files = await clients[0].open_with_clips(clips)
    for client in clients[1:]:
        await client.open()
    named = enumerate(clients)
    runs = await gather_all(client.compare(files, f"Visitor {n}.") for n, client in named)
    await asyncio.gather(*(client.close() for client in clients))
    return runs


def percentiles(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    """`name_median`, `name_p95` (nearest rank) and `name_max`; None values rank last, so a percentile that falls on one is None."""
    known = sorted(value for value in values if value is not None)
    found = {}
    for label, percent in (("median", 50), ("p95", 95), ("max", 100)):
        rank = max(0, -(-len(values) * percent // 100) - 1)
        found[f"{name}_{label}"] = round(known[rank], 2) if rank < len(known) else None
    return found


def run_parts(
    parts: Mapping[str, Callable[[Path], tuple[Figures, Promises]]], quick: bool
) -> NoReturn:
    """Run each part in a folder of its own, and say which promises are kept; status 1 when the full run found one broken."""
    result, promises = Figures(), Promises()
    for name, run in parts.items():
        with tempfile.TemporaryDirectory() as folder:
            result[name], kept = run(Path(folder))
            promises |= kept
    for promise, is_kept in promises.items():
        print(f"{'kept  ' if is_kept else 'BROKEN'}  {promise}")
    print(json.dumps({"quick": quick, "parts": result, "promises": promises}))
    sys.exit(0 if quick or all(promises.values()) else 1)
