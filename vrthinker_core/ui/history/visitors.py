"""Who a visitor is: a random cookie, of which the server keeps nothing but its hash."""

import hashlib
import re
import secrets
from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "vr-thinker-visitor"
COOKIE_SECONDS = 30 * 24 * 3600  # after the page was opened last
_VALUE = re.compile(r"[A-Za-z0-9_-]{43}")  # 32 random bytes


def owner_of(cookies: Mapping[str, str]) -> str:
    """The visitor who sent these cookies, as 64 hexadecimal digits; "" for one who has none of ours."""
    value = cookies.get(COOKIE, "")
    return hashlib.sha256(value.encode()).hexdigest() if _VALUE.fullmatch(value) else ""


class VisitorCookieMiddleware:
    """ASGI middleware: gives each browser that opens the page a cookie. `in_frame`: the page is embedded in one of another site."""

    def __init__(self, app: ASGIApp, in_frame: bool = False) -> None:
        self._app = app
        # A cookie of a page in a frame is only taken with these, and is then another one for each site around it.
        self._where = "SameSite=None; Secure; Partitioned" if in_frame else "SameSite=Lax"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; the answer to one for the page itself sets the cookie, the same one for as long as it comes."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        cookies = HTTPConnection(scope).cookies
        value = cookies[COOKIE] if owner_of(cookies) else secrets.token_urlsafe(32)
        cookie = f"{COOKIE}={value}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; {self._where}"

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, send_with_cookie)
