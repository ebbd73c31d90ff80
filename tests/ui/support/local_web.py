"""A local web server that replies as a test wants, and how a refusal must look."""

import http.server
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.fetch import FetchPolicy, fetch_video

VIDEO = bytes(range(256)) * 400


class Reply(NamedTuple):
    """What is sent after a delay, then a drop again and again, with a pause after each."""

    head: bytes = b""
    drop: bytes = b""
    pause: float = 0.05  # so that no single read has to wait long
    delay: float = 0


def responds(status: int = 200, body: bytes = VIDEO, length: int = -1, **headers: str) -> Reply:
    """`length`: the one that is announced, by default that of the body."""
    headers["Content_Length"] = str(len(body) if length < 0 else length)
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return Reply(f"HTTP/1.1 {status} Said\r\n{''.join(lines)}\r\n".encode() + body)


def redirects(place: str) -> Reply:
    return responds(302, b"", Location=place)


class Handler(http.server.BaseHTTPRequestHandler):
    server: "LocalWeb"

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers))
        self.close_connection = True
        reply = self.server.replies[self.path.partition("?")[0]]
        time.sleep(reply.delay)
        with suppress(OSError):  # the client has hung up
            self.wfile.write(reply.head)
            while reply.drop:
                self.wfile.write(reply.drop)
                time.sleep(reply.pause)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class LocalWeb(http.server.ThreadingHTTPServer):
    """The server, with `hosts` as its name server; only 127.0.0.1 counts as public."""

    daemon_threads, block_on_close = True, False
    connected: list[str]

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        """Serve, over TLS if there is a context."""
        super().__init__(("127.0.0.1", 0), Handler)
        if context is not None:
            secured = {"server_side": True, "do_handshake_on_connect": False}
            self.socket = context.wrap_socket(self.socket, **secured)
        self.port, self.lookups = self.server_address[1], list[str]()
        self.replies = {"/film.mp4": responds(Content_Type="video/mp4")}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.hosts = {"film.example": ["127.0.0.1"], "private.example": ["10.0.0.7"]}
        self.policy = FetchPolicy(self._resolve, lambda address: address == "127.0.0.1", ports=None)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *error: Any) -> None:
        self.shutdown()
        super().__exit__(*error)

    def handle_error(self, *_: Any) -> None:
        """Quiet."""

    def url(self, path: str = "/film.mp4", scheme: str = "http") -> str:
        return f"{scheme}://film.example:{self.port}{path}"

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append(host)
        if host in self.hosts:
            return self.hosts[host]
        if host.replace(".", "").isdigit() or ":" in host:
            return [host]
        raise OSError("no such host")


def refusal(url: str, folder: Path, policy: FetchPolicy, **rest: float) -> str:
    """The sentence with which a download is refused; no file may be left."""
    with pytest.raises(BadInput, match=r"^[^\n]*\.$") as caught:
        fetch_video(url, folder, policy=policy, **rest)
    assert not folder.exists() or not list(folder.iterdir())
    return str(caught.value)
