"""A small OpenAI-compatible server of the tests: it says what a test tells it to, and fails as a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.support import loopback_server
from tests.support.loopback_server import LoopbackServer, QuietHandler

Answer = Callable[["Handler", dict[str, Any]], None]
"""Answers one chat completion request."""

ANSWER = "<Think>Both are fine.</Think>\n<Answer>TA=1, VQ=2, MQ=0, OA=1</Answer>"


class FaultyServer(LoopbackServer):
    """Answers the n-th chat request with the n-th of `answers`, all later ones with the last; keeps what it was sent."""

    def __init__(self, answers: Sequence[Answer], cards: Any) -> None:
        super().__init__(Handler)
        self.answers, self.cards = answers, cards
        self.routes: dict[str, Answer] = {}  # What is answered at other paths
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.closed_at: list[float] = []  # When a client was found to have gone
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.address}/v1"


class Handler(QuietHandler):
    server: FaultyServer

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization", ""))
        if route := self.server.routes.get(self.path):
            return route(self, {})
        cards = self.server.cards
        if callable(cards):
            return cards(self)
        if isinstance(cards, int):
            said = f"no, {self.headers.get('Authorization')}"
            return self.send_json(cards, {"error": {"message": said}})
        if isinstance(cards, bytes):
            return self.send_bytes(200, cards, "text/html")
        return self.send_json(200, {"object": "list", "data": cards})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        if route := server.routes.get(self.path):
            route(self, json.loads(data))
            return
        with server.lock:
            answer = server.answers[min(len(server.bodies), len(server.answers) - 1)]
            server.bodies.append(json.loads(data))
            server.keys.append(self.headers.get("Authorization", ""))
        answer(self, server.bodies[-1])

    def send_json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        self.send_bytes(status, json.dumps(body).encode(), "application/json", headers)

    def send_bytes(
        self, status: int, data: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self._begin(status, kind, {"Content-Length": str(len(data)), **(headers or {})})
        self.wfile.write(data)

    def begin_stream(self, headers: dict[str, str] | None = None) -> None:
        """HTTP/1.0: the end of the connection is the end of the answer."""
        self._begin(200, "text/event-stream", headers or {})

    def _begin(self, status: int, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_event(self, event: Any) -> None:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        self.wfile.write(b"data: " + data + b"\n\n")
        self.wfile.flush()

    def keep_alive(self, most: float = 20.0) -> None:
        """Send what says nothing, again and again, until the client goes away."""
        end = time.monotonic() + most
        while time.monotonic() < end:
            self.wfile.write(b": keep-alive\n\n")
            self.wfile.flush()
            time.sleep(0.02)

    def wait_until_closed(self, most: float = 10.0) -> None:
        """Wait for the client to go away, and note when that was."""
        self.connection.settimeout(most)
        try:
            self.connection.recv(1)
        except OSError:
            return
        self.server.closed_at.append(time.monotonic())


def delta(
    content: str | list[dict[str, Any]] | None = None,
    finish: str | None = None,
    logprobs: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """One chunk of a stream."""
    said = {"content": content, **more}
    choice = {"index": 0, "delta": said, "finish_reason": finish, "logprobs": logprobs}
    kind = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return {**kind, "choices": [choice]}


def usage(prompt: int, new: int) -> dict[str, Any]:
    """The chunk that counts the tokens."""
    counts = {"prompt_tokens": prompt, "completion_tokens": new, "total_tokens": prompt + new}
    return {**delta(), "choices": [], "usage": counts}


def streams(*events: Any) -> Answer:
    """A stream of these events."""

    def answer(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        for event in events:
            handler.send_event(event)

    return answer


def says(
    text: str = ANSWER, *events: dict[str, Any], finish: str = "stop", size: int = 7
) -> Answer:
    """A whole reply, in pieces; `events` come first."""
    pieces = [delta(text[start : start + size]) for start in range(0, len(text), size)]
    return streams(*events, *pieces, delta(None, finish), usage(100, len(pieces)), b"[DONE]")


def refuses(
    status: int, message: str = "no", headers: dict[str, str] | None = None, **more: Any
) -> Answer:
    """An error in the form that vLLM and OpenAI use. `{key}` in the message becomes what the client sent as its key."""

    def answer(handler: Handler, _: dict[str, Any]) -> None:
        key = handler.headers.get("Authorization", "")
        body = {"error": {"message": message.replace("{key}", key), "code": status, **more}}
        handler.send_json(status, body, headers)

    return answer


def says_then(text: str, end: Callable[[Handler], None]) -> Answer:
    """A part of a reply, then whatever `end` does."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        streams(*[delta(text)] * bool(text))(handler, body)
        end(handler)

    return answer


def sends(data: bytes, kind: str = "text/event-stream") -> Answer:
    """An answer that is no stream of chunks."""
    return lambda handler, _: handler.send_bytes(200, data, kind)


def events(*bodies: Any) -> bytes:
    """These bodies as events of a stream."""
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


@contextmanager
def serving(
    *answers: Answer,
    cards: Any = ({"id": "general", "owned_by": "someone"},),
    routes: dict[str, Answer] | None = None,
) -> Iterator[FaultyServer]:
    """A running server. `cards`: its list of models, a status that it refuses the list with, bytes, or what answers."""
    server = FaultyServer(answers or (says(),), list(cards) if isinstance(cards, tuple) else cards)
    server.routes = routes or {}
    with loopback_server.serving(server):
        yield server
