"""An HTTP client for hundreds of connections in one event loop, so light that reading costs little beside the measured server."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.ui.support.api import META

OK, SERVICE_UNAVAILABLE = 200, 503
MAX_LINE = 1 << 26
"""Bytes of one line of a stream."""


class HttpClient:
    """One server. Speaks HTTP/1.0: one connection a request, and the body lasts until the connection ends."""

    def __init__(self, url: str, visitor: str = "") -> None:
        """`visitor`: the address that a proxy in front of the server would name."""
        parts = urlsplit(url)
        self.cookie, self.keeps_cookie = "", True
        """What the page has set; sent back with every request."""
        self._forwarded = f"X-Forwarded-For: {visitor}\r\n" if visitor else ""
        self._host, self._port = str(parts.hostname), int(parts.port or 80)

    @asynccontextmanager
    async def request(
        self, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> AsyncIterator[tuple[int, asyncio.StreamReader]]:
        """GET `path`, or POST `body` to it; gives the status and the stream of the response's body."""
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=MAX_LINE)
        try:
            head = f"{'GET' if body is None else 'POST'} /{path} HTTP/1.0\r\nHost: {self._host}:{self._port}\r\n{self._forwarded}"
            head += f"Cookie: {self.cookie}\r\n" if self.cookie else ""
            if body is not None:
                head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"\r\n" + (body or b""))
            response_head = await reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"\r\nset-cookie: ([^;]+)", response_head)
            if found and self.keeps_cookie:
                self.cookie = found[1].decode()
            yield int(response_head.split(b" ", 2)[1]), reader
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        async with self.request(path) as (status, stream):
            return status, await stream.read()

    async def post(self, path: str, value: Any) -> tuple[int, Any]:
        """Post a JSON value; gives the status and the JSON value of the response."""
        async with self.request(path, json.dumps(value).encode()) as (status, stream):
            return status, json.loads(await stream.read())

    async def upload(self, clip: Path) -> dict[str, Any]:
        """Upload a file; gives the value with which an event or a call names it."""
        boundary = secrets.token_hex(16)
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="{clip.name}"\r\n\r\n'
        body = head.encode() + clip.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        async with self.request(
            "gradio_api/upload", body, f"multipart/form-data; boundary={boundary}"
        ) as (_, stream):
            (path,) = json.loads(await stream.read())
            return {"path": path, "orig_name": clip.name, "meta": META}
