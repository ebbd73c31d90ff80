"""Plain HTTP for a whole crowd from one event loop, so light that reading costs little beside the server that is measured."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

OK, SERVICE_UNAVAILABLE = 200, 503
FILE_META = {"_type": "gradio.FileData"}
"""What marks a file in an input."""
MAX_LINE = 1 << 26


class HttpClient:
    """One server. The oldest HTTP will do: an answer lasts until the connection ends."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)

    @asynccontextmanager
    async def request(self, path: str, body: bytes | None = None, kind: str = "application/json") -> AsyncIterator[tuple[int, Any]]:
        """Ask for `path` (with a body: post it); gives the status and the stream of the answer."""
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=MAX_LINE)
        try:
            head = f"{'GET' if body is None else 'POST'} /{path} HTTP/1.0\r\nHost: {self._host}:{self._port}\r\n"
            if body is not None:
                head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            writer.write(head.encode() + b"\r\n" + (body or b""))
            told = await reader.readuntil(b"\r\n\r\n")
            yield int(told.split(b" ", 2)[1]), reader
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        async with self.request(path) as (status, stream):
            return status, await stream.read()

    async def post(self, path: str, value: Any) -> tuple[int, Any]:
        """Post a JSON value; status and the JSON value that comes back."""
        async with self.request(path, json.dumps(value).encode()) as (status, stream):
            return status, json.loads(await stream.read())

    async def upload(self, clip: Path) -> str:
        """Where the server keeps the clip."""
        line = secrets.token_hex(16)
        head = f'--{line}\r\nContent-Disposition: form-data; name="files"; filename="{clip.name}"\r\n\r\n'
        body = head.encode() + clip.read_bytes() + f"\r\n--{line}--\r\n".encode()
        async with self.request("gradio_api/upload", body, f"multipart/form-data; boundary={line}") as (_, stream):
            (path,) = json.loads(await stream.read())
            return str(path)
