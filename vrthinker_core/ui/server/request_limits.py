"""Which of Gradio's own addresses stay shut, and how much may come in through the others.

Gradio limits the size of an uploaded file and of nothing else: a text field or a JSON body of any size goes to memory. It also
offers what this page never uses: FFmpeg for recordings, a way out to any public web address, components' own functions.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BLOCKED_PATHS = tuple(
    f"/gradio_api/{name}"
    for name in (
        "process_recording",
        "component_server",
        "file=http",
        "file/http",
        "proxy=",
        "vibe",
        "undo-vibe",
        "stream/",
        "deep_link",
        "dev/",
    )
)
"""Beginnings of addresses that nothing on the page asks for."""

MAX_FORM_BYTES = 101 * 2**20
"""Bytes of a form: one upload of the largest size, and what stands around it."""

MAX_BODY_BYTES = 64 * 2**20
"""Bytes of any other request: small, unless a program puts its videos into the call itself."""


class RequestLimits:
    """ASGI middleware: 404 for what is shut, 413 for what is announced as too large; who sends more than allowed is hung up on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most = MAX_FORM_BYTES if headers.get("content-type", "").lower().startswith("multipart/form-data") else MAX_BODY_BYTES
        if scope["path"].lower().startswith(BLOCKED_PATHS):
            await PlainTextResponse("There is nothing here.", 404)(scope, receive, send)
        elif _content_length(headers) > most:
            await PlainTextResponse(f"At most {most / 1e6:.0f} MB are taken at once.", 413)(scope, receive, send)
        else:
            await self._app(scope, _limited(receive, most), send)


def _content_length(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isdecimal() else 0


def _limited(receive: Receive, most: int) -> Receive:
    left = most

    async def take() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return take
