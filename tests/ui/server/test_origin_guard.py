"""The origin guard lets the server's own page and clients without a page through, and refuses pages of other servers."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from tests.support.threads import run_in_thread
from vrthinker_core.ui.request_limits import OriginGuardMiddleware


def request(names: tuple[str, ...] = (), **headers: str) -> tuple[int, dict[str, str]]:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": raw, "query_string": b""}
    run_in_thread(OriginGuardMiddleware(PlainTextResponse("in"), names)(scope, receive, send))
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:7860",
        "127.0.0.1:7860",
        "192.168.1.7:7860",
        "[::1]:7860",
        "LOCALHOST",
    ],
)
def test_own_hosts_pass(host: str) -> None:
    assert request(host=host)[0] == 200
    assert request(host=host, origin=f"http://{host}")[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:7860",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "[",
        "::1",
    ],
)
def test_foreign_hosts_are_refused(host: str) -> None:
    assert request(host=host)[0] == 400


def test_a_further_name_of_the_server_passes() -> None:
    assert request(("demo.example",), host="demo.example", origin="https://demo.example")[0] == 200
    assert request(("demo.example",), host="other.example")[0] == 400


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://127.0.0.1:8080",
        "http://127.0.0.1",
        "http://[",
        "",
        "http://127.0.0.1:7860.evil.example",
    ],
)
def test_foreign_origins_are_refused(origin: str) -> None:
    assert request(host="127.0.0.1:7860", origin=origin)[0] == 403


def test_the_browser_may_fetch_from_no_other_server() -> None:
    policy = request(host="localhost")[1]["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy
