"""A process that has the decoders loaded and touches no file: it forks a decoding process whenever its parent asks for one.

A fresh process spends more time on loading the decoders than most clips take to decode; a fork spends none. Linux only.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
from dataclasses import dataclass

from vrthinker_core.video.frames import worker
from vrthinker_core.video.processes.process import EXIT_CODE

_HANDED_OVER = 3
"""Ends that come with a request: input, output, line."""


def main() -> None:
    """Serve the socket that is standard input, until the parent hangs up; then nothing stays behind."""
    gc.freeze()  # what is loaded is never collected, so forks go on sharing its memory
    with socket.socket(fileno=0) as control:
        ForkServer(control).serve()


@dataclass(slots=True)
class _Fork:
    """A decoding process. It is reaped when the parent has hung up on its line, so its number is not given to another before."""

    pid: int
    line: socket.socket
    reported: bool = False


class ForkServer:
    """Forks, reports and reaps; one thread."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._forks: list[_Fork] = []
        self._woken, self._wakes = socket.socketpair()
        self._events = selectors.DefaultSelector()

    def serve(self) -> None:
        """Until the parent hangs up."""
        self._wakes.setblocking(False)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._events.register(self._control, selectors.EVENT_READ, None)
        self._events.register(self._woken, selectors.EVENT_READ, None)
        while True:
            for key, _ in self._events.select():
                if key.fileobj is self._control:
                    asked, handed, _, _ = socket.recv_fds(self._control, 1, _HANDED_OVER)
                    if not asked:
                        self._end_all()
                        return
                    self._fork(*handed)
                elif key.fileobj is self._woken:
                    self._woken.recv(4096)
                    self._report()
                else:
                    self._reap(key.data)

    def _fork(self, input_end: int, output_end: int, line_end: int) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_worker(input_end, output_end)
        os.close(input_end)
        os.close(output_end)
        fork = _Fork(pid, socket.socket(fileno=line_end))
        self._forks.append(fork)
        self._events.register(fork.line, selectors.EVENT_READ, fork)
        _say(fork.line, EXIT_CODE.pack(pid))

    def _become_worker(self, input_end: int, output_end: int) -> None:
        """In the fork: nothing of the nursery is kept but what is loaded."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.dup2(input_end, 0)
            os.dup2(output_end, 1)
            os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 1 << 16)
            worker.main()
        finally:
            os._exit(1)

    def _report(self) -> None:
        """Tell of every fork that has ended."""
        for fork in self._forks:
            if fork.reported:
                continue
            ended = os.waitid(os.P_PID, fork.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None:
                fork.reported = True
                _say(fork.line, EXIT_CODE.pack(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status))

    def _reap(self, fork: _Fork) -> None:
        """The parent has hung up on a fork: it ends, and its number is free again."""
        self._events.unregister(fork.line)
        fork.line.close()
        self._forks.remove(fork)
        os.kill(fork.pid, signal.SIGKILL)
        os.waitpid(fork.pid, 0)

    def _end_all(self) -> None:
        for fork in list(self._forks):
            self._reap(fork)


def _say(line: socket.socket, message: bytes) -> None:
    with contextlib.suppress(OSError):
        line.sendall(message)
