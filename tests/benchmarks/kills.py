"""python -m tests.benchmarks.kills [--quick]

Processes that are killed while they write: what is torn, and what is left after the next start.

WRITERS. A process writes traces, turn by turn and one run after another, and gets SIGKILL at a random moment; 1,000 times. After
each kill every trace is read: one that cannot be is torn. The next process starts in the same folder.

SERVERS. `python app.py` gets SIGKILL while a visitor's files are there and others are arriving; 10 times, beside a server that
lives on. After the next start nothing is left of the one that was killed, and every file of the living one is.

`--quick` kills 100 writers and 2 servers. The last line is JSON; the exit status is 1 when anything was torn or left.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.benchmarks.tools import benchmark_parser
from tests.support.small_clips import write_clip
from tests.ui.conftest import Server, write_script
from tests.ui.support import handmade_runs
from tests.ui.support.api import FORM, HEAD, files, upload
from tests.ui.support.saved_examples import LABELS
from vrthinker_core.errors import TraceError
from vrthinker_core.traces import TraceWriter, load
from vrthinker_core.types.events import Trace

LONGEST_SECONDS = 0.05
"""Until a writer is killed; it writes a file every few milliseconds."""

Figures = dict[str, int]


def main() -> None:
    """Kill writers and servers."""
    quick = benchmark_parser(__doc__, "fewer kills").parse_args().quick
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        writers = kill_writers(Path(first), 100 if quick else 1000)
        print(f"writers    {writers}")
        servers = kill_servers(Path(second), 2 if quick else 10)
        print(f"servers    {servers}")
    print(json.dumps({"quick": quick, "writers": writers, "servers": servers}))
    sys.exit(any((writers["torn"], writers["left"], servers["left"], servers["lost"])))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    writers, servers = result["writers"], result["servers"]
    return (
        f"{writers['kills']:,} kills of a process that writes traces, {writers['halves']} of them within a file: "
        f"{writers['torn']} torn, {writers['left']} files left after the next start; "
        f"{servers['kills']} kills of a server: {servers['left']} files of it left, {servers['lost']} of another one lost"
    )


# -- writers -------------------------------------------------------------------------------------------------------------


def kill_writers(folder: Path, kills: int, seed: int = 0) -> Figures:
    """Kill so many processes while they write, each in the folder of the one before. This process must have no other threads."""
    moments, torn, halves, first = random.Random(seed), 0, 0, folder / "first.json"
    before: set[tuple[str, int]] = set()
    TraceWriter(first).save(Trace(handmade_runs.started()))
    assert _is_readable(first)  # also: what reading and writing need is loaded before the forks
    run = handmade_runs.three_turns()
    traces = [replace(run, turns=run.turns[:turns], finished=None) for turns in range(4)]
    for number in range(kills):
        process = os.fork()
        if not process:
            _write_for_ever(folder, [*traces, run], number)
        time.sleep(moments.uniform(0, LONGEST_SECONDS))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        now = {(path.name, path.stat().st_mtime_ns) for path in _halves(folder)}
        halves += bool(now - before)  # One that was killed at once left those of the one before
        before = now
        torn += sum(not _is_readable(path) for path in folder.glob("*.json"))
    TraceWriter(folder / "last.json").save(Trace(handmade_runs.started()))
    left, traces = len(_halves(folder)), len(list(folder.glob("*.json")))
    return {"kills": kills, "halves": halves, "torn": torn, "left": left, "traces": traces}


def _write_for_ever(folder: Path, traces: Sequence[Trace], seed: int) -> None:
    try:
        for number in count(seed):
            writer = TraceWriter(folder / f"run-{number % 7}.json")
            for trace in traces:
                writer.save(trace)
    finally:
        os._exit(1)


def _halves(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix != ".json"]


def _is_readable(path: Path) -> bool:
    try:
        return bool(load(path).started.prompt)
    except TraceError:
        return False


# -- servers -------------------------------------------------------------------------------------------------------------


def kill_servers(folder: Path, kills: int) -> Figures:
    """Kill so many servers in the middle of uploads, beside one that lives on."""
    clip, script = write_clip(folder / "a.mp4"), write_script(folder / "script.jsonl", [LABELS])
    with closing(Server(folder, script)) as alive:
        upload(alive, clip)
        (kept,) = _folders(folder)
        before = {*files(kept)}
        for _ in range(kills):
            with closing(Server(folder, script)) as killed:
                upload(killed, clip)
                with _half_uploads(killed, 4):
                    killed.process.kill()
                    killed.process.wait()
        with closing(Server(folder, script)):
            left = len(_folders(folder)) - 2  # beside the one that lived on, and the last
        return {"kills": kills, "left": left, "lost": len(before.difference(files(kept)))}


@contextmanager
def _half_uploads(server: Server, number: int) -> Iterator[None]:
    """Uploads of which half has come."""
    kind = f"Content-Type: {FORM}\r\nContent-Length: 2000000"
    head = f"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}\r\n\r\n".encode()
    place = ("127.0.0.1", urlsplit(server.url).port or 0)
    with ExitStack() as sockets:
        for _ in range(number):
            opened = sockets.enter_context(socket.create_connection(place))
            opened.sendall(head + HEAD + bytes(1_000_000))
        yield


def _folders(folder: Path) -> Sequence[Path]:
    return sorted(folder.glob("vr-thinker-page-*"))


if __name__ == "__main__":
    main()
