"""The open pages: those whose browser holds Gradio's heartbeat, from a page's first moment to its last.

Gradio's own heartbeat is a stream. A browser keeps at most six connections open to a server without HTTP/2, so with six of its
pages open nothing else would get through, Stop neither. So a page holds its heartbeat over a WebSocket, which is not counted.
"""

from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEARTBEAT_PATH = "/gradio_api/heartbeat/"


class OpenPages:
    """The ids of the sessions whose pages are open."""

    def __init__(self) -> None:
        self.streams = Counter[
            str
        ]()  # that each of them holds; its length is the number of open pages

    def __contains__(self, session_id: str) -> bool:
        return session_id in self.streams


class OpenPagesMiddleware:
    """ASGI middleware: a page is among `pages` as long as it holds its stream."""

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
    """ASGI middleware: a WebSocket at the heartbeat's address is passed on as the request for the stream, and is held as long."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; a WebSocket is accepted where there is a stream."""
        if scope["type"] != "websocket" or not scope["path"].startswith(HEARTBEAT_PATH):
            await self._app(scope, receive, send)
            return
        await receive()  # that it would connect
        socket = _StreamSocket(receive, send)
        # By this version of ASGI a stream learns from `receive` that the page has gone, by later ones only from what it sends.
        request = {
            "type": "http",
            "method": "GET",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
        }
        scheme = scope["scheme"].replace("ws", "http")
        await self._app({**scope, **request, "scheme": scheme}, socket.receive, socket.send)
        await socket.close()


class _StreamSocket:
    """A WebSocket, as an application sees it that is asked for a stream."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._over = False

    async def receive(self) -> Message:
        """Waits until the page has gone."""
        while not self._over:
            self._over = (await self._receive())["type"] == "websocket.disconnect"
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Of the stream only whether there is one is told: a WebSocket is kept alive by itself."""
        if message["type"] == "http.response.start" and message["status"] == 200:
            await self._send({"type": "websocket.accept"})
        elif message["type"] == "http.response.start":
            await self.close()

    async def close(self) -> None:
        """End it where it has not ended."""
        if not self._over:
            self._over = True
            await self._send({"type": "websocket.close"})
