"""A page is open as long as it holds its heartbeat, however many browsers do so under its name."""

from __future__ import annotations

import asyncio

from starlette.types import Receive, Scope, Send

from tests.support.threads import run_in_thread
from vrthinker_core.ui.server.open_pages import HEARTBEAT_PATH, OpenPages, OpenPagesMiddleware


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
