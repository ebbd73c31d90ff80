"""The request limits: which of Gradio's routes are blocked, and how large a request may be.

Gradio limits the size of an uploaded file and of nothing else: a form field or a JSON body of any size is read into memory. It also
offers what this page never uses: FFmpeg for recordings, a proxy to public web addresses, functions of components.
"""

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Prefixes of paths that the page never requests.
PROXIES = ("file=http", "file/http", "proxy=")
UNUSED = ("process_recording", "component_server", "vibe", "undo-vibe", "stream/", "deep_link", "dev/")
BLOCKED_PATHS = tuple(f"/gradio_api/{name}" for name in (*PROXIES, *UNUSED))

MAX_FORM_BYTES = 101 * 2**20  # the largest upload and the headers of its part
MAX_BODY_BYTES = 64 * 2**20  # any other request: small, unless a program sends its videos as data URLs


class RequestLimits:
    """ASGI middleware: 404 for blocked paths, 413 for a Content-Length that is too large; a body that grows too large is cut."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        limit = MAX_FORM_BYTES if headers.get("content-type", "").lower().startswith("multipart/form-data") else MAX_BODY_BYTES
        if scope["path"].lower().startswith(BLOCKED_PATHS):
            await PlainTextResponse("There is nothing here.", 404)(scope, receive, send)
        elif length.isdecimal() and int(length) > limit:
            await PlainTextResponse(f"At most {limit / 1e6:.0f} MB are taken at once.", 413)(scope, receive, send)
        else:
            await self._app(scope, _limited(receive, limit), send)


def _limited(receive: Receive, left: int) -> Receive:
    """The same, until more than `left` bytes have come; then it says that the client has disconnected."""

    async def receive_limited() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return receive_limited
