"""python -m tests.benchmarks.load [--quick]

The page's server with many visitors at once: what is lost, mixed, late, refused or left behind.

`python app.py` runs in a process of its own with a scripted judge; its visitors are clients over plain HTTP in this one
(`page_client`). Three promises are checked, made for two processors:

CROWD. 40 visitors with two videos each press Compare in the same moment, and all are judged and streamed to at once. None is lost:
every run ends with a complete verdict and exactly the script's replies. None is mixed: each visitor's videos show a number of their
own in every frame, and the prompt, the frames of the saved trace and every fetched picture are the visitor's own. For 95 of 100 the
first update comes within 3 s: from the press on Compare until the first message with the run's own status and trace (a place in the
queue is none). The time until the first frames are named is printed beside it, without a promise.

BURST. 200 visitors press Compare in the same moment on a page with the default options (one judge, 24 waiting); then 200 programs
call `compare`. Each either gets a complete verdict, or is told within 1 s that the server is busy.

ENDURANCE. 300 visitors, two at a time, open the page, compare and leave. After the first 30 of them the resident memory of the
server and all its processes grows by at most 50 MB. After the last one, no process and no file below the server's temporary folder
remains that was not there before the first (the visitors share two uploaded videos).

`--quick` takes fewer visitors. The last line is JSON; the exit status is 1 when the full run finds a promise broken.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.http_client import OK, HttpClient
from tests.benchmarks.tools.metrics import (
    Figures,
    PeakUsage,
    Promises,
    compare_at_once,
    gather_all,
    percentiles,
    process_tree,
    resident_mb,
    run_parts,
    scripted_server,
    with_timeout,
)
from tests.benchmarks.tools.numbered_clips import foreign_content, write_pair
from tests.benchmarks.tools.page_client import ObservedRun, PageClient, PageConfig
from tests.ui.conftest import Server
from tests.ui.support.api import files as list_files
from tests.ui.support.saved_examples import ANSWER, ask
from vrthinker_core.ui import words

FIRST_UPDATE_S, BUSY_S, GROWTH_MB = 3.0, 1.0, 50.0
"""The promised limits."""

CLEANUP_S = 20.0
"""Time for the server to clean up after the last visitor."""

SHORT = (ask(10, 30, 60, 90), ANSWER)
THOUGHT = "<Think>" + "The block glides, and glides on. " * 16
LONG = tuple(reply.replace("<Think>", THOUGHT) for reply in SHORT)


@dataclass(frozen=True)
class Size:
    """How many visitors."""

    crowd: int = 40
    burst: int = 200
    waiting: int = 24
    warmup: int = 30
    runs: int = 300
    pause: float = 0.05
    """Seconds between two pieces of a reply to the crowd."""


QUICK = Size(crowd=12, burst=48, waiting=4, warmup=9, runs=30, pause=0.03)


def main() -> None:
    """Run the benchmark."""
    quick = benchmark_parser(__doc__, "fewer visitors").parse_args().quick
    size = QUICK if quick else Size()
    run_parts(
        {part.__name__: partial(part, size=size) for part in (crowd, burst, endurance)}, quick
    )


def readme_row(result: Figures) -> str:
    """The result in a sentence for the README's table."""
    crowd, burst, rest = result["parts"].values()
    bursts = [*burst.values()]
    lost = sum(each["lost"] for each in bursts)
    refused = max(each["busy_max"] or 0.0 for each in bursts)
    return (
        f"{crowd['visitors']} visitors at once: {crowd['lost']} lost, {crowd['mixed']} mixed, "
        f"first update after {crowd['first_p95'] or math.nan:.2f} s (p95); "
        f"{bursts[0]['clients']} visitors at once, then as many programs: {lost} lost, "
        f"the last refusal after {refused:.2f} s; "
        f"{rest['runs']} runs in a row: {rest['grown_mb']:.1f} MB more memory, "
        f"{rest['files']} files and {rest['processes']} processes left"
    )


# -- crowd ---------------------------------------------------------------------------------------------------------------


def crowd(folder: Path, size: Size) -> tuple[Figures, Promises]:
    """All at once, and all are judged."""
    pairs = [write_pair(folder, number) for number in range(size.crowd)]
    options = ("--at-once", str(size.crowd), "--waiting", str(size.crowd))
    with scripted_server(folder, LONG, size.pause, *options) as server:
        figures, mixed = asyncio.run(_crowd(server, pairs))
    figures |= {"mixed": len(mixed)}
    print("crowd     ", figures, *mixed[:9], sep="\n           ")
    in_time = (figures["first_p95"] or math.inf) <= FIRST_UPDATE_S
    return figures, {
        f"{size.crowd} at once: none lost": figures["lost"] == 0,
        f"{size.crowd} at once: none mixed": not mixed,
        f"{size.crowd} at once: first update within {FIRST_UPDATE_S:g} s (p95)": in_time,
    }


async def _crowd(server: Server, pairs: Sequence[tuple[Path, Path]]) -> tuple[Figures, list[str]]:
    """The figures, and a line for whatever reached the wrong client."""
    config = await PageConfig.open(server.url)
    clients = [PageClient(config) for _ in pairs]
    opening = zip(clients, pairs, strict=True)
    files = [await client.open_with_clips(pair) for client, pair in opening]
    prompts = [f"Visitor {number} saw a block glide." for number in range(len(pairs))]
    peak = PeakUsage(server)
    sampling = asyncio.create_task(peak.sample())
    given = zip(clients, files, prompts, strict=True)
    runs = await gather_all(client.compare(both, prompt) for client, both, prompt in given)
    sampling.cancel()
    checks = zip(clients, runs, range(len(pairs)), prompts, strict=True)
    mixed = [line for check in checks for line in await _mixed(*check)]
    await asyncio.gather(*(client.close() for client in clients))
    return {
        "visitors": len(pairs),
        "lost": sum(run is None or not run.complete for run in runs),
        **percentiles("first", [run.first_update if run else None for run in runs]),
        **percentiles("frames", [run.first_frames if run else None for run in runs]),
        "processes": peak.processes,
        "memory_mb": peak.megabytes,
    }, mixed


async def _mixed(
    client: PageClient, run: ObservedRun | None, number: int, prompt: str
) -> list[str]:
    """What a client received that is not its own, or not what the judge wrote."""
    if run is None or not run.complete:
        return []
    trace = await client.download_trace(run)
    found = [f"the prompt {other!r}" for other in run.prompts if other != prompt]
    found += foreign_content(trace, run.pictures, number, prompt)
    if tuple(turn.completion.text for turn in trace.turns) != LONG:
        found.append("other replies than the judge's")
    return [f"visitor {number}: {what}" for what in found]


# -- burst ---------------------------------------------------------------------------------------------------------------


def burst(folder: Path, size: Size) -> tuple[Figures, Promises]:
    """More at once than can be judged: visitors of the page, then programs."""
    pair = write_pair(folder, 0)
    with scripted_server(folder, SHORT, 0.0, "--waiting", str(size.waiting)) as server:
        figures = {
            "visitors": asyncio.run(_burst_of_visitors(server, pair, size.burst)),
            "programs": asyncio.run(_burst_of_programs(server, pair, size.burst)),
        }
    promises = {}
    for who, each in figures.items():
        print(f"burst      {size.burst} {who}: {each}")
        promises[f"{size.burst} {who} at once: all end or are told"] = each["lost"] == 0
        in_time = (each["busy_max"] or 0) <= BUSY_S
        promises[f"{size.burst} {who} at once: told within {BUSY_S:g} s that it is busy"] = in_time
    return figures, promises


async def _burst_of_visitors(server: Server, pair: tuple[Path, Path], count: int) -> Figures:
    config = await PageConfig.open(server.url)
    return _summarize(await compare_at_once([PageClient(config) for _ in range(count)], pair))


@dataclass(frozen=True)
class Called:
    """How a call of `compare` ended."""

    seconds: float
    complete: bool  # The run of its own prompt ended with a verdict on every dimension
    busy: bool  # It was told that too many runs wait


async def _burst_of_programs(server: Server, pair: tuple[Path, Path], count: int) -> Figures:
    http = HttpClient(server.url)
    files = [await http.upload(clip) for clip in pair]
    calls = (_call(http, files, f"Program {number}.") for number in range(count))
    return _summarize(await gather_all(calls))


async def _call(http: HttpClient, files: Sequence[Any], prompt: str) -> Called:
    """Call `compare` over plain HTTP, and read its stream to the end."""
    started = time.perf_counter()
    status, answer = await http.post("gradio_api/call/compare", {"data": [*files, prompt]})
    last = {"error": answer.get("detail")}
    if status == OK:
        last = {}
        async with http.request(f"gradio_api/call/compare/{answer['event_id']}") as (_, stream):
            while line := await stream.readline():
                if line.startswith(b"data: ") and (data := json.loads(line[6:])):
                    last = data[0]
    whole = last.get("prompt") == prompt and last.get("stop") == "answered"
    complete = whole and None not in last["labels"].values()
    return Called(time.perf_counter() - started, complete, last.get("error") == words.BUSY)


def _summarize(outcomes: Sequence[ObservedRun | Called | None]) -> Figures:
    ended = [outcome for outcome in outcomes if outcome is not None]
    judged = sum(outcome.complete for outcome in ended)
    busy = [outcome.seconds for outcome in ended if outcome.busy]
    lost = len(outcomes) - judged - len(busy)
    counts = {"clients": len(outcomes), "judged": judged, "busy": len(busy), "lost": lost}
    return {**counts, **percentiles("busy", busy)}


# -- endurance -----------------------------------------------------------------------------------------------------------


def endurance(folder: Path, size: Size) -> tuple[Figures, Promises]:
    """One run after another, and what remains of them."""
    pair = write_pair(folder, 0)
    with scripted_server(folder, SHORT, 0.0, "--at-once", "2") as server:
        figures = asyncio.run(_endurance(server, pair, size))
    print(f"endurance  {figures}")
    grown, left = figures["grown_mb"], figures["files"] + figures["processes"]
    return figures, {
        f"{size.runs} runs: all are judged": figures["judged"] == size.warmup + size.runs,
        f"{size.runs} runs: memory grows by {GROWTH_MB:g} MB at most": grown <= GROWTH_MB,
        f"{size.runs} runs: no file and no process stays": left == 0,
    }


async def _endurance(server: Server, pair: tuple[Path, Path], size: Size) -> Figures:
    config = await PageConfig.open(server.url)
    owner = PageClient(config)
    uploads = await owner.open_with_clips(pair)
    files, processes = {*list_files(server.folder)}, {each.pid for each in process_tree(server)}
    started, judged, memory = time.perf_counter(), 0, []
    for count in (size.warmup, *[size.runs // 3] * 3):
        judged += await _two_at_a_time(config, uploads, count)
        left = await _left_behind(server, files, processes)
        memory.append(resident_mb(server))
    seconds = time.perf_counter() - started
    await owner.close()
    return {
        "runs": size.runs,
        "judged": judged,
        "memory_mb": memory,
        "grown_mb": round(memory[-1] - memory[0], 1),
        "seconds_per_run": round(seconds / (size.warmup + size.runs), 2),
        **left,
    }


async def _two_at_a_time(config: PageConfig, uploads: Sequence[Any], count: int) -> int:
    """How many of `count` clients got a complete verdict; all have closed their page when this returns."""
    two = asyncio.Semaphore(2)

    async def visit(number: int) -> bool:
        async with two:
            client = PageClient(config)
            await client.open()
            run = await with_timeout(client.compare(uploads, f"Visitor {number}."))
            await client.close()
            return run is not None and run.complete

    return sum(await asyncio.gather(*map(visit, range(count))))


async def _left_behind(server: Server, files: set[Path], processes: set[int]) -> Figures:
    """Files and processes beyond those given: as soon as there are none, or those that remain after `CLEANUP_S`.

    The runs of visitors are kept for a day, and do not count.
    """
    end, kept = time.perf_counter() + CLEANUP_S, server.folder / "runs"
    while True:
        more = {*list_files(server.folder)} - files
        more = {path for path in more if kept not in path.parents}
        others = [process for process in process_tree(server) if process.pid not in processes]
        if (not more and not others) or time.perf_counter() > end:
            which = sorted(map(str, more))[:9]
            return {"files": len(more), "processes": len(others), "which": which}
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
