"""The local web server that is fetched from; no other address is connected to."""

from __future__ import annotations

import http.server
import socket
from collections.abc import Iterator

import pytest

from tests.ui.fetch.local_web import LocalWeb, serving


@pytest.fixture(scope="package")
def server() -> Iterator[http.server.HTTPServer]:
    with serving() as running:
        yield running


@pytest.fixture
def web(server: http.server.HTTPServer) -> LocalWeb:
    return LocalWeb(server)


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to any other address fails the test."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: tuple[str, int]) -> None:
        assert address[0] == "127.0.0.1", address
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
