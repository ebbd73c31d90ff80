"""What stands before the page: limits of a request, host and origin, cookies, open pages.

Gradio limits the size of an uploaded file and of nothing else: a body of any size is kept in
memory, and made into values while everybody waits. It also offers what this page never uses: FFmpeg
for recordings, a proxy to public web addresses, functions of components.
"""

import asyncio
import ipaddress
import json
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from gradio.route_utils import FnIndexInferError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketState

from vrthinker_core.ui.history import COOKIE, owner_of
from vrthinker_core.ui.queue import MAX_UPLOAD_BYTES

MAX_UNFINISHED_BYTES = 256 * 2**20  # of all bodies that have begun to come and are not whole yet
STALL_SECONDS = 30.0  # in which more of an upload must come, or all of another body
DRAIN_SECONDS = 2.0  # for the rest of a body that was refused
MAX_VALUES = 20_000  # of one body's JSON; a video in it is one
MAX_DEPTH = 50  # of lists and objects in each other
QUICK_BYTES = 2**16  # a body up to this size is checked at once, a larger one in a thread


class Refusal(Exception):
    """A request that is refused: (status, sentence)."""


TOO_SLOW = (408, "The rest of this request did not come in time. Send it again.")
NO_ROOM = (503, "Too much is being sent at once. Try again in a minute.")
TOO_DEEP = (
    400,
    f"This request is nested too deep. At most {MAX_DEPTH} lists and objects in each other are read.",
)
MAX_ID = 100  # characters of a page's, an upload's or an event's name: each is kept in memory
IDS = ("session_hash", "upload_id", "event_id")
LONG_ID = (400, f"The names {', '.join(IDS)} have at most {MAX_ID} characters.")


class Body:
    """The body of one request, as it comes."""

    def __init__(self, receive: Receive, limit: int, others: "set[Body]") -> None:
        """Take at most `limit` bytes; `others`: all bodies that are not whole."""
        self._receive, self._limit, self._others = receive, limit, others
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
            raise Refusal(413, f"At most {self._limit / 1e6:.0f} MB are taken at once.")

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
        raise Refusal(413, f"This request has too many values. At most {MAX_VALUES:,} are taken.")
    try:
        _check_value(json.loads(body))
    except RecursionError:
        raise Refusal(*TOO_DEEP) from None
    except ValueError:
        return  # no JSON: whoever it is for says so


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
            raise Refusal(400, "The path of a file cannot contain the character NUL.")
    for inner in value.values() if isinstance(value, dict) else value:
        _check_value(inner, depth + 1)


# Prefixes of paths that the page never requests.
PROXIES = ("file=http", "file/http", "proxy=")
COMPONENTS = ("process_recording", "component_server", "stream/", "deep_link")
UNUSED = ("vibe", "undo-vibe", "dev/")
BLOCKED_PATHS = tuple(f"/gradio_api/{name}" for name in (*PROXIES, *COMPONENTS, *UNUSED))

MAX_UPLOAD_REQUEST_BYTES = MAX_UPLOAD_BYTES + 2**20  # the largest file and the headers of its part
MAX_BODY_BYTES = 10_000_000  # any other request: small, unless it brings videos as data URLs
MAX_URL_BYTES = 8000
MAX_NAME_BYTES = 255  # no file has a longer name

CALLS = tuple(f"/gradio_api/{name}" for name in ("run/", "api/", "call/", "queue/join"))
NO_FUNCTION = (
    404,
    "There is no such function here, or not with these parameters. /gradio_api/info lists those there are.",
)
SERVER_ERROR = "Something went wrong on this server. Try again, or tell whoever runs it."


def path_of(scope: Scope) -> str:
    """Return a request's path below the page's own."""
    path: str = scope.get("path", "")
    return path.removeprefix(scope.get("root_path", ""))


def is_page(scope: Scope) -> bool:
    """Whether a browser asks for the page itself."""
    return scope["type"] == "http" and scope["method"] == "GET" and path_of(scope) == "/"


class SubPathMiddleware:
    """ASGI middleware: gives each request the path below which the page is served.

    A proxy in front keeps that path or strips it. Starlette needs it in every request.
    """

    def __init__(self, app: ASGIApp, root: str) -> None:
        """Serve below `root`: a path, the page's whole address, or ""."""
        self._app, self._path = app, urlsplit(root).path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] in ("http", "websocket"):
            path, root = scope["path"], self._path
            is_whole = path == root or path.startswith(f"{root}/")
            scope = {**scope, "root_path": root, "path": path if is_whole else root + path}
        await self._app(scope, receive, send)


class RequestLimitsMiddleware:
    """ASGI middleware that answers a refusal with a status and a sentence."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._unfinished = app, set[Body]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = MAX_UPLOAD_REQUEST_BYTES if _is_upload(scope) else MAX_BODY_BYTES
        body, answer, has_begun = Body(receive, limit, self._unfinished), None, False

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._answer(scope, body, send_noting)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Refusal as refusal:
            status, sentence = refusal.args
            answer = PlainTextResponse(sentence, status)
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
            raise Refusal(404, "There is nothing here.")
        if len(path) + len(scope["query_string"]) > MAX_URL_BYTES:
            at_most = f"At most {MAX_URL_BYTES:,} characters are read."
            raise Refusal(414, f"This address is too long. {at_most}")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if any(len(value) > MAX_ID for name in IDS for value in query.get(name, ())):
            raise Refusal(*LONG_ID)
        if "," in Headers(scope=scope).get("range", ""):  # Gradio reads one part; the whole is fine
            kept = [(name, value) for name, value in scope["headers"] if name != b"range"]
            scope = {**scope, "headers": kept}
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
        if _is_upload(scope):
            return body.receive_within
        try:
            async with asyncio.timeout(STALL_SECONDS):
                read = [await Request(scope, body.receive_within).body()]
        except TimeoutError:
            raise Refusal(*TOO_SLOW) from None
        if len(read[0]) <= QUICK_BYTES:
            _check(read[0])
        else:
            await asyncio.to_thread(_check, read[0])

        async def receive_again() -> Message:
            """The body again, then what else comes."""
            if read:
                return {"type": "http.request", "body": read.pop(), "more_body": False}
            return await body.receive()

        return receive_again


def _is_upload(scope: Scope) -> bool:
    return path_of(scope).rstrip("/") == "/gradio_api/upload"


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
SECURITY_HEADERS = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
)


def _adding(send: Send, *headers: tuple[str, str]) -> Send:
    """Return `send` with further headers on each answer."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            for name, value in headers:
                MutableHeaders(scope=message).append(name, value)
        await send(message)

    return send_with_headers


UNKNOWN_NAME = "This server does not know that it is {0}: start it with --name {0}."


class OriginGuardMiddleware:
    """ASGI middleware: 400 for hosts besides localhost and `names`, 403 for foreign origins.

    A proxy in front may put another host into `Host` and the browser's into `X-Forwarded-Host`. No
    other site can make a browser send that header: this guard refuses to be asked beforehand.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] = (), root: str = "") -> None:
        """Accept `names`, and the host of `root` if that is the page's whole address."""
        own = urlsplit(root)
        self._app, self._address = app, own.netloc.lower()
        self._names = {name.lower() for name in ("localhost", own.hostname or "localhost", *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        public = headers.get("x-forwarded-host", "").partition(",")[0].strip().lower() or host
        knows = self._is_own(public)
        if not self._is_own(host) or (not knows and is_page(scope)):
            name = _name(host if knows else public)
            answer = PlainTextResponse(UNKNOWN_NAME.format(name), 400)
            await answer(scope, receive, send)
        elif "origin" in headers and _split(headers["origin"]).netloc.lower() not in (
            {host, self._address, public if knows else host} - {""}
        ):
            answer = PlainTextResponse("Only this server's own page may do that.", 403)
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, _adding(send, *SECURITY_HEADERS))

    def _is_own(self, host: str) -> bool:
        name = _name(host)
        with suppress(ValueError):  # only a name can be made to resolve to this server
            return bool(ipaddress.ip_address(name))
        return name in self._names


def _name(host: str) -> str:
    return _split(f"//{host}").hostname or ""


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


COOKIE_SECONDS = 30 * 24 * 3600  # after the page was opened last


class VisitorCookieMiddleware:
    """ASGI middleware: gives browsers a cookie; `in_frame`: in another site's page."""

    def __init__(self, app: ASGIApp, in_frame: bool = False) -> None:
        self._app = app
        # In a frame a cookie is only taken with these, and is another one for each site around it.
        self._where = "SameSite=None; Secure; Partitioned" if in_frame else "SameSite=Lax"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; one for the page sets the cookie."""
        if not is_page(scope):
            await self._app(scope, receive, send)
            return
        cookies = HTTPConnection(scope).cookies
        value = cookies[COOKIE] if owner_of(cookies) else secrets.token_urlsafe(32)
        path = scope.get("root_path") or "/"
        cookie = f"{COOKIE}={value}; Path={path}; Max-Age={COOKIE_SECONDS}; HttpOnly; {self._where}"
        await self._app(scope, receive, _adding(send, ("set-cookie", cookie)))


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
            if scope["type"] == "http":
                await self._app(scope, receive, send)
            else:
                await self._hold(scope, receive, send)
        finally:
            self._pages[session_id] -= 1
            if not self._pages[session_id]:
                del self._pages[session_id]

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the WebSocket on as the request for the stream."""
        page = WebSocket(scope, receive, send)
        await page.receive()  # that it would connect

        async def wait_until_gone() -> Message:
            while page.client_state is not WebSocketState.DISCONNECTED:
                await page.receive()
            return {"type": "http.disconnect"}

        async def close() -> None:
            if WebSocketState.DISCONNECTED not in (page.client_state, page.application_state):
                await page.close()

        async def send_state(message: Message) -> None:
            if message["type"] == "http.response.start":
                await (page.accept() if message["status"] == 200 else close())

        # By this version of ASGI a stream learns from `receive` that the page has gone.
        asgi = {"version": "3.0", "spec_version": "2.3"}
        request = {"type": "http", "method": "GET", "asgi": asgi}
        scheme = scope["scheme"].replace("ws", "http")
        await self._app({**scope, **request, "scheme": scheme}, wait_until_gone, send_state)
        await close()
