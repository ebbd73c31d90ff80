"""Several visitors at once; `python -m tests.benchmarks.load` does the same with many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks.tools.api_client import CompareResult, compare
from tests.benchmarks.tools.http_client import HttpClient
from tests.benchmarks.tools.metrics import list_files, max_concurrent, process_tree
from tests.benchmarks.tools.numbered_clips import foreign_content, write_pair
from tests.benchmarks.tools.page_client import ObservedRun, PageClient, PageConfig
from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Serve, Server
from tests.ui.support.saved_examples import ANSWER, ENDLESS, ask
from vrthinker_core.ui import words

CROWD = 8


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    replies = [
        reply.replace("<Think>", "<Think>" + "It glides. " * 20) for reply in (ask(10, 60), ANSWER)
    ]
    return serve(
        replies, "--at-once", str(CROWD), "--waiting", str(CROWD), protocol="paired", pause=0.01
    )


@pytest.fixture(scope="module")
def endless(serve: Serve) -> Server:
    return serve([ENDLESS], "--waiting", "1", protocol="paired", pause=0.01)


async def wait_until(ready: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not ready():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s"
        await asyncio.sleep(0.02)


def test_runs_stream_at_once_and_no_visitor_sees_anything_of_another(
    server: Server, tmp_path: Path
) -> None:
    async def crowd() -> list[ObservedRun]:
        site = await PageConfig.open(server.url)
        visitors = [PageClient(site) for _ in range(CROWD)]
        files = [
            await visitor.open_with_clips(write_pair(tmp_path, number))
            for number, visitor in enumerate(visitors)
        ]
        runs = [
            visitor.compare(both, f"Prompt {number}.")
            for number, (visitor, both) in enumerate(zip(visitors, files, strict=True))
        ]
        seen = list(await asyncio.gather(*runs))
        for number, (visitor, run) in enumerate(zip(visitors, seen, strict=True)):
            assert run.complete
            assert run.prompts == {f"Prompt {number}."}
            assert len(run.pictures) > 1
            assert (
                foreign_content(
                    await visitor.download_trace(run), run.pictures, number, f"Prompt {number}."
                )
                == []
            )
            await visitor.close()
        return seen

    seen = run_in_thread(crowd())
    assert max_concurrent(seen) > 1
    assert all(run.first_update is not None and run.first_update <= 3 for run in seen), (
        "the first update comes within three seconds"
    )


def test_a_visitor_too_many_is_told_busy_within_a_second(endless: Server, tmp_path: Path) -> None:
    async def three() -> tuple[ObservedRun, ObservedRun]:
        site = await PageConfig.open(endless.url)
        host, other, late = (PageClient(site) for _ in range(3))
        both = await host.open_with_clips(write_pair(tmp_path, 0))
        await asyncio.gather(other.open(), late.open())
        judged, waiting = ObservedRun(), ObservedRun()
        running = asyncio.create_task(host.compare(both, "First.", judged))
        await wait_until(lambda: judged.trace.get("turns"))
        queued = asyncio.create_task(other.compare(both, "Second.", waiting))
        await wait_until(lambda: waiting.status == words.WAITING)
        refused = await asyncio.wait_for(late.compare(both, "Third."), 5)
        assert not waiting.trace
        for task in (running, queued):
            task.cancel()
        await asyncio.gather(running, queued, return_exceptions=True)
        await asyncio.gather(*(visitor.close() for visitor in (host, other, late)))
        return refused, judged

    refused, judged = run_in_thread(three())
    assert refused.busy
    assert not refused.trace
    assert refused.seconds <= 1
    assert judged.first_update is not None


def test_programs_too_many_are_told_busy_within_a_second(endless: Server, tmp_path: Path) -> None:
    async def six() -> list[CompareResult]:
        web = HttpClient(endless.url)
        paths = [await web.upload(clip) for clip in write_pair(tmp_path, 0)]
        calls = [asyncio.create_task(compare(web, paths, f"Call {number}.")) for number in range(6)]
        done, waiting = await asyncio.wait(calls, timeout=1.5)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert waiting, "some are judged, or wait"
        return [task.result() for task in done]

    refused = run_in_thread(six())
    assert refused
    assert all(answer.busy and answer.seconds <= 1 for answer in refused)


def test_no_file_and_no_process_is_left_of_runs_that_are_over(
    server: Server, tmp_path: Path
) -> None:
    async def five() -> None:
        site = await PageConfig.open(server.url)
        host = PageClient(site)
        both = await host.open_with_clips(write_pair(tmp_path, 0))
        files, processes = (
            list_files(server.folder),
            {process.pid for process in process_tree(server)},
        )
        visitors = [PageClient(site) for _ in range(5)]
        await asyncio.gather(*(visitor.open() for visitor in visitors))
        runs = await asyncio.gather(
            *(visitor.compare(both, "A block glides.") for visitor in visitors)
        )
        assert all(one.complete for one in runs)
        assert list_files(server.folder) > files
        await asyncio.gather(*(visitor.close() for visitor in visitors))
        await wait_until(lambda: list_files(server.folder) == files)
        await wait_until(lambda: {process.pid for process in process_tree(server)} == processes)
        await host.close()

    run_in_thread(five())
