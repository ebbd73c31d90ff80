"""The parent's handle of a worker process: start, watch and end it."""

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

CLIP_WORKER = "vrthinker_core.video.clip_worker"  # the module that serves one clip

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


def start_worker(module: str) -> Worker:
    """Start a worker in a new process."""
    ours, theirs = Pipe()
    with theirs:
        return Worker(start_module(module, theirs.fileno()), ours)


class ForkedProcess:
    """A child of the fork server, with the `Popen` methods for `Worker`."""

    def __init__(self, pid: int, status: Connection) -> None:
        """Watch the process `pid` through its `status` connection.

        The fork server sends the exit code over `status`. When our end closes, the server kills and
        reaps the process.
        """
        self.pid = pid
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
                    self._code = receive_number(self._status)
                except (OSError, EOFError):
                    self._code = -signal.SIGKILL  # the fork server itself was killed
                self._status.close()
            return self._code

    def release(self) -> None:
        """Let the fork server kill and reap the process."""
        with self._lock:
            if self._code is None:
                self._code = -signal.SIGKILL
                self._status.close()


def receive_number(status: Connection) -> int:
    """Receive a number; raises `EOFError`, `OSError` if the server is gone."""
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
