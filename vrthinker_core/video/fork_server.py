"""The fork server: a process with loaded decoders that forks workers.

Linux only.

The fork server opens no file. A forked worker sends its first response 7 ms after the request; a
fresh process spends 0.2 s of processor time on loading.

`multiprocessing.forkserver` with the same preloaded modules needs 8 to 19 ms. Its children inherit
secrets that a process with hostile files must not hold: the parent's environment (`HF_TOKEN`),
command line and `authkey`, and the descriptors that keep the server and the resource tracker alive.
They also run an unguarded `__main__` again, and a fork of the owner cannot start any.
"""

import contextlib
import gc
import os
import signal
import socket
from multiprocessing.connection import Connection, wait

from vrthinker_core.video import clip_decoder

_CONNECTION = 3  # a worker's only descriptor besides the standard ones (null device)


def main(handle: int) -> None:
    """Serve the socket `handle` until closed, then kill every worker."""
    gc.freeze()  # keeps loaded modules uncollected, so that forks go on sharing their memory
    with socket.socket(fileno=handle) as control:
        ForkServer(control).serve()


class ForkServer:
    """Server that forks, reports and reaps, in one thread for safe forking."""

    def __init__(self, control: socket.socket) -> None:
        """Serve the requests of `control`.

        A request is a byte and two descriptors: the worker's end of its connection, and our end of
        its status connection.
        """
        self._control = control
        self._wakeups, self._signals = socket.socketpair()
        self._running: dict[Connection, int] = {}
        # Closing the connection reaps an ended process; until then its id stays reserved.
        self._ended: dict[Connection, int] = {}

    def serve(self) -> None:
        """Serve until the owner closes its end of the socket."""
        self._signals.setblocking(False)
        signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            for ready in wait([self._control, self._wakeups, *self._running, *self._ended]):
                if isinstance(ready, Connection):
                    self._reap(ready)
                elif ready is self._wakeups:
                    self._wakeups.recv(4096)
                    for status, pid in list(self._running.items()):
                        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                        if ended is not None:
                            self._ended[status] = self._running.pop(status)
                            exited, code = ended.si_code == os.CLD_EXITED, ended.si_status
                            _send_number(status, code if exited else -code)
                elif not self._accept():
                    for status in [*self._running, *self._ended]:
                        self._reap(status)
                    return

    def _accept(self) -> bool:
        """Fork for one request; return False at the end of requests."""
        request, handles, _, _ = socket.recv_fds(self._control, 1, 2)
        if not request:
            return False
        connection, status = handles[0], Connection(handles[1])
        pid = os.fork()
        if pid == 0:  # The child keeps the loaded modules, but no handlers and descriptors
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.setsid()
                os.dup2(connection, _CONNECTION)
                os.closerange(_CONNECTION + 1, max(os.sysconf("SC_OPEN_MAX"), 1 << 16))
                clip_decoder.main(_CONNECTION)
            finally:
                os._exit(1)
        os.close(connection)
        self._running[status] = pid
        _send_number(status, pid)
        return True

    def _reap(self, status: Connection) -> None:
        pid = self._running.pop(status, None) or self._ended.pop(status)
        status.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _send_number(status: Connection, number: int) -> None:
    with contextlib.suppress(OSError):
        status.send_bytes(b"%d" % number)
