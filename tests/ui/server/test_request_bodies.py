"""How much of a request is read, and which bodies are refused before anything is made of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from tests.support.threads import run_in_thread
from vrthinker_core.ui import request_limits as request_bodies
from vrthinker_core.ui.request_limits import (
    MAX_BODY_BYTES,
    MAX_UPLOAD_REQUEST_BYTES,
    OriginGuardMiddleware,
    RequestLimitsMiddleware,
)

CALL, UPLOAD = "/gradio_api/queue/join", "/gradio_api/upload"
MIB = bytes(2**20)


class Application:
    """An application that reads whole bodies and keeps them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        pieces = []
        more = True
        while more:
            message = await receive()
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
        self.bodies.append(b"".join(pieces))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Client:
    """One request, whose body comes piece by piece; after the last piece nothing comes any more."""

    def __init__(
        self, path: str, pieces: Sequence[bytes], whole: bool = True, length: str = ""
    ) -> None:
        headers = [(b"content-length", length.encode())] if length else []
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": headers,
        }
        self.pieces = list(pieces)
        self.whole = whole
        self.status, self.answer = 0, b""

    async def receive(self) -> Message:
        if not self.pieces:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        piece = self.pieces.pop(0)
        return {
            "type": "http.request",
            "body": piece,
            "more_body": bool(self.pieces) or not self.whole,
        }

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.answer += message.get("body", b"")

    async def run(self, limits: RequestLimitsMiddleware) -> Client:
        await limits(self.scope, self.receive, self.send)
        return self


def answered(client: Client) -> tuple[int, list[bytes]]:
    """The status, and the bodies that reached the application."""
    application = Application()
    run_in_thread(client.run(RequestLimitsMiddleware(application)))
    if client.status != 200:
        assert client.answer.endswith(b".")
    return client.status, application.bodies


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


@given(st.lists(st.binary(max_size=40), min_size=1))
def test_a_body_arrives_as_it_was_sent(pieces: list[bytes]) -> None:
    for path in (CALL, UPLOAD):
        assert answered(Client(path, pieces)) == (200, [b"".join(pieces)])


def test_only_an_upload_may_be_large() -> None:
    for path, limit in ((CALL, MAX_BODY_BYTES), (UPLOAD, MAX_UPLOAD_REQUEST_BYTES)):
        assert answered(Client(path, [b"1"], length=str(limit)))[0] == 200
        assert answered(Client(path, [b"1"], length=str(limit + 1))) == (413, [])
        mebibytes = limit // len(MIB)
        assert answered(Client(path, [MIB] * mebibytes))[0] == 200
        assert answered(Client(path, [MIB] * (mebibytes + 1))) == (413, [])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (nested(40), 200),
        (nested(500), 400),
        (nested(500, '{"a": ', "}"), 400),
        (nested(9000), 400),
        (json.dumps({"data": ["[" * 900]}).encode(), 200),
        (json.dumps([0] * 9_000).encode(), 200),
        (json.dumps([0] * 30_000).encode(), 413),
        (b"[" + b"{}," * 30_000 + b"1]", 413),
        (json.dumps({"data": ["data:video/mp4;base64," + "A" * 4_000_000] * 2}).encode(), 200),
        (json.dumps({"data": [{"path": "a\0b"}]}).encode(), 400),
        (json.dumps({"data": ["a\0b"]}).encode(), 200),
        (json.dumps({"data": [], "session_hash": "x" * 36, "event_id": None}).encode(), 200),
        *(
            (json.dumps({"data": [], name: "x" * 9_000_000}).encode(), 400)
            for name in ("session_hash", "event_id", "upload_id")
        ),
        (b"no JSON", 200),
        (b"\xff\xfe", 200),
        (b"", 200),
    ],
    ids=lambda value: str(value)[:24],
)
def test_json_that_takes_long_to_read_is_refused_before_it_is_read(
    body: bytes, status: int
) -> None:
    assert answered(Client(CALL, [body])) == (status, [body] if status == 200 else [])


def unfinished(path: str, size: int) -> Client:
    return Client(path, [MIB] * size, whole=False)


def test_a_body_that_stalls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STALL_SECONDS", "BODY_SECONDS", "DRAIN_SECONDS"):
        monkeypatch.setattr(request_bodies, name, 0.05)
    for path in (CALL, UPLOAD):
        assert answered(unfinished(path, 2)) == (408, [])


def test_all_unfinished_bodies_together_are_limited_and_whoever_stalls_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_bodies, "MAX_UNFINISHED_BYTES", 24 * len(MIB))
    monkeypatch.setattr(request_bodies, "DRAIN_SECONDS", 0.05)
    application = Application()
    limits = RequestLimitsMiddleware(application)
    stalled = [unfinished(path, 5) for path in (UPLOAD, CALL, UPLOAD, CALL)]

    async def attack() -> None:
        waiting = [asyncio.create_task(each.run(limits)) for each in stalled]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in waiting)
        assert (await Client(UPLOAD, [MIB] * 20).run(limits)).status == 200
        assert (await Client(CALL, [MIB] * 9).run(limits)).status == 200
        await asyncio.sleep(0.2)
        for task in waiting:
            task.cancel()

    run_in_thread(attack())
    assert [len(body) // len(MIB) for body in application.bodies] == [20, 9]
    assert sorted(each.status for each in stalled) == [0, 503, 503, 503]


def test_a_client_that_leaves_is_no_error_of_the_server() -> None:
    class Leaving(Client):
        async def receive(self) -> Message:
            return await super().receive() if self.pieces else {"type": "http.disconnect"}

    for path in (CALL, UPLOAD):
        client = Leaving(path, [b"half"], whole=False)
        run_in_thread(client.run(RequestLimitsMiddleware(Application())))
        assert client.status in (0, 200)


def test_what_fails_is_answered_with_a_sentence() -> None:
    async def fail(*_: Any) -> None:
        raise ZeroDivisionError

    client = Client(CALL, [b"1"])
    with pytest.raises(ZeroDivisionError):
        run_in_thread(client.run(RequestLimitsMiddleware(fail)))
    assert client.status == 500
    assert client.answer.endswith(b".")


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
