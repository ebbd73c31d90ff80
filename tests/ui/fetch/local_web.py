"""A local web server that replies as a test wants, and what the sentence of a refusal must look like."""

from __future__ import annotations

import http.server
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.download import fetch_video
from vrthinker_core.ui.public_addresses import FetchPolicy

VIDEO = bytes(range(256)) * 400
Reply = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Replies as the test wants."""

    replies: dict[str, Reply]
    requests: list[tuple[str, dict[str, str]]]

    def do_GET(self) -> None:
        self.requests.append(
            (self.path, {name.lower(): value for name, value in self.headers.items()})
        )
        self.close_connection = True
        try:
            self.replies[self.path.partition("?")[0]](self)
        except OSError:
            return  # the client hung up

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def responds(
    status: int = 200, body: bytes = VIDEO, length: int | None = None, **headers: str
) -> Reply:
    def reply(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        if length != -1:
            handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def redirects(place: str) -> Reply:
    return responds(302, b"", Location=place)


def drips(head: bytes, drop: bytes) -> Reply:
    """Sends `head`, then `drop` every 50 ms without end: no single read has to wait long."""

    def reply(handler: Handler) -> None:
        handler.wfile.write(head)
        while True:
            handler.wfile.write(drop)
            handler.wfile.flush()
            time.sleep(0.05)

    return reply


def floods(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
    while True:
        handler.wfile.write(VIDEO)


def raw(text: bytes) -> Reply:
    return lambda handler: handler.wfile.write(text) and None


class LocalWeb:
    """The server with a name server of its own: `hosts` gives the addresses of names; only 127.0.0.1 counts as public."""

    def __init__(self, server: http.server.HTTPServer) -> None:
        self.port = server.server_address[1]
        self.replies = Handler.replies = {"/film.mp4": responds(Content_Type="video/mp4")}
        self.requests = Handler.requests = []
        self.hosts: dict[str, Sequence[str]] = {
            "film.example": ["127.0.0.1"],
            "private.example": ["10.0.0.7"],
        }
        self.lookups: list[str] = []
        self.policy = FetchPolicy(self._resolve, lambda address: address == "127.0.0.1", ports=None)

    def url(self, path: str = "/film.mp4", host: str = "film.example") -> str:
        return f"http://{host}:{self.port}{path}"

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append(host)
        if host in self.hosts:
            return self.hosts[host]
        if host.replace(".", "").isdigit() or ":" in host:
            return [host]
        raise OSError("no such host")


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[http.server.HTTPServer]:
    """A running server, over TLS when there is a context."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        running.block_on_close = False
        if context is not None:
            running.handle_error = lambda *_: None
            running.socket = context.wrap_socket(
                running.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        yield running
        running.shutdown()


def refusal(url: str, folder: Path, policy: FetchPolicy, **rest: float) -> str:
    """The sentence with which a download is refused; no file may be left."""
    with pytest.raises(BadInput) as caught:
        fetch_video(url, folder, policy=policy, **rest)
    assert not folder.exists() or not list(folder.iterdir())
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence
