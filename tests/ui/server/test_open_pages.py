"""A page is open as long as it holds its heartbeat, however many browsers do so under its name; what is kept for it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

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
from tests.ui.conftest import write_script
from vrthinker_core.ui.app import Page, PageOptions
from vrthinker_core.ui.judge_loader import JudgeLoader, judge_openers
from vrthinker_core.ui.layout import Updates
from vrthinker_core.ui.open_pages import (
    HEARTBEAT_PATH,
    HeartbeatSocketMiddleware,
    OpenPages,
    OpenPagesMiddleware,
)
from vrthinker_core.ui.run_handlers import PATIENCE_SECONDS, Followers


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
        held = [asyncio.create_task(guarded({**scope, "name": name}, None, None)) for name in ends]
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


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    judges = JudgeLoader(
        judge_openers([write_script(tmp_path / "script.jsonl", ["<Answer>OA=1</Answer>"])])
    )
    page = Page(judges, judges.run_job, tmp_path, PageOptions())
    yield page
    page.close()


def test_the_run_of_a_page_is_kept_while_that_holds_its_stream(page: Page) -> None:
    is_open, seen = page._services.sessions.is_open, list[bool]()

    async def stream(*_: object) -> None:
        seen.append(is_open("anna"))

    (counting,) = (
        each
        for each in page.launch_options()["app_kwargs"]["middleware"]
        if each.cls is OpenPagesMiddleware
    )
    run_in_thread(
        counting.cls(stream, **counting.kwargs)(
            {"type": "http", "path": f"{HEARTBEAT_PATH}anna"}, None, None
        )
    )
    assert (seen, is_open("anna")) == ([True], False)


def test_gradio_deletes_no_file_by_its_age(page: Page) -> None:
    """It knows nothing of the pages that show a file; `Uploads.expire` does."""

    async def blocks() -> Any:
        return page.blocks()

    assert run_in_thread(blocks()).delete_cache is None


async def progress(shown: list[str]) -> AsyncIterator[Updates]:
    while shown:
        yield {}


def test_all_followers_of_a_page_are_waited_for_but_not_for_ever() -> None:
    async def scenario() -> None:
        followers = Followers()
        following = [followers.follow("page", progress(["a run"])) for _ in range(2)]
        for each in following:
            await anext(each)
        await following[0].aclose()  # as when its page is closed
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(followers.wait_until_detached("page"), PATIENCE_SECONDS / 2)
        await asyncio.wait_for(followers.wait_until_detached("page"), 3 * PATIENCE_SECONDS)
        await following[1].aclose()
        await asyncio.wait_for(followers.wait_until_detached("page"), PATIENCE_SECONDS / 2)

    run_in_thread(scenario())
