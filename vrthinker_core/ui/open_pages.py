"""The open pages: those whose browser holds Gradio's heartbeat.

Gradio's own heartbeat is a stream. A browser keeps at most six connections open to a server without
HTTP/2, so with six of its pages open nothing else would get through, not even Stop. So a page holds
its heartbeat over a WebSocket, which is not counted.
"""

from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEARTBEAT_PATH = "/gradio_api/heartbeat/"


class OpenPages:
    """The ids of the sessions whose pages are open."""

    def __init__(self) -> None:
        self.streams = Counter[str]()  # of each of them; its length is the number of open pages

    def __contains__(self, session_id: str) -> bool:
        return session_id in self.streams


class OpenPagesMiddleware:
    """ASGI middleware: a page is in `pages` as long as it holds its stream."""

    def __init__(self, app: ASGIApp, pages: OpenPages) -> None:
        self._app = app
        self._streams = pages.streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note the page whose heartbeat it is."""
        if scope["type"] != "http" or not scope["path"].startswith(HEARTBEAT_PATH):
            await self._app(scope, receive, send)
            return
        session_id = scope["path"].removeprefix(HEARTBEAT_PATH)
        self._streams[session_id] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._streams[session_id] -= 1
            if not self._streams[session_id]:
                del self._streams[session_id]


class HeartbeatSocketMiddleware:
    """ASGI middleware: passes a heartbeat's WebSocket on as the request for the stream."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; hold a WebSocket as long as its stream."""
        if scope["type"] != "websocket" or not scope["path"].startswith(HEARTBEAT_PATH):
            await self._app(scope, receive, send)
            return
        await receive()  # that it would connect
        over = False

        async def wait_until_gone() -> Message:
            nonlocal over
            while not over:
                over = (await receive())["type"] == "websocket.disconnect"
            return {"type": "http.disconnect"}

        async def close() -> None:
            nonlocal over
            if not over:
                over = True
                await send({"type": "websocket.close"})

        async def send_state(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                await send({"type": "websocket.accept"})
            elif message["type"] == "http.response.start":
                await close()

        # By this version of ASGI a stream learns from `receive` that the page has gone.
        asgi = {"version": "3.0", "spec_version": "2.3"}
        request = {"type": "http", "method": "GET", "asgi": asgi}
        scheme = scope["scheme"].replace("ws", "http")
        await self._app({**scope, **request, "scheme": scheme}, wait_until_gone, send_state)
        await close()
