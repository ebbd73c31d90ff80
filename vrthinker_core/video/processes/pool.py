"""The worker pool: starts worker processes as forks of a process that has everything loaded (`fork_server`), else fresh ones."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from multiprocessing.connection import Pipe

from vrthinker_core.cpus import cpu_count
from vrthinker_core.errors import VideoError
from vrthinker_core.video.processes.process import (
    CLIP_WORKER,
    ForkedProcess,
    Worker,
    receive_number,
    start_module,
    start_worker,
)

_FORK_SERVER = "vrthinker_core.video.processes.fork_server"
_READY_SECONDS = 30.0  # how long the fork server may take to load; after that fresh processes are started without it
_POLL_SECONDS = 0.1  # between two looks whether a clip is still to be opened
_STOP_SECONDS = 2.0  # how long the fork server may take to end its workers and itself


class DecoderPool(AbstractContextManager["DecoderPool"]):
    """Starts worker processes, for any number of clips. Safe for threads; close it, or use it in a `with` statement.

    The process that forks (Linux only) never opens a file itself, and every clip still has a process, a memory and limits of its
    own. In a fork of the owner, and where forking is not possible, every process is a fresh one.
    """

    def __init__(self, max_opening: int | None = None) -> None:
        """At most `max_opening` clips are opened at the same time: by default one for each processor, at least those of a pair."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._opening_slots = threading.BoundedSemaphore(max_opening or max(2, cpu_count()))
        self._server: _ForkServer | None = None
        self._closed = False

    def preload(self) -> None:
        """Load what decoding needs, in the background, so that the first clip opens as fast as the others."""
        if self._can_fork:
            with self._lock:
                self._running_server()

    @contextlib.contextmanager
    def opening_slot(self, given_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """A context in which one clip may be opened; entering it waits until there is room. Raises VideoError when `given_up`.

        Opening decodes. A crowd that opened all its clips at once would have none of them sooner, and would leave the server no
        time to answer anybody. A fork of the owner opens the clips of one comparison and need not wait.
        """
        if os.getpid() != self._owner:
            yield
            return
        while not self._opening_slots.acquire(timeout=_POLL_SECONDS):
            if given_up():
                raise VideoError("The video was closed before there was room to open it.")
        try:
            yield
        finally:
            self._opening_slots.release()

    def start_worker(self) -> Worker:
        """A process that serves one clip."""
        return (self._fork() if self._can_fork else None) or start_worker(CLIP_WORKER)

    def close(self) -> None:
        """End the fork server, and with it every worker that it has forked."""
        self._closed = True
        with self._lock:
            if self._server is not None:
                self._server.stop()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _can_fork(self) -> bool:
        return sys.platform == "linux" and os.getpid() == self._owner and not self._closed

    def _running_server(self) -> _ForkServer:
        """The fork server; it is started where none runs."""
        if (
            self._server is None
            or not self._server.stop.alive
            or self._server.process.poll() is not None
        ):
            self._server = _ForkServer()
        return self._server

    def _fork(self) -> Worker | None:
        """None when the fork server does not answer."""
        ours, theirs = Pipe()
        status, reports = Pipe()
        with contextlib.suppress(OSError, EOFError):
            with theirs, reports, self._lock:
                socket.send_fds(
                    self._running_server().control, [b"f"], [theirs.fileno(), reports.fileno()]
                )
            if status.poll(_READY_SECONDS):
                return Worker(ForkedProcess(receive_number(status), status), ours)
        return None


class _ForkServer:
    """A fork server as its owner holds it. It is stopped at the latest when this object is collected."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as on_error:
            on_error.enter_context(self.control)
            self.process = start_module(_FORK_SERVER, theirs.fileno())
            on_error.pop_all()
        self.stop = weakref.finalize(self, _stop_server, self.process, self.control, os.getpid())


def _stop_server(process: subprocess.Popen[bytes], control: socket.socket, owner: int) -> None:
    """In a fork of the owner this leaves the server alone."""
    control.close()
    if os.getpid() != owner:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    process.kill()
    process.wait()
