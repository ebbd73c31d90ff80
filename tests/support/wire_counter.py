"""A proxy that counts: what each chat request weighs, and how many pictures it carries."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.support.loopback_server import LoopbackServer, QuietHandler, serving

_PICTURE = re.compile(rb"data:image/(?:png|webp|bmp);base64,([^\"]+)")


class CountingProxy(LoopbackServer):
    """Passes everything on to `target`, as it comes."""

    def __init__(self, target: str) -> None:
        super().__init__(_Forward)
        self.target = urlsplit(target)
        self.request_bytes: list[int] = []  # Of each chat request, in order
        self.digests: list[list[bytes]] = []  # Of the pictures in each chat request

    @property
    def url(self) -> str:
        return f"{self.address}{self.target.path}"


class _Forward(QuietHandler):
    server: CountingProxy

    def do_GET(self) -> None:
        self._forward(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.request_bytes.append(len(body))
        found = _PICTURE.findall(body)
        self.server.digests.append([hashlib.sha256(each).digest() for each in found])
        self._forward(body)

    def _forward(self, body: bytes | None) -> None:
        target, key = self.server.target, self.headers.get("Authorization", "")
        headers = {"Content-Type": "application/json", "Authorization": key}
        self.pass_on(target.hostname or "", target.port or 80, self.path, body, headers)


@contextmanager
def counting(target: str) -> Iterator[CountingProxy]:
    """A proxy before the server at `target`."""
    with serving(CountingProxy(target)) as proxy:
        yield proxy
