"""python -m tests.benchmarks.load [--quick]

A crowd on the page: `python app.py` in a process of its own, with a judge that reads from a script; its visitors are played over
plain HTTP from this one (`visitors`). Three promises are shown, for two processors:

CROWD. 40 visitors with two videos each press Compare in the same moment, and all are judged and streamed to at once. None is
lost: every run ends with a whole verdict and the script's very words. None is mixed: each visitor's videos carry a number of their
own in every frame, and the prompt, the frames of the saved trace and every picture that was fetched are the visitor's own. The
first update comes within 3 s for 95 of 100. It counts from the press on Compare until the first message with the run's own status
and trace; a place in the queue is none. The time until the first frames are named is printed beside it, and nothing is promised
for that.

BURST. 200 visitors press Compare in the same moment on a page as it starts by default (one judge, 24 waiting); then 200 programs
call `compare`. Everyone either gets a whole verdict or is told within 1 s that the server is busy.

ENDURANCE. 300 visitors, two at a time, come, compare and leave. After the first 30 of them the resident memory of the server and
all its processes grows by at most 50 MB. When the last one has left, every file below the server's temporary folder that was not
there before the first came is one too many (pictures, records, halt files, copies, uploads: the visitors share two uploaded
videos), and so is every process.

`--quick` takes fewer visitors. The last line is JSON; the exit status is 1 when the full run finds a promise broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.tools.api_client import compare
from tests.benchmarks.tools.http_client import HttpClient
from tests.benchmarks.tools.metrics import (
    Outcome,
    PeakUsage,
    at_most,
    gather_all,
    list_files,
    max_concurrent,
    percentiles,
    process_tree,
    resident_mb,
    scripted_server,
    with_timeout,
)
from tests.benchmarks.tools.numbered_clips import foreign_content, write_pair
from tests.benchmarks.tools.page_client import ObservedRun, PageClient, PageConfig
from tests.ui.conftest import Server
from tests.ui.support.saved_examples import ANSWER, ask

FIRST_UPDATE, TOLD_BUSY, GROWTH = 3.0, 1.0, 50.0
"""What is promised: seconds, seconds, megabytes."""

SETTLED = 20.0
"""Seconds for clearing away after the last visitor."""

SHORT = (ask(10, 30, 60, 90), ANSWER)
LONG = tuple(reply.replace("<Think>", "<Think>" + "The block glides, and glides on. " * 16) for reply in SHORT)

Figures = dict[str, Any]
Kept = dict[str, bool]


@dataclass(frozen=True)
class Size:
    """How many come."""

    crowd: int = 40
    burst: int = 200
    waiting: int = 24
    warm: int = 30
    runs: int = 300
    pause: float = 0.05
    """Seconds between two pieces of a reply to the crowd."""


QUICK = Size(crowd=12, burst=48, waiting=4, warm=9, runs=30, pause=0.03)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found: Figures = {"quick": quick, "processors": len(os.sched_getaffinity(0))}
    promises: Kept = {}
    for part in (crowd, burst, endurance):
        with tempfile.TemporaryDirectory() as place:
            found[part.__name__], kept = part(Path(place), QUICK if quick else Size())
            promises |= kept
    for promise, kept_it in promises.items():
        print(f"{'kept  ' if kept_it else 'BROKEN'}  {promise}")
    print(json.dumps({**found, "promises": promises}))
    sys.exit(0 if quick or all(promises.values()) else 1)


# -- crowd ---------------------------------------------------------------------------------------------------------------


def crowd(folder: Path, size: Size) -> tuple[Figures, Kept]:
    """Everybody at once, and everybody is judged."""
    pairs = [write_pair(folder, number) for number in range(size.crowd)]
    with scripted_server(folder, LONG, size.pause, "--at-once", str(size.crowd), "--waiting", str(size.crowd)) as server:
        found, mixed = asyncio.run(_crowd(server, pairs))
    print(f"crowd      {found['together']} of {size.crowd} streamed to at the same time, {found['updates']:,} updates")
    print(f"           first update after {found['first_p95']} s (p95), first frames after {found['frames_p95']} s (p95)")
    print(f"           at most {found['processes']} processes beside the server, {found['memory_mb']:,} MB resident with it")
    print(f"           lost {found['lost']}, mixed {len(mixed)}", *mixed[:9], sep="\n           ")
    return {**found, "mixed": len(mixed)}, {
        f"{size.crowd} at once: none lost": found["lost"] == 0,
        f"{size.crowd} at once: none mixed": not mixed,
        f"{size.crowd} at once: first update within {FIRST_UPDATE:g} s (p95)": at_most(found["first_p95"], FIRST_UPDATE),
    }


async def _crowd(server: Server, pairs: Sequence[tuple[Path, Path]]) -> tuple[Figures, list[str]]:
    site = await PageConfig.open(server.url)
    visitors = [PageClient(site) for _ in pairs]
    files = [await visitor.open_with_clips(pair) for visitor, pair in zip(visitors, pairs, strict=True)]
    prompts = [f"Visitor {number} saw a block glide." for number in range(len(pairs))]
    peak = PeakUsage(server)
    watching = asyncio.create_task(peak.sample())
    runs = [visitor.compare(both, prompt) for visitor, both, prompt in zip(visitors, files, prompts, strict=True)]
    seen = await gather_all(runs)
    watching.cancel()
    checks = zip(visitors, seen, range(len(pairs)), prompts, strict=True)
    mixed = [line for visitor, run, number, prompt in checks for line in await _foreign(visitor, run, number, prompt)]
    await asyncio.gather(*(visitor.close() for visitor in visitors))
    ended = [run for run in seen if run is not None]
    return {
        "visitors": len(pairs),
        "lost": len(pairs) - sum(run.complete for run in ended),
        "together": max_concurrent(ended),
        "updates": sum(run.updates for run in ended),
        **percentiles("first", [run.first_update if run else None for run in seen]),
        **percentiles("frames", [run.first_frames if run else None for run in seen]),
        **percentiles("pictures", [run.first_pictures if run else None for run in seen]),
        **percentiles("over", [run.seconds if run else None for run in seen]),
        "processes": peak.processes,
        "memory_mb": peak.megabytes,
    }, mixed


async def _foreign(visitor: PageClient, run: ObservedRun | None, number: int, prompt: str) -> list[str]:
    """What a visitor was given that is not theirs, or not what the judge said to them."""
    if run is None or not run.complete:
        return []
    trace = await visitor.download_trace(run)
    found = [f"the prompt {told!r}" for told in run.prompts if told != prompt]
    found += foreign_content(trace, run.pictures, number, prompt)
    if tuple(turn.completion.text for turn in trace.turns) != LONG:
        found.append("not the judge's words")
    return [f"visitor {number}: {what}" for what in found]


# -- burst ---------------------------------------------------------------------------------------------------------------


def burst(folder: Path, size: Size) -> tuple[Figures, Kept]:
    """More than anybody can serve: visitors, then programs."""
    pair = write_pair(folder, 0)
    with scripted_server(folder, SHORT, 0.0, "--waiting", str(size.waiting)) as server:
        found = {
            who: asyncio.run(rush(server, pair, size.burst)) for who, rush in (("visitors", _visitors), ("programs", _programs))
        }
    kept = {}
    for who, these in found.items():
        print(f"burst      {size.burst} {who}: {these['whole']} judged, {these['busy']} told that it is busy,", end=" ")
        print(f"the last of them after {these['busy_max']} s; lost {these['lost']}")
        kept[f"{size.burst} {who} at once: all end or are told"] = these["lost"] == 0
        in_time = these["busy"] == 0 or at_most(these["busy_max"], TOLD_BUSY)
        kept[f"{size.burst} {who} at once: told within {TOLD_BUSY:g} s that it is busy"] = in_time
    return found, kept


async def _visitors(server: Server, pair: tuple[Path, Path], count: int) -> Figures:
    site = await PageConfig.open(server.url)
    visitors = [PageClient(site) for _ in range(count)]
    for start in range(0, count, 8):
        await asyncio.gather(*(visitor.open() for visitor in visitors[start : start + 8]))
    files = [await visitors[0].upload(player, clip) for player, clip in zip(("first", "second"), pair, strict=True)]
    seen = await gather_all([visitor.compare(files, f"Visitor {number}.") for number, visitor in enumerate(visitors)])
    await asyncio.gather(*(visitor.close() for visitor in visitors))
    return _told(seen)


async def _programs(server: Server, pair: tuple[Path, Path], count: int) -> Figures:
    web = HttpClient(server.url)
    paths = [await web.upload(clip) for clip in pair]
    return _told(await gather_all([compare(web, paths, f"Program {number}.") for number in range(count)]))


def _told(answers: Sequence[Outcome | None]) -> Figures:
    ended = [answer for answer in answers if answer is not None]
    whole, busy = sum(answer.complete for answer in ended), [answer.seconds for answer in ended if answer.busy]
    return {"whole": whole, "busy": len(busy), "lost": len(answers) - whole - len(busy), **percentiles("busy", busy)}


# -- endurance -----------------------------------------------------------------------------------------------------------


def endurance(folder: Path, size: Size) -> tuple[Figures, Kept]:
    """One run after another, and what stays of them."""
    pair = write_pair(folder, 0)
    with scripted_server(folder, SHORT, 0.0, "--at-once", "2") as server:
        found = asyncio.run(_endurance(server, pair, size))
    memory, grown = found["memory_mb"], found["grown_mb"]
    print(f"endurance  {memory[0]} MB resident after {size.warm} runs, then {memory[1:]} in {size.runs} more: {grown} MB more;")
    print(f"           {found['whole']} of {size.warm + size.runs} judged, {found['seconds_per_run']} s each;", end=" ")
    print(f"left behind: {found['files']} files, {found['processes']} processes")
    return found, {
        f"{size.runs} runs: all are judged": found["whole"] == size.warm + size.runs,
        f"{size.runs} runs: memory grows by {GROWTH:g} MB at most": grown <= GROWTH,
        f"{size.runs} runs: no file and no process stays": found["files"] == found["processes"] == 0,
    }


async def _endurance(server: Server, pair: tuple[Path, Path], size: Size) -> Figures:
    site = await PageConfig.open(server.url)
    host = PageClient(site)
    both = await host.open_with_clips(pair)
    files, processes = list_files(server.folder), {process.pid for process in process_tree(server)}
    began, whole, memory = time.perf_counter(), 0, []
    for count in (size.warm, *[size.runs // 3] * 3):
        whole += await _in_a_row(site, both, count)
        left = await _settled(server, files, processes)
        memory.append(resident_mb(server))
    seconds = time.perf_counter() - began
    await host.close()
    return {
        "whole": whole,
        "memory_mb": memory,
        "grown_mb": round(memory[-1] - memory[0], 1),
        "seconds_per_run": round(seconds / (size.warm + size.runs), 2),
        **left,
    }


async def _in_a_row(site: PageConfig, both: Sequence[Any], count: int) -> int:
    """Two visitors at a time; how many got a whole verdict. All have left when it returns."""
    coming = iter(range(count))

    async def lane() -> int:
        whole = 0
        for number in coming:
            visitor = PageClient(site)
            await visitor.open()
            run = await with_timeout(visitor.compare(both, f"Visitor {number}."))
            await visitor.close()
            whole += run is not None and run.complete
        return whole

    return sum(await asyncio.gather(lane(), lane()))


async def _settled(server: Server, files: set[Path], processes: set[int]) -> Figures:
    """What is too many, as soon as nothing is or when there was time enough."""
    end = time.perf_counter() + SETTLED
    while True:
        more = list_files(server.folder) - files
        others = [process for process in process_tree(server) if process.pid not in processes]
        if (not more and not others) or time.perf_counter() > end:
            return {"files": len(more), "processes": len(others), "which": sorted(map(str, more))[:9]}
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
