"""What the tests' own HTTP servers share: a free port on this machine, a thread, and no word about clients that go away."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

LOST = {"connection", "host", "transfer-encoding", "content-length"}
"""Headers that a proxy does not pass on."""


@cache
def _ports(process: int) -> count[int]:
    return count(20_000 + process % 100 * 100)


def free_port() -> int:
    """One that neither an outgoing connection nor another process of the tests gets meanwhile."""
    return next(filter(_is_free, _ports(os.getpid())))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """No line on standard error for each request."""

    def pass_on(
        self, host: str, port: int, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> None:
        """Answer as another server does."""
        with closing(http.client.HTTPConnection(host, port, timeout=300)) as connection:
            connection.request(self.command, path, body, dict(headers))
            answer = connection.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in LOST:
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            with suppress(OSError, http.client.HTTPException):
                while part := answer.read1(65536):
                    self.wfile.write(part)
                    self.wfile.flush()


class LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: Callable[..., QuietHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may go away: that is what some tests are about."""


Server = TypeVar("Server", bound=LoopbackServer)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """The server, as long as the block lasts."""
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Files(QuietHandler, SimpleHTTPRequestHandler):
    """Those of a folder."""


@contextmanager
def serving_files(folder: Path) -> Iterator[str]:
    """The address of a server that gives the files in `folder`, as long as the block lasts."""
    with serving(LoopbackServer(partial(_Files, directory=str(folder)))) as server:
        yield server.address
