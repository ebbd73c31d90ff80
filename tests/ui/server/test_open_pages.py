"""A page is open as long as it holds its heartbeat, over a stream or a WebSocket, however many browsers do so under its name."""

from __future__ import annotations

import asyncio
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
from vrthinker_core.ui.server.open_pages import (
    HEARTBEAT_PATH,
    HeartbeatSocketMiddleware,
    OpenPages,
    OpenPagesMiddleware,
)


def test_a_page_is_open_while_it_holds_its_stream() -> None:
    pages, looks = OpenPages(), list[tuple[bool, int]]()

    async def look() -> None:
        await asyncio.sleep(0)
        looks.append(("anna" in pages, len(pages.streams)))

    async def hold() -> None:
        ends = {name: asyncio.Event() for name in ("one", "two")}

        async def stream(scope: Scope, _receive: Receive, _send: Send) -> None:
            await ends[scope["name"]].wait()

        guarded = OpenPagesMiddleware(stream, pages)
        scope = {"type": "http", "path": HEARTBEAT_PATH + "anna"}
        held = [asyncio.create_task(guarded({**scope, "name": name}, None, None)) for name in ends]  # type: ignore[arg-type]
        await look()
        ends["one"].set()
        await held[0]
        await look()
        held[1].cancel()
        await asyncio.wait(held)
        await look()

    run_in_thread(hold())
    assert looks == [(True, 1), (True, 1), (False, 0)]


def test_a_websocket_holds_the_stream_until_it_is_closed() -> None:
    pages, ends = OpenPages(), list[str]()

    async def beats() -> AsyncIterator[str]:
        try:
            while True:
                yield "data: ALIVE\n\n"
                await asyncio.sleep(0.01)
        finally:
            ends.append("the stream has ended, as Gradio notices it")

    async def heartbeat(request: Request) -> Response:
        return (
            StreamingResponse(beats())
            if request.path_params["name"] == "anna"
            else PlainTextResponse("Who?", 404)
        )

    middleware = [
        Middleware(HeartbeatSocketMiddleware),
        Middleware(OpenPagesMiddleware, pages=pages),
    ]
    client = TestClient(
        Starlette(routes=[Route(HEARTBEAT_PATH + "{name}", heartbeat)], middleware=middleware)
    )
    with client.websocket_connect(HEARTBEAT_PATH + "anna"):
        until(lambda: "anna" in pages)
        assert not ends
    until(lambda: "anna" not in pages)
    assert len(ends) == 1
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(HEARTBEAT_PATH + "bert"):
        pass
    assert not pages.streams
