"""A page is open as long as anybody holds its heartbeat, over a stream or a WebSocket."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from tests.support.threads import run_in_thread
from tests.support.waiting import until
from vrthinker_core.ui.security import HEARTBEAT_PATH, OpenPagesMiddleware


def test_a_page_is_open_while_it_holds_a_stream() -> None:
    pages, looks = Counter[str](), list[dict[str, int]]()

    async def hold() -> None:
        ends = {name: asyncio.Event() for name in ("one", "two")}

        async def stream(scope: Scope, _receive: Receive, _send: Send) -> None:
            await ends[scope["name"]].wait()

        async def look() -> None:
            await asyncio.sleep(0)
            looks.append(dict(pages))

        guarded = OpenPagesMiddleware(stream, pages)
        scope = {"type": "http", "path": HEARTBEAT_PATH + "anna"}
        held = [asyncio.create_task(guarded({**scope, "name": name}, None, None)) for name in ends]
        await look()
        ends["one"].set()
        await held[0]
        await look()
        held[1].cancel()
        await asyncio.wait(held)
        await look()

    run_in_thread(hold())
    assert looks == [{"anna": 2}, {"anna": 1}, {}]


def test_a_websocket_holds_gradios_stream_until_it_is_closed() -> None:
    """A browser opens six connections to a server: six open pages would leave none for Stop."""
    pages, ends = Counter[str](), list[str]()

    async def beats() -> AsyncIterator[str]:
        try:
            while True:
                yield "data: ALIVE\n\n"
                await asyncio.sleep(0.01)
        finally:
            ends.append("the stream has ended, as Gradio notices it")

    async def heartbeat(request: Request) -> Response:
        known = request.path_params["name"] != "bert"
        return StreamingResponse(beats()) if known else PlainTextResponse("Who?", 404)

    middleware = [Middleware(OpenPagesMiddleware, pages=pages)]
    routes = [Route(HEARTBEAT_PATH + "{name}", heartbeat)]
    client = TestClient(Starlette(routes=routes, middleware=middleware))
    with client.websocket_connect(HEARTBEAT_PATH + "anna"):
        until(lambda: "anna" in pages)
        assert not ends
    until(lambda: "anna" not in pages)
    assert len(ends) == 1
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(HEARTBEAT_PATH + "bert"):
        pass
    assert not pages
