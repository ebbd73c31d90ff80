"""The server as a whole: what it refuses, and what it leaves behind."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from tests.ui.conftest import Server


def answer(url: str, **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def server(answering: Server) -> Server:
    return answering


@pytest.mark.parametrize("path", ["", "config", "gradio_api/info", "gradio_api/heartbeat/x"])
def test_foreign_pages_are_refused(server: Server, path: str) -> None:
    assert answer(server.url + path, Origin="http://evil.example") == 403
    assert answer(server.url + path, Host="evil.example") == 400


@pytest.mark.parametrize(
    "path", ["frames/", "frames/../records", "frames/%2e%2e/records", "frames//etc/passwd", "frames/..%2f..%2fserver.log"]
)
def test_only_pictures_are_offered(server: Server, path: str) -> None:
    assert answer(server.url + path) == 404


def test_nothing_is_left_behind(serve: Callable[..., Server]) -> None:
    server = serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"])
    assert any(server.folder.glob("vr-thinker-page-*/pictures"))
    server.stop()
    assert {path.name for path in server.folder.rglob("*") if path.is_file()} == {"script.jsonl", "server.log"}


@pytest.mark.parametrize("path", ["trace.json", "report.html", "../records", "%2e%2e/trace.json"])
def test_nobody_finds_a_run_without_its_name(server: Server, path: str) -> None:
    assert answer(f"{server.url}runs/{'0' * 24}/{path}") == 404


def test_a_link_is_made_for_the_page_alone(server: Server) -> None:
    url = f"{server.url}runs/{'0' * 24}/link"
    assert answer(url) == 405
    assert answer(url, Origin="http://evil.example") == 403
