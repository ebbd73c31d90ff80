"""The pool that starts worker processes.

Workers are forks of a process with loaded decoders (`fork_server`), or fresh processes.
"""

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

from vrthinker_core.errors import VideoError
from vrthinker_core.system import cpu_count
from vrthinker_core.video.process import (
    CLIP_WORKER,
    ForkedProcess,
    Worker,
    receive_number,
    start_module,
    start_worker,
)


class DecoderPool(AbstractContextManager["DecoderPool"]):
    """Starter of worker processes for any number of clips.

    Thread-safe. Close it, or use it in a `with` statement.

    The forking process (Linux only) never opens a file. Every clip has a process, memory and limits
    of its own. In a fork of the owner, and if forking is impossible, every worker is a fresh
    process.
    """

    def __init__(self, max_opening: int | None = None) -> None:
        """Limit clips opening at once; default: processors, at least 2."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._opening_slots = threading.BoundedSemaphore(max_opening or max(2, cpu_count()))
        self._server: _ForkServer | None = None
        self._closed = False

    def preload(self) -> None:
        """Load the decoders in the background, so the first clip opens fast."""
        if self._can_fork:
            with self._lock:
                self._running_server()

    @contextlib.contextmanager
    def opening_slot(self, given_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Wait for a slot to open clips; free it after the block.

        Opening decodes. If many clips opened at once, none would be ready sooner, and the server
        would have no time to answer anybody. A fork of the owner opens the clips of one comparison
        and does not wait.

        Raises `VideoError` if `given_up` returns True during the wait.
        """
        if os.getpid() != self._owner:
            yield
            return
        while not self._opening_slots.acquire(timeout=0.1):
            if given_up():
                raise VideoError("The video was closed before there was room to open it.")
        try:
            yield
        finally:
            self._opening_slots.release()

    def start_worker(self) -> Worker:
        """Start a process that serves one clip."""
        if self._can_fork:
            ours, theirs = Pipe()
            status, reports = Pipe()
            with contextlib.suppress(OSError, EOFError):
                with theirs, reports, self._lock:
                    ends = [theirs.fileno(), reports.fileno()]
                    socket.send_fds(self._running_server().control, [b"f"], ends)
                if status.poll(30.0):  # Else a fresh process is started
                    return Worker(ForkedProcess(receive_number(status), status), ours)
        return start_worker(CLIP_WORKER)

    def close(self) -> None:
        """End the fork server and every worker that it has forked."""
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
        server = self._server
        if server is None or not server.stop.alive or server.process.poll() is not None:
            server = self._server = _ForkServer()
        return server


class _ForkServer:
    """The owner's handle of a fork server, which stops when collected."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair()
        with theirs, contextlib.ExitStack() as on_error:
            on_error.enter_context(self.control)
            self.process = start_module("vrthinker_core.video.fork_server", theirs.fileno())
            on_error.pop_all()
        self.stop = weakref.finalize(self, _stop_server, self.process, self.control, os.getpid())


def _stop_server(process: subprocess.Popen[bytes], control: socket.socket, owner: int) -> None:
    """Stop the server; in the owner's forks, only close the socket."""
    control.close()
    if os.getpid() != owner:
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2.0)  # Until it has ended its workers and itself
    process.kill()
    process.wait()
