"""The request limits: which of Gradio's routes are blocked, how large a request may be, and what is refused before Gradio reads it.

Gradio limits the size of an uploaded file and of nothing else: a body of any size is kept in memory, and made into values while
everybody waits. It also offers what this page never uses: FFmpeg for recordings, a proxy to public web addresses, functions of
components.
"""

from urllib.parse import parse_qs

from gradio.route_utils import FnIndexInferError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.ui.server.gradio_blocks import MAX_UPLOAD_BYTES
from vrthinker_core.ui.server.request_bodies import (
    IDS,
    LONG_ID,
    MAX_ID,
    Refusal,
    UnfinishedBodies,
    check,
    drain,
)

# Prefixes of paths that the page never requests.
PROXIES = ("file=http", "file/http", "proxy=")
UNUSED = (
    "process_recording",
    "component_server",
    "vibe",
    "undo-vibe",
    "stream/",
    "deep_link",
    "dev/",
)
BLOCKED_PATHS = tuple(f"/gradio_api/{name}" for name in (*PROXIES, *UNUSED))
UPLOAD_PATH = "/gradio_api/upload"
CALL_PATHS = ("/gradio_api/run/", "/gradio_api/api/", "/gradio_api/call/")

MAX_UPLOAD_REQUEST_BYTES = MAX_UPLOAD_BYTES + 2**20  # the largest file and the headers of its part
MAX_BODY_BYTES = (
    10_000_000  # any other request: small, unless a program sends its videos as data URLs
)
MAX_URL_BYTES = 8000
MAX_NAME_BYTES = 255  # no file has a longer name

NOTHING_HERE = (404, "There is nothing here.")
LONG_ADDRESS = (414, f"This address is too long. At most {MAX_URL_BYTES:,} characters are read.")
NO_FUNCTION = (
    404,
    "There is no such function here, or not with these parameters. /gradio_api/info lists those there are.",
)
SERVER_ERROR = "Something went wrong on this server. Try again, or tell whoever runs it."


class RequestLimitsMiddleware:
    """ASGI middleware: what is refused is answered with a status and a sentence, in no case with an error of the server."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._unfinished = UnfinishedBodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun, answer = False, None

        async def send_noting(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._answer(scope, receive, send_noting)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Refusal as refusal:
            answer = PlainTextResponse(refusal.sentence, refusal.status)
        except Exception as error:
            if not has_begun:
                await PlainTextResponse(SERVER_ERROR, 500)(scope, receive, send)
            elif isinstance(error.__cause__, HTTPException):
                await send(
                    {"type": "http.response.body"}
                )  # Gradio's stream has said that it knows no such session, and ends
                return
            raise  # the log says what it was
        if answer is not None:  # by now nothing holds what had come of the body
            await drain(receive)
            if not has_begun:
                await answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises Refusal, also for a call of a function that Gradio does not find."""
        path = scope["path"]
        if path.lower().startswith(BLOCKED_PATHS) or any(
            len(name.encode()) > MAX_NAME_BYTES for name in path.split("/")
        ):
            raise Refusal(*NOTHING_HERE)
        if len(path) + len(scope["query_string"]) > MAX_URL_BYTES:
            raise Refusal(*LONG_ADDRESS)
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if any(len(value) > MAX_ID for name in IDS for value in query.get(name, ())):
            raise Refusal(*LONG_ID)
        try:
            if scope["method"] == "POST":
                await self._answer_post(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        except (FnIndexInferError, KeyError, TypeError):
            if path.startswith(CALL_PATHS):
                raise Refusal(*NO_FUNCTION) from None
            raise

    async def _answer_post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An upload is passed on as it comes, and goes to the disk; any other body is read whole and checked first."""
        length = Headers(scope=scope).get("content-length", "")
        if scope["path"].rstrip("/") == UPLOAD_PATH:
            with self._unfinished.reader(receive, MAX_UPLOAD_REQUEST_BYTES, length) as upload:
                await self._app(scope, upload.receive, send)
        else:
            await self._app(scope, _once(await self._read(receive, length), receive), send)

    async def _read(self, receive: Receive, length: str) -> bytes:
        with self._unfinished.reader(receive, MAX_BODY_BYTES, length) as reader:
            body = await reader.read()
        await check(body)
        return body


def _once(body: bytes, receive: Receive) -> Receive:
    """The body again, then what else comes."""
    bodies = [body]

    async def receive_again() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await receive()

    return receive_again
