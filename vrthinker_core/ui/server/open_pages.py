"""The open pages: those whose browser holds Gradio's heartbeat, a stream that lasts from a page's first moment to its last."""

from collections import Counter

from starlette.types import ASGIApp, Receive, Scope, Send

HEARTBEAT_PATH = "/gradio_api/heartbeat/"


class OpenPages:
    """The ids of the sessions whose pages are open."""

    def __init__(self) -> None:
        self.streams = Counter[str]()  # that each of them holds; its length is the number of open pages

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
