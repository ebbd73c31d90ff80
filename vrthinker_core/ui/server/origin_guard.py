"""The origin guard: refuses requests from pages of other servers, and under host names that are not this server's.

Without this a page anywhere on the web could upload files to a server on the visitor's own machine (a foreign origin), also under a
host name that was made to resolve to it (DNS rebinding).
"""

import contextlib
import ipaddress
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'self'; "
    "script-src 'self' blob: 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; "
    "connect-src 'self' blob: data:; "
    "font-src 'self' data:; "
    "worker-src 'self' blob:; "
    "object-src 'none'; "
    "base-uri 'self'; "
    "form-action 'self'"
)
"""Keeps the browser from every other server, whatever a text contains. Gradio's own scripts need inline code and eval."""

SECURITY_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
)


class OriginGuardMiddleware:
    """ASGI middleware: 400 for a foreign host, 403 for a foreign origin. `names` are the server's host names besides localhost."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = {name.lower() for name in ("localhost", *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_own_host(host):
            await PlainTextResponse("This server does not go by that name.", 400)(
                scope, receive, send
            )
        elif "origin" in headers and _split(headers["origin"]).netloc.lower() != host.lower():
            await PlainTextResponse("Only this server's own page may do that.", 403)(
                scope, receive, send
            )
        else:

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message = {
                        **message,
                        "headers": [*message.get("headers", ()), *SECURITY_HEADERS],
                    }
                await send(message)

            await self._app(scope, receive, send_with_headers)

    def _is_own_host(self, host: str) -> bool:
        """IP addresses always are: only a name can be made to resolve to this server."""
        name = (_split(f"//{host}").hostname or "").lower()
        with contextlib.suppress(ValueError):
            return name in self._names or bool(ipaddress.ip_address(name))
        return False


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
