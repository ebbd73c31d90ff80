"""python -m tests.benchmarks.attacks [--quick]

The page's server under attack: how long honest visitors wait meanwhile, and how much memory and disk it takes.

`python app.py --behind-proxy 1` runs in a process of its own with a scripted judge. While an attack goes on, newcomers come one by
one, each from another address: they open the page, upload two videos, open an example and fetch a clip. Each of these is answered
within 1 s, their run has a place in the queue within 5 s, and the resident memory of the server and all its processes stays within
600 MB above what it was before.

VISITORS. No attack: 25 honest visitors press Compare in the same moment, and none of them is lost; 20 of them share an address, and
half of all keep no cookie.

TRACES. 24 strangers open saved runs of 57 MB, and ask 30 times for each.

JOINS. One client lets 1,002 events wait within 7 s, each for a host that does not answer; COOKIES is the same with a new cookie each.

READERS. Ten clients ask for the trace and the report of a run of 12 MB, and read nothing of them.

FOLLOWERS. 227 pages of one client show one run that goes on.

LOOPS. 30 loops of one address call `compare`; half of them with a new cookie each time.

FETCHES. One client lets 40 files of 95 MB be fetched.

BODIES. 24 requests of 60 MB are never finished, half of them to an endpoint and half in a field of an upload; then 8 send 45 MB of
JSON each, and are refused.

CALLS. 26 calls of `compare` to a judge that never ends are collected by nobody. Within 30 s after the last one all are dropped.

DISK. One client uploads 15 files of 100 MB. At most 600 MB of them are on the disk.

`--quick` sends less. The last line is JSON; the exit status is 1 when the full run finds a promise broken.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.benchmarks.tools import benchmark_parser
from tests.benchmarks.tools.http_client import OK, HttpClient
from tests.benchmarks.tools.metrics import (
    Figures,
    PeakUsage,
    Promises,
    compare_at_once,
    resident_mb,
    run_parts,
    scripted_server,
)
from tests.benchmarks.tools.numbered_clips import write_pair
from tests.benchmarks.tools.page_client import ObservedRun, PageClient, PageConfig
from tests.support.loopback_server import serving_files
from tests.ui.conftest import Server
from tests.ui.support.api import files as list_files
from tests.ui.support.saved_examples import ANSWER, ENDLESS, SCRIPT, write_example
from vrthinker_core.traces import load, to_json
from vrthinker_core.ui import words

WAIT_S, PLACE_S, MEMORY_MB, DISK_MB, DROPPED_S = 1.0, 5.0, 600.0, 600.0, 30.0
"""The promised limits."""

TIMEOUT_S = 30.0
"""After which a newcomer counts as refused."""

EXAMPLE = "a-block"
MB = bytes(10**6)

T = TypeVar("T")


@dataclass(frozen=True)
class Size:
    """How much is sent."""

    visitors: int = 25
    newcomers: int = 10
    traces: int = 24
    trace_mb: int = 57
    unfinished: int = 24
    unfinished_mb: int = 60
    large: int = 8
    large_mb: int = 45
    calls: int = 26
    files: int = 15
    asked: int = 30
    joins: int = 1002
    readers: int = 10
    readers_mb: int = 12
    followers: int = 227
    loops: int = 30
    fetches: int = 40
    fetched_mb: int = 95
    hold_s: float = 10.0


QUICK = Size(4, 2, 2, 5, 2, 20, 1, 20, 26, 2, 2, 60, 2, 2, 20, 4, 4, 5, 2.0)
HOG = "203.0.113.1"  # The address of whoever attacks


@dataclass
class Target:
    """The server that is attacked, and what its honest visitors see."""

    server: Server
    config: PageConfig
    clips: tuple[Path, Path]
    host: str
    """Gives the clips and many bytes as `large.mp4`."""
    silent: str
    """Gives nothing."""
    waits: dict[str, list[float]] = field(default_factory=dict)
    refused: int = 0
    came: int = 0

    def client(self, address: str = HOG) -> HttpClient:
        """A client without a cookie."""
        return HttpClient(self.server.url, address)

    async def newcomer(self) -> None:
        """Open the page, upload two videos, open an example, fetch a clip, and compare."""
        self.came += 1
        client = PageClient(self.config, self.client(f"198.51.100.{self.came % 250 + 1}"))
        try:
            await self._timed("page", client.open())
            pair = zip(("first", "second"), self.clips, strict=True)
            clip = {"address-1": f"{self.host}/{self.clips[0].name}"}
            files = [await self._timed("upload", client.upload(*each)) for each in pair]
            example = client.trigger("examples", "click", event_data={"example": EXAMPLE})
            await self._timed("example", example)
            await self._timed("fetch", client.trigger("address-1", "then", **clip))
            run = ObservedRun()
            comparing = asyncio.create_task(client.compare(files, "Honest.", run))
            await self._timed("place", self._has_place(run, comparing))
            self.refused += run.busy
            comparing.cancel()
        except (OSError, ValueError, EOFError, TimeoutError):
            self.refused += 1
        finally:
            await client.close()

    async def _has_place(self, run: ObservedRun, comparing: asyncio.Task[ObservedRun]) -> None:
        """Wait until the page names the run's place, or shows the run."""
        while not (run.trace or comparing.done() or run.status not in ("", words.WAITING)):
            await asyncio.sleep(0.02)

    async def _timed(self, what: str, work: Awaitable[T]) -> T:
        started = time.perf_counter()
        try:
            return await asyncio.wait_for(work, TIMEOUT_S)
        finally:
            self.waits.setdefault(what, []).append(time.perf_counter() - started)


Attack = Callable[[Target, Size], Coroutine[Any, Any, tuple[Figures, Promises]]]


def main() -> None:
    """Run the benchmark."""
    parser = benchmark_parser(__doc__, "send less")
    parser.add_argument("--only", choices=ATTACKS, help="one of the parts alone")
    options = parser.parse_args()
    size = QUICK if options.quick else Size()
    names = [options.only] if options.only else ATTACKS
    run_parts({name: partial(run, name, size=size) for name in names}, options.quick)


def readme_row(result: Figures) -> str:
    """The result in a sentence for the README's table."""
    attacks = result["parts"]
    told = "{}: {longest_s:.2f} s, {grown_mb:.0f} MB".format
    waits = "; ".join(told(name, **each) for name, each in attacks.items())
    refused = sum(each["refused"] for each in attacks.values())
    return f"The longest wait of an honest visitor, and memory above idle: {waits}; {refused} of them refused"


def run(name: str, folder: Path, size: Size) -> tuple[Figures, Promises]:
    """One attack on a server of its own."""
    attack, replies, pause = ATTACKS[name]
    write_example(folder / "examples" / EXAMPLE)
    (given := folder / "host").mkdir()
    clips = write_pair(given, 0)
    (given / "large.mp4").write_bytes(MB * size.fetched_mb)
    options = "--examples", str(folder / "examples"), "--behind-proxy", "1", "--local-addresses"
    with (
        scripted_server(folder, replies, pause, *options) as server,
        serving_files(given) as host,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        told = server, clips, host, f"http://127.0.0.1:{silent.getsockname()[1]}"
        figures, promises = asyncio.run(_under_attack(*told, attack, size))
    print(f"{name:9} {figures}")
    return figures, {f"{name}: {promise}": kept for promise, kept in promises.items()}


async def _under_attack(
    server: Server, clips: tuple[Path, Path], host: str, silent: str, attack: Attack, size: Size
) -> tuple[Figures, Promises]:
    target = Target(server, await PageConfig.open(server.url), clips, host, silent)
    await target.newcomer()
    target.waits.clear()
    idle, peak = resident_mb(server), PeakUsage(server)
    sampling = asyncio.create_task(peak.sample())
    attack_apart = asyncio.to_thread(asyncio.run, attack(target, size))  # delays no newcomer
    attacking = asyncio.ensure_future(attack_apart)
    count = 0
    while count < size.newcomers or not attacking.done():
        await target.newcomer()
        count += 1
        await asyncio.sleep(0.2)
    own_figures, own_promises = await attacking
    sampling.cancel()
    longest = {what: round(max(waits), 2) for what, waits in target.waits.items()}
    place = longest.pop("place", 0.0)
    grown = round(peak.megabytes - idle, 1)
    figures = {
        "newcomers": count,
        "refused": target.refused,
        "longest_s": max(longest.values()),
        "longest": longest,
        "place_s": place,
        "grown_mb": grown,
        "at_end_mb": round(resident_mb(server) - idle, 1),
    }
    return figures | own_figures, {
        "no newcomer is refused": target.refused == 0,
        f"each newcomer is answered within {WAIT_S:g} s": figures["longest_s"] <= WAIT_S,
        f"each newcomer's run has a place within {PLACE_S:g} s": place <= PLACE_S,
        f"at most {MEMORY_MB:g} MB above idle": grown <= MEMORY_MB,
        **own_promises,
    }


# -- attacks -------------------------------------------------------------------------------------------------------------


async def visitors(target: Target, size: Size) -> tuple[Figures, Promises]:
    """Honest visitors, who wait for one judge."""
    addresses = ["192.0.2.1"] * (size.visitors * 4 // 5) + ["192.0.2.2"] * size.visitors
    https = [target.client(address) for address in addresses[: size.visitors]]
    for http in https[::2]:
        http.keeps_cookie = False
    clients = [PageClient(target.config, http) for http in https]
    runs = await compare_at_once(clients, target.clips)
    lost = sum(run is None or not run.complete for run in runs)
    return {"visitors": size.visitors, "lost": lost}, {"no visitor is lost": lost == 0}


async def traces(target: Target, size: Size) -> tuple[Figures, Promises]:
    """Strangers who open saved runs with very long replies."""
    path, opened = write_large_trace(target, "a", size.trace_mb), 0
    for _ in range(size.traces):
        visitor = PageClient(target.config, target.client())
        with suppress(OSError, ValueError, EOFError):
            await visitor.upload("open", path)
            opened += 1
            await asyncio.gather(*(visitor.join("buttons", "submit") for _ in range(size.asked)))
    return {"traces": size.traces, "answered": opened}, {}


def write_large_trace(target: Target, piece: str, megabytes: int) -> Path:
    """Write a saved run whose replies are that again and again."""
    folder = target.server.folder.parent
    trace = load(folder / "examples" / EXAMPLE / "trace.json")
    text = piece * (megabytes * 10**6 // len(piece) // len(trace.turns))
    completions = [replace(turn.completion, text=text, pieces=(len(text),)) for turn in trace.turns]
    both = zip(trace.turns, completions, strict=True)
    turns = tuple(replace(turn, completion=each) for turn, each in both)
    path = folder / "large.json"
    path.write_bytes(to_json(replace(trace, turns=turns)))
    return path


async def joins(
    target: Target, size: Size, *, new_cookies: bool = False
) -> tuple[Figures, Promises]:
    """One client whose events wait for a host that does not answer."""
    statuses = Counter[int]()
    for _ in range(size.joins):
        http = target.client()
        if new_cookies:
            await http.get("")
        page, address = PageClient(target.config, http), {"address-1": f"{target.silent}/a.mp4"}
        with suppress(OSError, ValueError, EOFError):
            statuses[await page.join("address-1", "then", **address)] += 1
    await asyncio.sleep(size.hold_s)
    return {"joins": size.joins, "statuses": dict(statuses)}, {}


async def readers(target: Target, size: Size) -> tuple[Figures, Promises]:
    """Clients who ask for files of a large run, and read nothing."""
    path, http = write_large_trace(target, "word ", size.readers_mb), target.client()
    page = PageClient(target.config, http)
    await http.get("")
    file, event = await http.upload(path), target.config.event("open", "upload")
    outputs = await page.trigger("open", "upload", open=file)
    name = target.config.output(event, outputs, "trace")["run"]
    host, port = target.server.url.removeprefix("http://").rstrip("/").split(":")
    writers = []
    for number in range(size.readers):
        kind = ("trace.json", "report.html")[number % 2]
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        writer.write(f"GET /runs/{name}/{kind} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        writers.append((reader, writer))
    await asyncio.sleep(size.hold_s + 3 * DROPPED_S / 2 * (size.hold_s > QUICK.hold_s))
    for _, writer in writers:
        writer.close()
    return {"readers": size.readers}, {}


async def followers(target: Target, size: Size) -> tuple[Figures, Promises]:
    """Very many pages of one client that show one run."""
    http = target.client()
    first = PageClient(target.config, http)
    files = await first.open_with_clips(target.clips)
    run = ObservedRun()
    going = asyncio.create_task(first.compare(files, "Seen by many.", run))
    while "kept" not in run.trace:
        await asyncio.sleep(0.1)
    pages = [PageClient(target.config, http) for _ in range(size.followers)]
    for page in pages:
        with suppress(OSError, ValueError, EOFError):
            await page.trigger("examples", "click", event_data={"run": run.trace["kept"]})
            await page.join("buttons", "submit")
    await asyncio.sleep(size.hold_s)
    going.cancel()
    await first.close()
    return {"followers": size.followers}, {}


async def loops(target: Target, size: Size) -> tuple[Figures, Promises]:
    """Loops of one address that let one run after another wait."""
    uploader, until = target.client(), time.monotonic() + 3 * size.hold_s
    files = [await uploader.upload(clip) for clip in target.clips]
    taken = Counter[bool]()

    async def loop(number: int) -> None:
        while time.monotonic() < until:
            http = target.client()
            if number % 2:
                await http.get("")
            with suppress(OSError, ValueError, EOFError):
                call = {"data": [*files, "Again."]}
                status, answer = await http.post("gradio_api/call/compare", call)
                taken[status == OK] += 1
                if status == OK:
                    await http.get(f"gradio_api/call/compare/{answer['event_id']}")
            await asyncio.sleep(0.1)

    await asyncio.gather(*(loop(number) for number in range(size.loops)))
    return {"loops": size.loops, "taken": taken[True], "refused_calls": taken[False]}, {}


async def fetches(target: Target, size: Size) -> tuple[Figures, Promises]:
    """One client who lets as much be fetched as it can."""
    http = target.client()
    await http.get("")
    page = PageClient(target.config, http)
    addresses = [{"address-1": f"{target.host}/large.mp4?{n}"} for n in range(size.fetches)]
    return await _take(target, (page.trigger("address-1", "then", **each) for each in addresses))


async def _take(target: Target, files: Iterable[Awaitable[Any]]) -> tuple[Figures, Promises]:
    """What lies on the disk while one client takes one file after another."""
    taken, most = 0, 0
    for each in files:
        with suppress(OSError, ValueError, EOFError):
            await each
            taken += 1
        total = 0
        for path in list_files(target.server.folder):
            with suppress(OSError):
                total += path.stat().st_size
        most = max(most, total)
    return {"taken": taken, "disk_mb": round(most / 1e6, 1)}, {
        f"one client holds at most {DISK_MB:g} MB": most <= DISK_MB * 1e6
    }


async def bodies(target: Target, size: Size) -> tuple[Figures, Promises]:
    """Requests that are never finished, then requests of very many values."""
    field = b'--line\r\nContent-Disposition: form-data; name="text"\r\n\r\n'
    ways = (
        ("gradio_api/queue/join", "application/json", b'{"data": "'),
        ("gradio_api/upload", "multipart/form-data; boundary=line", field),
    )
    sent = [ways[number % 2] for number in range(size.unfinished)]
    unfinished = (_send_unfinished(target.server, *way, size.unfinished_mb) for way in sent)
    connections = await asyncio.gather(*unfinished)
    await asyncio.sleep(size.hold_s)
    http = HttpClient(target.server.url)
    values = b'{"data": [' + b"[]," * (size.large_mb * 10**6 // 3) + b"1]}"
    statuses = []
    for _ in range(size.large):
        with suppress(OSError, EOFError):
            async with http.request("gradio_api/queue/join", values) as (status, _):
                statuses.append(status)
    for writer in connections:
        writer.close()
    return {"unfinished": size.unfinished, "statuses": statuses}, {
        "large JSON is refused": set(statuses) <= {413}
    }


async def _send_unfinished(
    server: Server, path: str, kind: str, start: bytes, megabytes: int
) -> asyncio.StreamWriter:
    """Send so much of a body, in chunks, and no end."""
    host, port = server.url.removeprefix("http://").rstrip("/").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /{path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with suppress(OSError):
        writer.write(head.encode())
        for piece in (start, *[MB] * megabytes):
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
    return writer


async def calls(target: Target, size: Size) -> tuple[Figures, Promises]:
    """Calls whose results nobody collects."""
    http = HttpClient(target.server.url)
    files = [await http.upload(clip) for clip in target.clips]
    call = {"data": [*files, "Nobody reads this."]}
    for _ in range(size.calls):
        await http.post("gradio_api/call/compare", call)
    started = time.perf_counter()
    taken, unfinished = 0, 0
    while (unfinished or not taken) and time.perf_counter() - started < 2 * DROPPED_S:
        await asyncio.sleep(0.5)
        _, answer = await http.post("gradio_api/run/health", {"data": []})
        unfinished = answer["data"][0]["judging"] + answer["data"][0]["waiting"]
        taken = max(taken, unfinished)
    seconds = round(time.perf_counter() - started, 1)
    return {"calls": size.calls, "taken": taken, "dropped_s": seconds}, {
        f"dropped within {DROPPED_S:g} s": seconds <= DROPPED_S
    }


async def disk(target: Target, size: Size) -> tuple[Figures, Promises]:
    """One browser that uploads as much as it can; without its cookie it could be several people."""
    client = target.client()
    await client.get("")
    path = target.server.folder.parent / "large.mp4"

    def uploads() -> Iterator[Awaitable[Any]]:
        for number in range(size.files):
            path.write_bytes(number.to_bytes(8, "big") + MB * 100)
            yield client.upload(path)

    return await _take(target, uploads())


ATTACKS: dict[str, tuple[Attack, Sequence[str], float]] = {
    "visitors": (visitors, SCRIPT, 0.02),
    "traces": (traces, (ANSWER,), 0.0),
    "joins": (joins, (ANSWER,), 0.0),
    "cookies": (partial(joins, new_cookies=True), (ANSWER,), 0.0),
    "readers": (readers, (ANSWER,), 0.0),
    "followers": (followers, [ENDLESS], 0.01),
    "loops": (loops, SCRIPT, 0.02),
    "fetches": (fetches, (ANSWER,), 0.0),
    "bodies": (bodies, (ANSWER,), 0.0),
    "calls": (calls, [ENDLESS], 0.01),
    "disk": (disk, (ANSWER,), 0.0),
}
"""Each attack with the judge's replies, and the seconds between two pieces of them."""


if __name__ == "__main__":
    main()
