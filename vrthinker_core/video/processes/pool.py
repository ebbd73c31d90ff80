"""Where decoding processes come from: forks of a process that has everything loaded, else fresh ones."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import BinaryIO, Self

from vrthinker_core.cpus import cpu_count
from vrthinker_core.video.processes import process

_FORK_SERVER = "vrthinker_core.video.processes.fork_server"
_READY_SECONDS = 30.0
"""How long the nursery may take to load; after that fresh processes are started without it."""
_LEAVE_SECONDS = 2.0
"""How long the nursery may take to end its forks and itself."""
_PAIR = 2
"""Clips of one comparison, which open side by side on any machine."""


class DecoderPool:
    """Gives decoding processes, for as many clips as there are. Safe for threads; close it, or use it in a `with` statement.

    The process that forks (Linux only) never opens a file itself, and every clip still has a process, a memory and limits of its
    own. In a fork of the owner, and where forking is not to be had, every process is a fresh one.
    """

    def __init__(self, places: int | None = None) -> None:
        """At most `places` clips are being opened at the same time; by default as many as there are processors, and never one."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(places or max(_PAIR, cpu_count()))
        self._nursery: list[_ForkServer] = []
        """None or one."""
        self._closed = False
        weakref.finalize(self, _end_fork_server, self._nursery, self._owner)

    def preload(self) -> None:
        """Load what decoding needs, in the background, so that the first clip opens as fast as the others."""
        if self._forks:
            with self._lock:
                self._load()

    def opening_slot(self) -> AbstractContextManager[object]:
        """A place to open one clip in; entering it waits until one is free.

        Opening decodes. A crowd that opened all its clips at once would have none of them sooner, and would leave the server no
        time to answer anybody. A fork of the owner opens the clips of one comparison and need not wait.
        """
        return self._places if os.getpid() == self._owner else contextlib.nullcontext()

    def start_worker(self) -> process.WorkerProcess:
        """A process that serves one clip."""
        forked = self._fork() if self._forks else None
        return forked or process.start_process(process.WORKER)

    def close(self) -> None:
        """End the process that forks, and with it every decoding process that it has made."""
        self._closed = True
        with self._lock:
            _end_fork_server(self._nursery, self._owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _forks(self) -> bool:
        return sys.platform == "linux" and os.getpid() == self._owner and not self._closed

    def _load(self) -> socket.socket:
        """The socket on which the nursery listens; it is started where none runs."""
        if not self._nursery or self._nursery[0].process.poll() is not None:
            _end_fork_server(self._nursery, self._owner)
            with contextlib.ExitStack() as opened:
                ours, theirs = (opened.enter_context(end) for end in socket.socketpair())
                self._nursery.append(_ForkServer(process.start_process(_FORK_SERVER, theirs.fileno()), ours))
                opened.pop_all()
            theirs.close()
        return self._nursery[0].control

    def _fork(self) -> process.ForkedProcess | None:
        """None when the nursery does not answer."""
        with contextlib.ExitStack() as opened:
            line, theirs = (opened.enter_context(end) for end in socket.socketpair())
            input_end, stdin = (opened.enter_context(end) for end in _pipe())
            stdout, output_end = (opened.enter_context(end) for end in _pipe())
            try:
                with self._lock:
                    socket.send_fds(
                        self._load(), [process.FORK_REQUEST], [input_end.fileno(), output_end.fileno(), theirs.fileno()]
                    )
                theirs.close()
                line.settimeout(_READY_SECONDS)
                pid = process.read_number(line)
            except (BrokenPipeError, ConnectionError, TimeoutError, EOFError):
                return None
            opened.pop_all()
        for end in (input_end, output_end):
            end.close()
        return process.ForkedProcess(pid, line, stdin, stdout)


@dataclass(frozen=True, slots=True)
class _ForkServer:
    process: subprocess.Popen[bytes]
    control: socket.socket


def _end_fork_server(nursery: list[_ForkServer], owner: int) -> None:
    if os.getpid() != owner:
        return
    while nursery:
        dropped = nursery.pop()
        dropped.control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            dropped.process.wait(_LEAVE_SECONDS)
        process.end_process(dropped.process, owner)


def _pipe() -> tuple[BinaryIO, BinaryIO]:
    """What is written to the second end is read from the first."""
    read, write = os.pipe()
    return os.fdopen(read, "rb"), os.fdopen(write, "wb")
