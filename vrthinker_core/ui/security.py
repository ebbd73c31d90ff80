"""What stands before the page: limits of a request, host and origin, cookies, open pages.

Gradio limits the size of an uploaded file and of nothing else: a body of any size is kept in
memory, and made into values while everybody waits. It also offers what this page never uses: FFmpeg
for recordings, a proxy to public web addresses, functions of components.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from gradio.route_utils import FnIndexInferError
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.ui.queue import MAX_UPLOAD_BYTES
from vrthinker_core.ui.visitors import (
    COOKIE,
    COOKIE_SECONDS,
    HERE_COOKIE,
    Visitors,
    host_name,
    ip_of,
    split_url,
)

MAX_UNFINISHED_BYTES = 256 * 2**20  # of all bodies that have begun to come and are not whole yet
# In which more of an upload must come, or all of another body, or some of an answer be taken
STALL_SECONDS = 30.0
DRAIN_SECONDS = 2.0  # for the rest of a body that was refused
MAX_VALUES = 20_000  # of one body's JSON; a video in it is one
MAX_DEPTH = 50  # of lists and objects in each other
QUICK_BYTES = 2**16  # a body up to this size is checked at once, a larger one in a thread


class Refusal(Exception):
    """A request that is refused: (sentence, status)."""


TOO_SLOW = "The rest of this request did not come in time. Send it again.", 408
NO_ROOM = "Too much is being sent at once. Try again in a minute.", 503
TOO_DEEP = (
    f"This request is nested too deep. At most {MAX_DEPTH} lists and objects in each other are read.",
    400,
)
MAX_ID = 100  # characters of a page's, an upload's or an event's name: each is kept in memory
IDS = ("session_hash", "upload_id", "event_id")
LONG_ID = f"The names {', '.join(IDS)} have at most {MAX_ID} characters.", 400


class Body:
    """The body of one request, as it comes."""

    def __init__(self, scope: Scope, receive: Receive, others: "set[Body]") -> None:
        """Take as many bytes as such a request may have; `others`: bodies that are not whole."""
        self.is_upload = path_of(scope).rstrip("/") == "/gradio_api/upload"
        self._limit = MAX_UPLOAD_REQUEST_BYTES if self.is_upload else MAX_BODY_BYTES
        self._receive, self._others = receive, others
        self._size, self._last_seen = 0, time.monotonic()
        self._patience: asyncio.Timeout | None = None
        self._is_whole = self._is_cut = False

    async def receive(self) -> Message:
        """Return the next message."""
        message = await self._receive()
        self._is_whole = not message.get("more_body")
        return message

    async def receive_within(self) -> Message:
        """Return the next message. Raises Refusal if it is too large, stalls, or has no room."""
        try:
            async with asyncio.timeout(STALL_SECONDS) as self._patience:
                message = await self.receive()
        except TimeoutError:
            raise Refusal(*(NO_ROOM if self._is_cut else TOO_SLOW)) from None
        finally:
            self._patience = None
        self._last_seen = time.monotonic()
        self._size += len(message.get("body", b""))
        self.check_size(self._size)
        if self._is_whole:
            self._others.discard(self)
        else:
            self._others.add(self)
            self._make_room()
        if self._is_cut:
            raise Refusal(*NO_ROOM)
        return message

    def check_size(self, size: int) -> None:
        """Raise Refusal if so many bytes are too many."""
        if size > self._limit:
            raise Refusal(f"At most {self._limit / 1e6:.0f} MB are taken at once.", 413)

    def _make_room(self) -> None:
        """Cut bodies that are large and stall until the others are within the limit."""
        while sum(body._size for body in self._others) > MAX_UNFINISHED_BYTES:
            now = time.monotonic()
            worst = max(self._others, key=lambda body: body._size * (now - body._last_seen))
            self._others.remove(worst)
            worst._is_cut = True
            if worst._patience is not None:
                worst._patience.reschedule(0)  # at once

    async def drain(self) -> None:
        """Read a refused body's rest: a sending client would miss the answer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._is_whole:
                    await self.receive()


def _check(body: bytes) -> None:
    """Raise Refusal for JSON that is slow to read or breaks Gradio."""
    if sum(map(body.count, (b"[", b"{", b","))) > MAX_VALUES:
        raise Refusal(f"This request has too many values. At most {MAX_VALUES:,} are taken.", 413)
    try:
        with suppress(ValueError):  # Not JSON: let the route refuse it
            _check_value(json.loads(body))
    except RecursionError:
        raise Refusal(*TOO_DEEP) from None


def _check_value(value: Any, depth: int = 0) -> None:
    if not isinstance(value, dict | list):
        return
    if depth == MAX_DEPTH:
        raise Refusal(*TOO_DEEP)
    if isinstance(value, dict):
        for name in IDS:
            if isinstance(found := value.get(name), str) and len(found) > MAX_ID:
                raise Refusal(*LONG_ID)
        if isinstance(path := value.get("path"), str) and "\0" in path:
            raise Refusal("The path of a file cannot contain the character NUL.", 400)
    for inner in value.values() if isinstance(value, dict) else value:
        _check_value(inner, depth + 1)


UNUSED = (
    *("file=http", "file/http", "proxy=", "process_recording", "component_server", "stream/"),
    *("deep_link", "vibe", "undo-vibe", "dev/"),
)
BLOCKED_PATHS = tuple(f"/gradio_api/{name}" for name in UNUSED)  # The page never requests them

MAX_UPLOAD_REQUEST_BYTES = MAX_UPLOAD_BYTES + 2**20  # the largest file and the headers of its part
MAX_BODY_BYTES = 10_000_000  # any other request: small, unless it brings videos as data URLs
MAX_URL_BYTES = 8000
MAX_NAME_BYTES = 255  # no file has a longer name

CALLS = tuple(f"/gradio_api/{name}" for name in ("run/", "api/", "call/", "queue/join"))
NO_FUNCTION = (
    "There is no such function here, or not with these parameters. /gradio_api/info lists those there are.",
    404,
)
SERVER_ERROR = "Something went wrong on this server. Try again, or tell whoever runs it."


def path_of(scope: Scope) -> str:
    """Return a request's path below the page's own."""
    path: str = scope.get("path", "")
    return path.removeprefix(scope.get("root_path", ""))


def is_page(scope: Scope) -> bool:
    """Whether a browser asks for the page itself."""
    return scope["type"] == "http" and scope["method"] == "GET" and path_of(scope) == "/"


class RequestLimitsMiddleware:
    """ASGI middleware that answers a refusal with a status and a sentence."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._unfinished = app, set[Body]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body, answer, has_begun = Body(scope, receive, self._unfinished), None, False

        async def send_in_time(message: Message) -> None:
            """Send, or end with who takes nothing any more: they hold what is still to be sent."""
            nonlocal has_begun
            has_begun = True
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        try:
            with suppress(ClientDisconnect):  # Nobody is there to be answered
                await self._answer(scope, body, send_in_time)
        except Refusal as refusal:
            answer = PlainTextResponse(*refusal.args)
        except Exception as error:
            if not has_begun:
                await PlainTextResponse(SERVER_ERROR, 500)(scope, receive, send)
            elif isinstance(error.__cause__, HTTPException):
                # Gradio's stream has said that it knows no such session, and ends.
                await send({"type": "http.response.body"})
                return
            raise  # the log says what it was
        finally:
            self._unfinished.discard(body)
        if answer is not None:  # by now nothing holds what had come of the body
            await body.drain()
            if not has_begun:
                await answer(scope, receive, send)

    async def _answer(self, scope: Scope, body: Body, send: Send) -> None:
        """Raise Refusal, also for a call of a function that Gradio does not find."""
        path = path_of(scope)
        names = path.encode().split(b"/")
        if path.lower().startswith(BLOCKED_PATHS) or max(map(len, names)) > MAX_NAME_BYTES:
            raise Refusal("There is nothing here.", 404)
        if len(path) + len(scope["query_string"]) > MAX_URL_BYTES:
            at_most = f"At most {MAX_URL_BYTES:,} characters are read."
            raise Refusal(f"This address is too long. {at_most}", 414)
        query = QueryParams(scope["query_string"]).multi_items()
        if any(name in IDS and len(value) > MAX_ID for name, value in query):
            raise Refusal(*LONG_ID)
        headers = MutableHeaders(scope=scope)
        if "," in headers.get("range", ""):
            del headers["range"]  # Gradio reads one part; the whole is fine
        receive = await self._checked(scope, body) if scope["method"] == "POST" else body.receive
        try:
            await self._app(scope, receive, send)
        except (FnIndexInferError, KeyError, TypeError):
            if path.startswith(CALLS):
                raise Refusal(*NO_FUNCTION) from None
            raise

    async def _checked(self, scope: Scope, body: Body) -> Receive:
        """Return what gives an upload as it comes, or another body that was checked."""
        length = Headers(scope=scope).get("content-length", "")
        body.check_size(int(length) if length.isdecimal() else 0)
        if body.is_upload:
            return body.receive_within
        try:
            async with asyncio.timeout(STALL_SECONDS):
                whole = await Request(scope, body.receive_within).body()
        except TimeoutError:
            raise Refusal(*TOO_SLOW) from None
        if len(whole) <= QUICK_BYTES:
            _check(whole)
        else:
            await asyncio.to_thread(_check, whole)
        again: list[Message] = [{"type": "http.request", "body": whole}]

        async def receive_again() -> Message:
            """The body again, then what else comes."""
            return again.pop() if again else await body.receive()

        return receive_again


# Keeps the browser from every other server, whatever a text contains. Gradio's own scripts need
# inline code and eval.
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
SECURITY_HEADERS = (("x-content-type-options", "nosniff"), ("referrer-policy", "same-origin"))
# The report of a link may stand in anybody's page: everywhere it has an origin of its own, and so
# no cookie and no word with this server
REPORT = re.compile(r"/reports/[^/]+\.html")
REPORT_POLICY = "sandbox allow-scripts; frame-ancestors *"
HUB = "https://huggingface.co"  # Shows a Space in a frame


HOST = re.compile(r"[\w.:, \[\]-]{0,300}", re.ASCII)  # as a list of proxies may have it
ODD_HOST = "X-Forwarded-Host of this request names no host."
UNKNOWN_NAME = "This server does not know that it is {0}: start it with --name {0}."


class GuardMiddleware:
    """ASGI middleware: refuses foreign hosts and origins, says who asks, gives browsers a cookie.

    400 for hosts besides localhost and `names`, 403 for foreign origins. A proxy in front may put
    another host into `Host` and the browser's into `X-Forwarded-Host`. No other site can make a
    browser send that header: this guard refuses to be asked beforehand. A proxy also keeps the path
    below which the page is served or strips it: each request gets it, as Starlette needs it.

    The token in the page's first address becomes a cookie, too: who has it is at this machine.
    """

    def __init__(
        self,
        app: ASGIApp,
        visitors: Visitors,
        names: Iterable[str] = (),
        root: str = "",
        in_frame: bool = False,
    ) -> None:
        """Accept `names`; serve below `root`: a path, the page's whole address, or "".

        A page of these names may show this one in a frame; with `in_frame` the hub may, too.
        """
        self._app, self._visitors = app, visitors
        self._root, self._in_frame = urlsplit(root), in_frame
        framing = [f"{name}:*" for name in names if re.fullmatch(r"[\w.-]+", name)]
        around = " ".join(["'self'", *framing, *([HUB] if in_frame else [])])
        self._policy = f"{CONTENT_SECURITY_POLICY}; frame-ancestors {around}"
        own = self._root.hostname or "localhost"
        self._names = {name.lower() for name in ("localhost", own, *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; `visitor_of` knows who sends it."""
        app, added = self._app, list[tuple[str, str]]()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                for name, value in added:
                    MutableHeaders(scope=message).append(name, value)
            await send(message)

        if scope["type"] in ("http", "websocket"):
            path, root = scope["path"], self._root.path
            is_whole = path == root or path.startswith(f"{root}/")
            scope = {**scope, "root_path": root, "path": path if is_whole else root + path}
            request = HTTPConnection(scope)
            if refusal := self._refusal(request):
                app = PlainTextResponse(*refusal)
            else:
                scope.setdefault("state", {})["visitor"] = self._visitors.of(request)
                policy = REPORT_POLICY if REPORT.fullmatch(path_of(scope)) else self._policy
                added = [("content-security-policy", policy), *SECURITY_HEADERS]
                if is_page(scope):
                    cookie, app = self._cookie(request)
                    added.append(("set-cookie", cookie))
        await app(scope, receive, send_with_headers)

    def _refusal(self, request: HTTPConnection) -> tuple[str, int] | None:
        """Return the sentence and the status for a foreign host or origin."""
        headers = request.headers
        if any(not HOST.fullmatch(each) for each in headers.getlist("x-forwarded-host")):
            return ODD_HOST, 400
        host = headers.get("host", "").lower()
        public = headers.get("x-forwarded-host", "").partition(",")[0].strip().lower() or host
        knows = self._is_own(public)
        if not self._is_own(host) or (not knows and is_page(request.scope)):
            return UNKNOWN_NAME.format(host_name(host if knows else public)), 400
        own = {host, self._root.netloc.lower(), public if knows else host} - {""}
        if "origin" in headers and split_url(headers["origin"]).netloc.lower() not in own:
            return "Only this server's own page may do that.", 403
        return None

    def _is_own(self, host: str) -> bool:
        name = host_name(host)  # Only a name can be made to resolve to this server
        return name in self._names or ip_of(name) is not None

    def _cookie(self, request: HTTPConnection) -> tuple[str, ASGIApp]:
        """Return the cookie for the page's browser, and what answers it."""
        secure = "; Secure" if self._in_frame or self._visitors.is_secure(request) else ""
        root = request.scope["root_path"]
        rest = f"Path={root or '/'}; HttpOnly{secure}; "
        if self._visitors.admits(request.query_params.get("token", "")):
            query = request.url.remove_query_params("token").query
            answer = RedirectResponse(f"{root}/{f'?{query}' if query else ''}", 303)
            return f"{HERE_COOKIE}={self._visitors.token}; {rest}SameSite=Strict", answer
        value = self._visitors.signed(request.cookies.get(COOKIE, ""))
        # In a frame a cookie is only taken with these, and is another one for each site around it
        site = "SameSite=None; Partitioned" if self._in_frame else "SameSite=Lax"
        return f"{COOKIE}={value}; Max-Age={COOKIE_SECONDS}; {rest}{site}", self._app


HEARTBEAT_PATH = "/gradio_api/heartbeat/"


class OpenPagesMiddleware:
    """ASGI middleware: a page is in `pages` as long as it holds Gradio's heartbeat.

    Gradio's own heartbeat is a stream, and a browser keeps at most six connections open to a server
    without HTTP/2: a sixth page is not even drawn within 20 s. A WebSocket is not counted: each of
    seven pages answers within 0.1 s.
    """

    def __init__(self, app: ASGIApp, pages: Counter[str]) -> None:
        self._app, self._pages = app, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; hold a heartbeat's WebSocket as long as its stream."""
        path = path_of(scope)
        if scope["type"] not in ("http", "websocket") or not path.startswith(HEARTBEAT_PATH):
            await self._app(scope, receive, send)
            return
        session_id = path.removeprefix(HEARTBEAT_PATH)
        self._pages[session_id] += 1
        try:
            answer = self._app if scope["type"] == "http" else self._hold
            await answer(scope, receive, send)
        finally:
            self._pages[session_id] -= 1
            if not self._pages[session_id]:
                del self._pages[session_id]

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the WebSocket on as the request for the stream."""
        await receive()  # that it would connect
        has_gone = False

        async def wait_until_gone() -> Message:
            nonlocal has_gone
            while not has_gone:
                has_gone = (await receive())["type"] == "websocket.disconnect"
            return {"type": "http.disconnect"}

        async def send_state(message: Message) -> None:
            nonlocal has_gone
            if message["type"] == "http.response.start" and not has_gone:
                has_gone = message["status"] != 200
                await send({"type": "websocket.close" if has_gone else "websocket.accept"})

        # By this version of ASGI a stream learns from `receive` that the page has gone.
        asgi = {"version": "3.0", "spec_version": "2.3"}
        request = {"type": "http", "method": "GET", "asgi": asgi}
        scheme = scope["scheme"].replace("ws", "http")
        await self._app({**scope, **request, "scheme": scheme}, wait_until_gone, send_state)
        if not has_gone:
            await send({"type": "websocket.close"})
