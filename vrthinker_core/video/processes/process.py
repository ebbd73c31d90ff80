"""A process for hostile files as its parent holds it: how it is started, watched and ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from vrthinker_core.video.limits import Limits

# The process must find this very package, in place or installed, without importing the public names and all that they need: so the
# package is entered by its folder alone. Nothing is taken from the working directory (-P).
_BOOT = (
    "import importlib, sys, types; package = types.ModuleType('vrthinker_core'); package.__path__ = [sys.argv[1]]; "
    "sys.modules['vrthinker_core'] = package; importlib.import_module(sys.argv[2]).main()"
)
WORKER = "vrthinker_core.video.frames.worker"
"""Serves one clip."""

_PACKAGE = Path(__file__).resolve().parents[2]
# Keys and tokens of the parent have no business in a process that decodes hostile files.
_ENVIRONMENT = ("PATH", "HOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "PYTHONHOME", "PYTHONPATH", "LANG")
# One arena and one thread: address space is what the memory limit counts. Freed pictures go back to the heap, not to the kernel,
# which saves a tenth of the time of a pass over 1080p.
_SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}

FORK_REQUEST = b"f"
"""The nursery is asked for a fork; with it come the fork's input, its output, and the line on which it is reported."""
EXIT_CODE = struct.Struct("<i")
"""What the nursery says on that line: the process number as soon as it lives, and once it has ended its exit code."""


class ForkedProcess:
    """A fork of the nursery (see `decoders`), as `subprocess.Popen` shows a process. Not for use in a fork of its owner.

    `line` tells its exit code, once; whoever closes it has the nursery end and reap the process.
    """

    def __init__(self, pid: int, line: socket.socket, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._line = line
        self._lock = threading.Lock()

    def kill(self) -> None:
        """End it at once. Its number is its own until its end was heard of."""
        with self._lock:
            if self.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended. Raises subprocess.TimeoutExpired."""
        with self._lock:
            if self.returncode is None:
                self._line.settimeout(timeout)
                try:
                    self.returncode = read_number(self._line)
                except TimeoutError:
                    raise subprocess.TimeoutExpired("a decoding process", timeout or 0) from None
                except (OSError, EOFError):
                    self.returncode = -signal.SIGKILL  # the nursery itself was killed
                self._line.close()
            return self.returncode

    def abandon(self) -> None:
        """Let the nursery reap it; nobody asks for its exit code any more."""
        with self._lock:
            if self.returncode is None:
                self.returncode = -signal.SIGKILL
                self._line.close()


def read_number(line: socket.socket) -> int:
    """What the nursery says next. Raises EOFError when it has nothing more to say, TimeoutError."""
    said = line.recv(EXIT_CODE.size, socket.MSG_WAITALL)
    if len(said) < EXIT_CODE.size:
        raise EOFError
    return int(EXIT_CODE.unpack(said)[0])


WorkerProcess = subprocess.Popen[bytes] | ForkedProcess


def start_process(module: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """A new process that runs `main()` of a module of this package, with pipes to its input (or `stdin`) and output."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _BOOT, str(_PACKAGE), module],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment | _SETTINGS,
        start_new_session=True,
    )


def end_process(process: WorkerProcess, owner: int) -> None:
    """No process, no zombie and no open pipe stays behind. A fork of the owner (its process id) has no say in this."""
    if os.getpid() != owner:
        return
    process.kill()
    if isinstance(process, ForkedProcess):
        process.abandon()
    else:
        process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def deadline(process: WorkerProcess, seconds: float, late: threading.Event) -> Iterator[None]:
    """Kills the process after `seconds`: whoever reads from it then reads its end."""

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def cause_of_death(code: int, late: bool, limits: Limits) -> str:
    """Half a sentence about why a process ended without an answer, from its exit code."""
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if late:
        return f"decoding took longer than {limits.wall_seconds:g} s and was stopped"
    if name == "SIGXCPU":
        return f"decoding took more than {limits.cpu_seconds:g} s of processor time and was stopped"
    if name == "SIGKILL":
        return "the decoding process was killed, most often because memory ran out"
    return f"the decoder crashed ({name})"
