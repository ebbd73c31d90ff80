"""What the server refuses, and what it never leaves behind: spoken to by hand, with no page in between."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.ui.conftest import Server
from tests.ui.server.test_server import answer
from tests.ui.sessions.test_background_run import until
from tests.ui.sessions.test_sessions import files
from tests.ui.support.api_calls import PROMPT, Clips, begin, comparing, config, join, uploaded

LIMIT = 100 * 2**20
ENDLESS = "<Think>" + "on and on and on " * 20_000


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    """One judge who never ends, and one place to wait for it."""
    return serve([ENDLESS], "--waiting", "1", protocol="paired", pause=0.01)


def zeros(size: int) -> Iterator[bytes]:
    piece = bytes(2**20)
    for start in range(0, size, len(piece)):
        yield piece[: size - start]


def send(server: Server, size: int, **headers: str) -> tuple[int, str]:
    """Upload a file of so many zeros; gives status and answer. No more than a piece of it is ever in memory."""
    head = b'--line\r\nContent-Disposition: form-data; name="files"; filename="zeros.mp4"\r\n\r\n'
    tail = b"\r\n--line--\r\n"
    told = {"Content-Type": "multipart/form-data; boundary=line", "Content-Length": str(len(head) + size + len(tail)), **headers}
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=60)
    try:
        connection.request("POST", "/gradio_api/upload", iter([head, *zeros(size), tail]), told)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


# -- uploads -------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(server: Server) -> None:
    before = sorted(files(server.folder))
    status, said = send(server, LIMIT + 1)
    assert status == 413
    assert str(LIMIT) in said
    assert said.endswith(".")
    assert "Traceback" not in said
    assert sorted(files(server.folder)) == before


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_another_page_cannot_upload(server: Server, origin: str) -> None:
    before = sorted(files(server.folder))
    assert send(server, 1000, Origin=origin)[0] == 403
    assert sorted(files(server.folder)) == before


def test_a_name_that_was_pointed_here_cannot_upload(server: Server) -> None:
    before = sorted(files(server.folder))
    assert send(server, 1000, Host="evil.example", Origin="http://evil.example")[0] == 400
    assert sorted(files(server.folder)) == before


@pytest.mark.parametrize("path", ["queue/join", "run/predict", "call/compare", "cancel", "component_server"])
def test_another_page_can_start_nothing(server: Server, path: str) -> None:
    request = urllib.request.Request(f"{server.url}gradio_api/{path}", b"{}", {"Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request, timeout=10)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("upload", "multipart/form-data; boundary=line"), ("queue/join", "application/json"), ("call/compare", "application/json")],
)
def test_no_other_body_may_be_larger(server: Server, path: str, kind: str) -> None:
    """What is no file would go to memory; refused before it is read."""
    size = 102 * 2**20 if path == "upload" else 65 * 2**20
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    connection.putrequest("POST", f"/gradio_api/{path}")
    for name, value in (("Content-Type", kind), ("Content-Length", str(size))):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def memory(server: Server) -> int:
    """Most bytes that the server ever held."""
    told = Path(f"/proc/{server.process.pid}/status")
    if not told.exists():
        pytest.skip("this machine does not say how much memory a process holds")
    return int(told.read_text().split("VmHWM:")[1].split()[0]) * 1024


def test_who_does_not_say_how_much_is_not_listened_to_for_ever(server: Server) -> None:
    before = memory(server)
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    with contextlib.suppress(OSError):
        kind = {"Content-Type": "application/json"}
        connection.request("POST", "/gradio_api/queue/join", zeros(256 * 2**20), kind, encode_chunked=True)
        connection.getresponse().read()
    connection.close()
    assert memory(server) - before < 192 * 2**20


# -- what is switched off ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "monitoring",
        "monitoring/",
        "monitoring/summary",
        "monitoring/anything",
        "gradio_api/runs",
        "gradio_api/run-history/records",
        "gradio_api/run-history/buckets",
        "gradio_api/profiling/summary",
        "gradio_api/profiling/traces",
        "gradio_api/vibe-code",
        "dev/reload",
        "gradio_api/dev/reload",
        "gradio_api/deep_link?session_hash=x",
        "gradio_api/file=http://evil.example/film.mp4",
        "gradio_api/file=HTTP://evil.example/film.mp4",
        "gradio_api/proxy=http://evil.example/film.mp4",
    ],
)
def test_nobody_is_watched_and_nothing_is_remembered(server: Server, path: str) -> None:
    assert answer(server.url + path) in (403, 404)


@pytest.mark.parametrize("path", ["process_recording", "component_server", "vibe-edit", "undo-vibe-edit", "stream/x"])
def test_what_the_page_never_uses_is_shut(server: Server, path: str) -> None:
    before = sorted(files(server.folder))
    request = urllib.request.Request(f"{server.url}gradio_api/{path}", b"{}", {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request, timeout=10)
    assert sorted(files(server.folder)) == before


def test_the_machine_is_not_described(server: Server) -> None:
    told = json.dumps(config(server))
    for place in (server.folder, Path.home(), Path(__file__).resolve().parents[3]):
        assert str(place) not in told


def test_nothing_is_shared(server: Server) -> None:
    said = server.log.read_text()
    assert "Running on local URL" in said
    assert "Running on public URL" not in said
    assert "To create a public link" in said


# -- who is let in -------------------------------------------------------------------------------------------------------


def own_addresses() -> list[str]:
    """Where this machine can be reached, besides 127.0.0.1."""
    try:
        named = socket.gethostbyname_ex(socket.gethostname())[2]
    except OSError:
        named = []
    return sorted({"127.0.0.2", *named} - {"127.0.0.1"})


@pytest.mark.parametrize("address", own_addresses())
def test_only_this_machine_is_served(server: Server, address: str) -> None:
    port = urlsplit(server.url).port
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            pytest.skip(f"{address} is no address of this machine")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address, port or 0), timeout=5).close()


def crowd(server: Server, callers: ExitStack, values: Sequence[object]) -> tuple[int, str]:
    """Callers come until one is turned away: what that one is told."""
    try:
        for _ in range(8):
            callers.enter_context(urllib.request.urlopen(begin(server, *values), timeout=10))
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["detail"]
    raise AssertionError("the queue has no end")


def test_the_queue_has_an_end_and_says_so(server: Server, clips: Clips) -> None:
    with ExitStack() as callers:
        status, said = crowd(server, callers, [*uploaded(server, clips), PROMPT])
    assert status == 503
    assert said.startswith("Queue is full")
    assert said.endswith(".")


# -- what is left --------------------------------------------------------------------------------------------------------


def test_nothing_stays_of_a_visitor_who_has_gone(server: Server, clips: Clips) -> None:
    (folder,) = server.folder.glob("vr-thinker-page-*")
    kept = (folder / "pictures", folder / "records")
    before = [sorted(files(place)) for place in kept]
    event, inputs = comparing(server)
    with urllib.request.urlopen(f"{server.url}gradio_api/heartbeat/anna", timeout=10) as alive:
        alive.readline()
        join(server, event, [*uploaded(server, clips), PROMPT, *[None] * (inputs - 3)], "anna")
        until(lambda: all(sorted(files(place)) != former for place, former in zip(kept, before, strict=True)))
    until(lambda: [sorted(files(place)) for place in kept] == before)
