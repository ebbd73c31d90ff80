"""A web to fetch from, and nothing beyond it."""

from __future__ import annotations

import http.server
import socket
from collections.abc import Iterator

import pytest

from tests.ui.fetch.local_web import Web, serving


@pytest.fixture(scope="package")
def server() -> Iterator[http.server.HTTPServer]:
    with serving() as running:
        yield running


@pytest.fixture
def web(server: http.server.HTTPServer) -> Web:
    return Web(server)


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else would be connected to fails the test."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: tuple[str, int]) -> None:
        assert address[0] == "127.0.0.1", address
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
