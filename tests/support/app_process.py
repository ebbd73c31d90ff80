"""Processes of `python app.py`."""

from __future__ import annotations

import os
import resource
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import psutil

from tests.support.forks import PAGE

APP = Path(__file__).resolve().parents[2] / "app.py"
USUAL_OPEN_FILES = 1024  # that a process may have where nobody has said otherwise


def start_app(options: Sequence[str], environment: Mapping[str, str], log: Path) -> psutil.Process:
    """Start `python app.py` with these options; what it prints goes to `log`, and runs are kept beside that."""
    command = [sys.executable, str(APP), *_with_own_runs(options, log)]
    with log.open("w") as output:
        return psutil.Popen(
            command, cwd=APP.parent, env=dict(environment), stdout=output, stderr=subprocess.STDOUT
        )


def fork_app(options: Sequence[str], environment: Mapping[str, str], log: Path) -> psutil.Process:
    """The same, forked from a process that has imported the page."""
    known, tell = Pipe(duplex=False)
    told = _with_own_runs(options, log)
    process = PAGE.start(_run_app, told, dict(environment), log, known)
    found = psutil.Process(process.pid)  # its parent reaps it: none is found once it has ended
    tell.send_bytes(b"")
    return found


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs; one that nobody has waited for does not."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _with_own_runs(options: Sequence[str], log: Path) -> list[str]:
    """No server of a test keeps runs in the cache folder of whoever runs it."""
    own = [] if "--runs-folder" in options else ["--runs-folder", str(log.parent / "runs")]
    return [*options, *own]


def _run_app(options: list[str], environment: dict[str, str], log: Path, known: Connection) -> None:
    known.recv_bytes()
    with log.open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL_OPEN_FILES, hard))
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # found again, in this environment
    os.chdir(APP.parent)
    sys.argv = [str(APP), *options]
    runpy.run_path(str(APP), run_name="__main__")
