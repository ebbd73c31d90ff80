"""What the server refuses, and that no file of a visitor stays; requests are made by hand, without a page."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Clips, Serve, Server
from tests.ui.server.test_server import status_of
from tests.ui.sessions.test_sessions import files
from tests.ui.support.api import uploaded
from tests.ui.support.page_events import comparing, config, join
from tests.ui.support.saved_examples import ENDLESS, PROMPT

LIMIT = 100 * 2**20


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    """One judge that never ends, and one place to wait for it."""
    return serve([ENDLESS], "--waiting", "1", protocol="paired", pause=0.05)


def zeros(size: int) -> Iterator[bytes]:
    piece = bytes(2**20)
    for start in range(0, size, len(piece)):
        yield piece[: size - start]


def send(server: Server, size: int, **headers: str) -> tuple[int, str]:
    """Upload a file of `size` zeros, one MiB at a time. Returns status and body."""
    head = b'--line\r\nContent-Disposition: form-data; name="files"; filename="zeros.mp4"\r\n\r\n'
    tail = b"\r\n--line--\r\n"
    fields = {
        "Content-Type": "multipart/form-data; boundary=line",
        "Content-Length": str(len(head) + size + len(tail)),
        **headers,
    }
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    try:
        connection.request("POST", "/gradio_api/upload", iter([head, *zeros(size), tail]), fields)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


# -- uploads -------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_too_large_is_refused_and_leaves_no_file(server: Server) -> None:
    before = sorted(files(server.folder))
    status, body = send(server, LIMIT + 1)
    assert status == 413
    assert str(LIMIT) in body
    assert body.endswith(".")
    assert "Traceback" not in body
    assert sorted(files(server.folder)) == before


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_foreign_page_cannot_upload(server: Server, origin: str) -> None:
    before = sorted(files(server.folder))
    assert send(server, 1000, Origin=origin)[0] == 403
    assert sorted(files(server.folder)) == before


def test_nothing_is_uploaded_under_a_foreign_host_name(server: Server) -> None:
    before = sorted(files(server.folder))
    assert send(server, 1000, Host="evil.example", Origin="http://evil.example")[0] == 400
    assert sorted(files(server.folder)) == before


@pytest.mark.parametrize(
    "path", ["queue/join", "run/predict", "call/compare", "cancel", "component_server"]
)
def test_a_foreign_page_cannot_start_anything(server: Server, path: str) -> None:
    request = urllib.request.Request(
        f"{server.url}gradio_api/{path}", b"{}", {"Origin": "http://evil.example"}
    )
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("upload", "multipart/form-data; boundary=line"),
        ("queue/join", "application/json"),
        ("call/compare", "application/json"),
    ],
)
def test_a_body_announced_as_too_large_is_refused(server: Server, path: str, kind: str) -> None:
    """Before it is read: what is no file would be read into memory."""
    size = 102 * 2**20 if path == "upload" else 10 * 2**20
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    connection.putrequest("POST", f"/gradio_api/{path}")
    for name, value in (("Content-Type", kind), ("Content-Length", str(size))):
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def memory(server: Server) -> int:
    """Peak resident bytes of the server."""
    status = Path(f"/proc/{server.process.pid}/status")
    if not status.exists():
        pytest.skip("this machine does not say how much memory a process holds")
    return int(status.read_text().split("VmHWM:")[1].split()[0]) * 1024


def test_a_body_of_unannounced_size_is_cut(server: Server) -> None:
    before = memory(server)
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    with contextlib.suppress(OSError):
        kind = {"Content-Type": "application/json"}
        connection.request(
            "POST", "/gradio_api/queue/join", zeros(256 * 2**20), kind, encode_chunked=True
        )
        connection.getresponse().read()
    connection.close()
    assert memory(server) - before < 48 * 2**20


def test_many_values_are_refused_before_they_are_made(server: Server) -> None:
    """45 MB of them took 2 GB, and 15 seconds in which nobody else was answered."""
    before = memory(server)
    for size in (3 * 10**6, 15 * 10**6):
        status, sentence = ask(server, "POST", "queue/join", b'{"data": [' + b"[]," * size + b"1]}")
        assert status == 413
        assert sentence.endswith(".")
    assert memory(server) - before < 96 * 2**20


def ask(server: Server, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
    """Status and text of the answer to a request below Gradio's own path."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    try:
        connection.request(
            method, f"/gradio_api/{path}", body, {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


DEEP = b'{"session_hash": "x", "fn_index": 0, "data": [' + b"[" * 500 + b"]" * 500 + b"]}"
NUL = b'{"session_hash": "x", "fn_index": 0, "data": [{"path": "a\\u0000b", "meta": {"_type": "gradio.FileData"}}]}'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        *(
            ("POST", f"{path}/nothing", b'{"data": []}')
            for path in ("call", "call/v2", "run", "api")
        ),
        *(
            ("POST", path, b'{"data": [], "fn_index": %d, "session_hash": "x"}' % number)
            for path in ("queue/join", "run/predict")
            for number in (-1, 999)
        ),
        ("POST", "call/v2/compare", b'{"nothing": 1}'),
        *(
            ("POST", path, body)
            for path in ("queue/join", "run/predict", "call/compare")
            for body in (DEEP, NUL)
        ),
        ("GET", "file=/tmp/a%00b", None),
        ("GET", "../frames/a%00b", None),
        ("GET", "../static/" + "a" * 300, None),
        ("GET", "../?trace=" + "a" * 70_000, None),
        ("GET", "upload_progress?upload_id=" + "a" * 7_000, None),
        ("GET", "queue/data?session_hash=" + "a" * 7_000, None),
        (
            "POST",
            "queue/join?trace=" + "a" * 70_000,
            b'{"data": [], "fn_index": 0, "session_hash": "x"}',
        ),
    ],
    ids=lambda value: str(value)[:24],
)
def test_nonsense_is_refused_with_a_sentence(
    method: str, path: str, body: bytes | None, server: Server
) -> None:
    log = server.log.read_text()
    status, text = ask(server, method, path, body)
    assert 400 <= status < 500
    assert " " in text
    assert text.startswith("{") or text.endswith(".")
    assert "Traceback" not in server.log.read_text().removeprefix(log)


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
def test_monitoring_history_and_fetching_are_off(server: Server, path: str) -> None:
    assert status_of(server.url + path) in (403, 404)


@pytest.mark.parametrize(
    "path", ["process_recording", "component_server", "vibe-edit", "undo-vibe-edit", "stream/x"]
)
def test_routes_that_the_page_never_uses_are_blocked(server: Server, path: str) -> None:
    before = sorted(files(server.folder))
    request = urllib.request.Request(
        f"{server.url}gradio_api/{path}", b"{}", {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(request, timeout=PATIENCE_S)
    assert sorted(files(server.folder)) == before


def test_the_page_tells_no_path_of_this_machine(server: Server) -> None:
    sent = json.dumps(config(server))
    for place in (server.folder, Path.home(), Path(__file__).resolve().parents[3]):
        assert str(place) not in sent


def test_no_public_link_is_made(server: Server) -> None:
    log = server.log.read_text()
    assert "Running on local URL" in log
    assert "Running on public URL" not in log
    assert "To create a public link" in log


# -- who is served -------------------------------------------------------------------------------------------------------


def own_addresses() -> list[str]:
    """IP addresses of this machine besides 127.0.0.1."""
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
        socket.create_connection((address, port or 0), timeout=PATIENCE_S).close()


# -- what is left --------------------------------------------------------------------------------------------------------


def test_no_file_stays_of_a_visitor_who_has_left(server: Server, clips: Clips) -> None:
    (folder,) = server.folder.glob("vr-thinker-page-*")
    folders = (folder / "pictures", folder / "records")
    before = [sorted(files(folder)) for folder in folders]
    event, inputs = comparing(server)
    with urllib.request.urlopen(
        f"{server.url}gradio_api/heartbeat/anna", timeout=PATIENCE_S
    ) as alive:
        alive.readline()
        join(server, event, [*uploaded(server, clips), PROMPT, *[None] * (inputs - 3)], "anna")
        until(
            lambda: all(
                sorted(files(folder)) != former
                for folder, former in zip(folders, before, strict=True)
            )
        )
    until(lambda: [sorted(files(folder)) for folder in folders] == before)


# -- a full queue --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["run/compare", "api/compare"])
def test_no_call_gets_past_the_queue(path: str, answering: Server, clips: Clips) -> None:
    body = json.dumps({"data": [*uploaded(answering, clips), PROMPT]}).encode()
    status, text = ask(answering, "POST", path, body)
    assert (status, "queue" in text) == (404, True)


@pytest.mark.parametrize("path", ["queue/data?session_hash=nobody", "call/compare/nothing"])
def test_a_stream_of_a_session_that_is_not_known_ends_and_leaves_no_traceback(
    answering: Server, path: str
) -> None:
    with urllib.request.urlopen(f"{answering.url}gradio_api/{path}", timeout=PATIENCE_S) as answer:
        assert b"Not Found" in answer.read()  # raises IncompleteRead where the stream is cut off
    assert "Traceback" not in answering.log.read_text()
