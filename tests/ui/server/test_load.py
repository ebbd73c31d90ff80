"""Many visitors at once, on a small scale; `python -m tests.benchmarks.load` does the same on a large one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.tools.api_client import Told, call
from tests.benchmarks.tools.http_client import Web
from tests.benchmarks.tools.metrics import family, files_below, most_together, played
from tests.benchmarks.tools.numbered_clips import strangers, write_pair
from tests.benchmarks.tools.page_client import Seen, Site, Visitor
from tests.ui.conftest import Server
from tests.ui.support.saved_examples import ANSWER, ask
from vrthinker_core.ui.view import words

CROWD = 8


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    replies = [reply.replace("<Think>", "<Think>" + "It glides. " * 20) for reply in (ask(10, 60), ANSWER)]
    return serve(replies, "--at-once", str(CROWD), "--waiting", str(CROWD), protocol="paired", pause=0.01)


@pytest.fixture(scope="module")
def endless(serve: Callable[..., Server]) -> Server:
    return serve(["<Think>" + "on and on and on " * 20_000], "--waiting", "1", protocol="paired", pause=0.01)


async def soon(ready: Callable[[], object], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "it never came"
        await asyncio.sleep(0.02)


def test_all_are_streamed_to_at_once_and_none_sees_anything_of_another(server: Server, tmp_path: Path) -> None:
    async def crowd() -> list[Seen]:
        site = await Site.open(server.url)
        visitors = [Visitor(site) for _ in range(CROWD)]
        files = [await visitor.arrive(write_pair(tmp_path, number)) for number, visitor in enumerate(visitors)]
        runs = [
            visitor.compare(both, f"Prompt {number}.") for number, (visitor, both) in enumerate(zip(visitors, files, strict=True))
        ]
        seen = list(await asyncio.gather(*runs))
        for number, (visitor, run) in enumerate(zip(visitors, seen, strict=True)):
            assert run.whole
            assert run.prompts == {f"Prompt {number}."}
            assert len(run.pictures) > 1
            assert strangers(await visitor.saved(run), run.pictures, number, f"Prompt {number}.") == []
            await visitor.leave()
        return seen

    seen = played(crowd())
    assert most_together(seen) > 1
    assert all(run.first is not None and run.first <= 3 for run in seen), "the first update comes within three seconds"


def test_one_too_many_is_told_within_a_second(endless: Server, tmp_path: Path) -> None:
    async def three() -> tuple[Seen, Seen]:
        site = await Site.open(endless.url)
        host, other, late = (Visitor(site) for _ in range(3))
        both = await host.arrive(write_pair(tmp_path, 0))
        await asyncio.gather(other.come(), late.come())
        judged, waiting = Seen(), Seen()
        running = asyncio.create_task(host.compare(both, "First.", judged))
        await soon(lambda: judged.trace.get("turns"))
        queued = asyncio.create_task(other.compare(both, "Second.", waiting))
        await soon(lambda: waiting.status == words.WAITING)
        told = await asyncio.wait_for(late.compare(both, "Third."), 5)
        assert not waiting.trace
        for task in (running, queued):
            task.cancel()
        await asyncio.gather(running, queued, return_exceptions=True)
        await asyncio.gather(*(visitor.leave() for visitor in (host, other, late)))
        return told, judged

    told, judged = played(three())
    assert told.busy
    assert not told.trace
    assert told.over <= 1
    assert judged.first is not None


def test_programs_too_many_are_told_within_a_second(endless: Server, tmp_path: Path) -> None:
    async def six() -> list[Told]:
        web = Web(endless.url)
        paths = [await web.upload(clip) for clip in write_pair(tmp_path, 0)]
        calls = [asyncio.create_task(call(web, paths, f"Call {number}.")) for number in range(6)]
        done, waiting = await asyncio.wait(calls, timeout=1.5)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert waiting, "some are judged, or wait"
        return [task.result() for task in done]

    told = played(six())
    assert told
    assert all(answer.busy and answer.over <= 1 for answer in told)


def test_nothing_is_left_of_runs_that_are_over(server: Server, tmp_path: Path) -> None:
    async def five() -> None:
        site = await Site.open(server.url)
        host = Visitor(site)
        both = await host.arrive(write_pair(tmp_path, 0))
        files, processes = files_below(server.folder), {process.pid for process in family(server)}
        visitors = [Visitor(site) for _ in range(5)]
        await asyncio.gather(*(visitor.come() for visitor in visitors))
        runs = await asyncio.gather(*(visitor.compare(both, "A block glides.") for visitor in visitors))
        assert all(one.whole for one in runs)
        assert files_below(server.folder) > files
        await asyncio.gather(*(visitor.leave() for visitor in visitors))
        await soon(lambda: files_below(server.folder) == files)
        await soon(lambda: {process.pid for process in family(server)} == processes)
        await host.leave()

    played(five())
