"""A worker process, which decodes hostile files, as its parent holds it: how it is started, watched and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from vrthinker_core.errors import DecoderDied, VideoError
from vrthinker_core.video.limits import Limits
from vrthinker_core.video.worker_io import Header, receive_message, send_message

CLIP_WORKER = "vrthinker_core.video.frames.worker"  # the module that serves one clip

# The process must run this very package, in place or installed, and its folder must not stay on the path: site-packages in front of
# the standard library, which is what `-m` with PYTHONPATH would give, breaks where an old backport (`dataclasses`) is installed.
# Nothing is taken from the working directory (-P).
_RUN_MODULE = (
    "import importlib, sys, typing; sys.path.insert(0, sys.argv[1]); import vrthinker_core; del sys.path[0]; "
    "importlib.import_module(sys.argv[2]).main(int(sys.argv[3]))"
)
_FOLDER = Path(__file__).resolve().parents[3]
# Keys and tokens of the parent have no business in a process that decodes hostile files.
_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "SYSTEMROOT",
    "TEMP",
    "PYTHONHOME",
    "PYTHONPATH",
    "LANG",
)
# One arena and one thread: address space is what the memory limit counts. Freed pictures go back to the heap, not to the kernel,
# which saves a tenth of the time of a pass over 1080p.
_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}
_EXIT_SECONDS = 2.0  # how long a process that closed its connection may take to end: its exit code then tells the cause


def start_module(module: str, handle: int) -> subprocess.Popen[bytes]:
    """A new process that calls `main(handle)` of a module of this package; it inherits the descriptor (Windows: handle)."""
    inherited: dict[str, Any] = {"pass_fds": [handle]}
    if sys.platform == "win32":
        os.set_handle_inheritable(handle, True)
        inherited = {
            "startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handle]})
        }
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN_MODULE, str(_FOLDER), module, str(handle)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _SETTINGS,
        start_new_session=True,
        **inherited,
    )


def start_worker(module: str) -> Worker:
    """A worker in a new process."""
    ours, theirs = Pipe()
    with theirs:
        return Worker(start_module(module, theirs.fileno()), ours)


class ForkedProcess:
    """A child of the fork server, with those parts of `subprocess.Popen` that a `Worker` needs."""

    def __init__(self, pid: int, status: Connection) -> None:
        """The fork server sends the exit code over `status`, and kills and reaps the process when this end of it is closed."""
        self.pid = pid
        self._status = status
        self._code: int | None = None
        self._lock = threading.Lock()

    def kill(self) -> None:
        """Kill the process. Its number is not given to another one before `status` is closed."""
        with self._lock:
            if self._code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once the process has ended. Raises subprocess.TimeoutExpired."""
        with self._lock:
            if self._code is None:
                self._code = self._receive_code(timeout)
                self._status.close()
            return self._code

    def release(self) -> None:
        """Let the fork server kill and reap the process; its exit code will not be asked for any more."""
        with self._lock:
            if self._code is None:
                self._code = -signal.SIGKILL
                self._status.close()

    def _receive_code(self, timeout: float | None) -> int:
        try:
            if self._status.poll(timeout):
                return receive_number(self._status)
        except (OSError, EOFError):
            return -signal.SIGKILL  # the fork server itself was killed
        raise subprocess.TimeoutExpired("a worker process", timeout or 0)


def receive_number(status: Connection) -> int:
    """The number that the fork server sends. Raises EOFError, OSError when it is gone."""
    return int(status.recv_bytes(16))


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
        """Send a request and yield the responses up to the one marked as `done`; the process is killed after `seconds` of waiting.

        Raises VideoError or DecoderDied with the sentence that the process sent; EOFError, OSError or KeyError when it died or did
        not keep to the protocol: `cause_of_death` then tells more.
        """
        done = False
        send_message(self.connection, request)
        while not done:
            started = time.monotonic()
            with self._deadline(seconds):
                header, payload = receive_message(self.connection)
            seconds -= time.monotonic() - started
            if "error" in header:
                raise (DecoderDied if header["died"] else VideoError)(str(header["error"]))
            done = header["done"]
            yield header, payload
            del payload  # before the next one is received

    def cause_of_death(self, limits: Limits) -> str:
        """Half a sentence about why the process ended without an answer, from its exit code. Ends it if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_EXIT_SECONDS)
        self.end()
        code = self.process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if self._late.is_set():
            return f"decoding took longer than {limits.wall_seconds:g} s and was stopped"
        if name == "SIGXCPU":
            return f"decoding took more than {limits.cpu_seconds:g} s of processor time and was stopped"
        if name == "SIGKILL":
            return "the decoding process was killed, most often because memory ran out"
        return f"the decoder crashed ({name})"

    def end(self) -> None:
        """Kill the process, so that a thread that reads from it gets EOFError. Leaves no zombie. Nothing in a fork of the parent.

        The connection stays open: closing it under a reading thread would let that thread read from whatever is opened next.
        """
        if os.getpid() != self._owner:
            return
        self.process.kill()
        if isinstance(self.process, ForkedProcess):
            self.process.release()
        else:
            self.process.wait()

    @contextlib.contextmanager
    def _deadline(self, seconds: float) -> Iterator[None]:
        timer = threading.Timer(seconds, self._stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _stop(self) -> None:
        self._late.set()
        self.process.kill()
