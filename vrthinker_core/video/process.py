"""Worker processes: how they start, what they send, how they end.

A message is a JSON header and raw bytes, through a `multiprocessing.connection.Connection`.
`Connection.recv` is never used, because it unpickles: a process that decodes hostile files must not
make its parent run code.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.system import cpu_count
from vrthinker_core.video.limits import Limits

Header = dict[str, Any]


def send_message(receiver: Connection, header: Header, payload: bytes | memoryview = b"") -> None:
    """Send one message; raises `OSError` if the other end is closed."""
    receiver.send_bytes(json.dumps(header).encode())
    receiver.send_bytes(payload)  # type: ignore[arg-type, unused-ignore]


def receive_message(sender: Connection) -> tuple[Header, bytes]:
    """Return the next message as (header, payload).

    Raises `EOFError` if the other end is closed or sends anything but a message.
    """
    try:
        header = json.loads(sender.recv_bytes(1 << 22))
        payload = sender.recv_bytes(1 << 29)
    except (OSError, ValueError, RecursionError) as error:
        raise EOFError from error
    if not isinstance(header, dict):
        raise EOFError
    return header, payload


def connect_to_parent(handle: int) -> tuple[Connection, queue.SimpleQueue[Header]]:
    """Return the inherited connection with the descriptor `handle`, and the parent's requests.

    If the parent dies or closes the connection, this process ends, even while it decodes.
    """
    if sys.platform == "win32":
        parent = connection.PipeConnection(handle)
    else:
        parent = Connection(handle)
    requests: queue.SimpleQueue[Header] = queue.SimpleQueue()

    def listen() -> None:
        while True:
            try:
                requests.put(receive_message(parent)[0])
            except EOFError:
                os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    return parent, requests


def respond(parent: Connection, header: Header, payload: bytes | memoryview = b"") -> None:
    """Send one message; end this process if the parent is gone."""
    try:
        send_message(parent, header, payload)
    except OSError:
        os._exit(0)


# The process must run this very package, in place or installed. The package's folder must not stay
# on the path: `-m` with PYTHONPATH would put site-packages before the standard library, and an old
# backport (`dataclasses`) there breaks the process. -P keeps the working directory off the path.
_RUN_MODULE = (
    "import importlib, sys, typing; sys.path.insert(0, sys.argv[1]); "
    "import vrthinker_core; del sys.path[0]; "
    "importlib.import_module(sys.argv[2]).main(int(sys.argv[3]))"
)
_FOLDER = Path(__file__).resolve().parents[2]
# A process that decodes hostile files must not hold the parent's keys and tokens.
_ENVIRONMENT = (
    *("PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "PYTHONHOME"),
    *("PYTHONPATH", "LANG"),
)
# One arena and one thread, because the memory limit counts address space. Freed pictures return to
# the heap, not to the kernel, which saves a tenth of the time of a pass over 1080p.
_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}


def start_module(module: str, handle: int) -> subprocess.Popen[bytes]:
    """Start a process that calls `main(handle)` of a module of this package.

    The process inherits the descriptor (Windows: handle).
    """
    inherited: dict[str, Any] = {"pass_fds": [handle]}
    if sys.platform == "win32":
        os.set_handle_inheritable(handle, True)
        attributes = {"handle_list": [handle]}
        inherited = {"startupinfo": subprocess.STARTUPINFO(lpAttributeList=attributes)}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN_MODULE, str(_FOLDER), module, str(handle)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _SETTINGS,
        start_new_session=True,
        **inherited,
    )


def start_worker(module: str = "vrthinker_core.video.clip_decoder") -> Worker:
    """Start a worker in a new process; default: one that serves a clip."""
    ours, theirs = Pipe()
    with theirs:
        return Worker(start_module(module, theirs.fileno()), ours)


class ForkedProcess:
    """A child of the fork server, with the `Popen` methods for `Worker`.

    The fork server sends the process id, then the exit code over `status`. When our end closes, the
    server kills and reaps the process.
    """

    def __init__(self, status: Connection) -> None:
        """Wait for the process id; raises `EOFError`, `OSError` if the server is gone."""
        self.pid = int(status.recv_bytes(16))
        self._status = status
        self._code: int | None = None
        self._lock = threading.Lock()

    def kill(self) -> None:
        """Kill the process; its id stays reserved until `status` closes."""
        with self._lock:
            if self._code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises `subprocess.TimeoutExpired`."""
        with self._lock:
            if self._code is None:
                try:
                    if not self._status.poll(timeout):
                        raise subprocess.TimeoutExpired("a worker process", timeout or 0)
                    self._code = int(self._status.recv_bytes(16))
                except (OSError, EOFError):
                    self._code = -signal.SIGKILL  # the fork server itself was killed
                self._status.close()
            return self._code

    def release(self) -> None:
        """Let the fork server kill and reap the process, however long that takes."""
        with self._lock:
            if self._code is None:
                self._code = -signal.SIGKILL
                self._status.close()


class Worker:
    """A worker process and the connection to it."""

    def __init__(
        self, process: subprocess.Popen[bytes] | ForkedProcess, connection: Connection
    ) -> None:
        self.connection = connection
        self.process = process
        self._owner = os.getpid()
        self._late = threading.Event()

    def request(self, request: Header, seconds: float) -> Iterator[tuple[Header, bytes]]:
        """Send a request and yield responses up to the one marked `done`.

        Kills the process after `seconds` of waiting.

        Raises `VideoError` or `DecoderDied` with the sentence that the process sent. Raises
        `EOFError`, `OSError` or `KeyError` if the process died or broke the protocol;
        `cause_of_death` then tells more.
        """

        def stop() -> None:
            self._late.set()
            self.process.kill()

        done = False
        send_message(self.connection, request)
        while not done:
            started, timer = time.monotonic(), threading.Timer(seconds, stop)
            timer.daemon = True
            timer.start()
            try:
                header, payload = receive_message(self.connection)
            finally:
                timer.cancel()
            seconds -= time.monotonic() - started
            if "error" in header:
                raise (DecoderDied if header["died"] else VideoError)(str(header["error"]))
            done = header["done"]
            yield header, payload
            del payload  # frees the pixels before the next ones arrive

    def cause_of_death(self, limits: Limits) -> str:
        """Return half a sentence about why the process did not answer.

        Reads the exit code. Ends the process if it still runs.
        """
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2.0)  # The exit code tells why the connection closed
        self.end()
        code = self.process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if self._late.is_set():
            return f"decoding took longer than {limits.wall_seconds:g} s and was stopped"
        if name == "SIGXCPU":
            spent = f"{limits.cpu_seconds:g} s of processor time"
            return f"decoding took more than {spent} and was stopped"
        if name == "SIGKILL":
            return "the decoding process was killed, most often because memory ran out"
        return f"the decoder crashed ({name})"

    def end(self) -> None:
        """Kill and reap the process; its reading thread gets `EOFError`.

        Does nothing in a fork of the parent. The connection stays open, because closing it under a
        reading thread would make that thread read from the file that is opened next.
        """
        if os.getpid() != self._owner:
            return
        self.process.kill()
        if isinstance(self.process, ForkedProcess):
            self.process.release()
        else:
            self.process.wait()


class DecoderPool(contextlib.AbstractContextManager["DecoderPool"]):
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
                    return Worker(ForkedProcess(status), ours)
        return start_worker()

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
        if server is None or server.process.poll() is not None:
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
