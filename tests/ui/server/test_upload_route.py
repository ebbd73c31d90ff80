"""Uploads: bounded in bytes and in time; what breaks off, or finds a full disk, leaves no file and no traceback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from gradio import routes
from gradio.route_utils import FileUploadProgress
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from tests.support.threads import run_in_thread
from tests.support.waiting import until
from tests.ui.conftest import Clips, Serve, Server
from tests.ui.server.test_refusals import send
from tests.ui.sessions.test_sessions import files
from tests.ui.support.api import answers, uploaded
from vrthinker_core.ui.file_routes import UploadRoute
from vrthinker_core.ui.gradio_blocks import ForgottenUploads
from vrthinker_core.ui.uploads import Uploads

HEAD = b'--line\r\nContent-Disposition: form-data; name="files"; filename="zeros.mp4"\r\n\r\n'
TAIL = b"\r\n--line--\r\n"
KIND = "multipart/form-data; boundary=line"


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"])


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "copies", tmp_path / "uploads" / "fetched")


def post(
    uploads: Uploads,
    pieces: Sequence[bytes],
    pause: float = 0,
    address: str = "192.0.2.1",
    via: str = "",
) -> Response:
    """The answer to an upload that comes in these pieces, with a pause before each."""

    async def messages() -> AsyncIterator[Message]:
        for number, piece in enumerate(pieces):
            await asyncio.sleep(pause)
            yield {"type": "http.request", "body": piece, "more_body": number < len(pieces) - 1}
        yield {"type": "http.disconnect"}

    headers = [(b"content-type", KIND.encode()), (b"x-forwarded-for", via.encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "query_string": b"",
        "client": (address, 1),
        "headers": headers,
    }
    coming = messages()
    return run_in_thread(UploadRoute(uploads).upload(Request(scope, lambda: anext(coming))))


def check_refused(response: Response, status: int) -> None:
    text = bytes(response.body).decode()
    assert response.status_code == status
    assert text.endswith(".")
    assert "\n" not in text


def test_an_upload_arrives_whole(uploads: Uploads) -> None:
    response = post(uploads, [HEAD, b"x" * 9, b"y" * 9, TAIL])
    (path,) = json.loads(bytes(response.body))
    assert Path(path).read_bytes() == b"x" * 9 + b"y" * 9
    assert Path(path).name == "zeros.mp4"
    assert len(Path(path).parent.name) == 64
    assert [str(file) for file in files(Path(path).parents[1])] == [path]


def test_one_visitor_who_has_filled_their_share_takes_nobody_elses(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.download.MAX_VISITOR_BYTES", 5000)
    assert post(uploads, [HEAD, b"a" * 3000, TAIL]).status_code == 200
    check_refused(post(uploads, [HEAD, *[b"b" * 1000] * 3, TAIL]), 507)
    assert post(uploads, [HEAD, b"c" * 3000, TAIL], address="192.0.2.2").status_code == 200
    for via in ("198.51.100.7", "1.1.1.1, 198.51.100.8"):
        assert (
            post(uploads, [HEAD, via.encode() * 200, TAIL], address="10.0.0.1", via=via).status_code
            == 200
        )
    check_refused(
        post(uploads, [HEAD, b"d" * 3000, TAIL], address="10.0.0.1", via="2.2.2.2, 198.51.100.8"),
        507,
    )
    monkeypatch.setattr("vrthinker_core.ui.uploads.UNUSED_SECONDS", -1.0)
    uploads.expire([])
    assert post(uploads, [HEAD, b"b" * 3000, TAIL]).status_code == 200


def test_a_visitor_from_outside_gains_no_share_by_naming_other_addresses(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.download.MAX_VISITOR_BYTES", 5000)
    vias = [f"198.51.100.{n}" for n in range(3)]
    got = [
        post(uploads, [HEAD, bytes([n]) * 2000, TAIL], address="8.8.8.8", via=via)
        for n, via in enumerate(vias)
    ]
    assert [answer.status_code for answer in got] == [200, 200, 507]


def test_all_visitors_together_have_a_bound(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.download.MAX_BYTES", 5000)
    statuses = [
        post(uploads, [HEAD, bytes([n]) * 1500, TAIL], address=f"192.0.2.{n}").status_code
        for n in range(4)
    ]
    assert statuses == [200, 200, 200, 507]


@pytest.mark.parametrize(
    "pieces", [[HEAD, *[b"x"] * 400, TAIL], [HEAD], [b""]], ids=["drips", "stops", "says nothing"]
)
def test_a_slow_upload_ends(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]
) -> None:
    monkeypatch.setattr("vrthinker_core.ui.file_routes.PAUSE_SECONDS", 0.4)
    check_refused(post(uploads, pieces, pause=0.05 if len(pieces) > 2 else 30), 408)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD, b"x" * 99],
        [b"no form"],
        [b'--line\r\nContent-Disposition: form-data; name="files"\r\n\r\nx' + TAIL],
        [HEAD[:30], TAIL],
    ],
)
def test_what_is_no_whole_upload_leaves_nothing(
    uploads: Uploads, tmp_path: Path, pieces: list[bytes]
) -> None:
    response = post(uploads, pieces)
    assert response.status_code in (400, 413) or response.body == b"[]"
    assert files(tmp_path) == []
    assert list((tmp_path / "uploads").iterdir()) == []


def break_off(server: Server, announced: int, sent: int) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0)) as connection:
        head = f"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {KIND}\r\nContent-Length: {announced}\r\n\r\n"
        connection.sendall(head.encode() + HEAD + bytes(sent))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


def test_broken_uploads_leave_no_file_and_no_traceback(server: Server) -> None:
    before = sorted(files(server.folder))
    for number in range(120):
        break_off(server, 2**20, 1000 * number)
    until(lambda: sorted(files(server.folder)) == before)
    assert "Traceback" not in server.log.read_text()
    assert "Error" not in server.log.read_text()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit")
def test_a_full_disk_is_a_sentence_and_leaves_no_half_file(server: Server, clips: Clips) -> None:
    """Stands for a full disk: no file of the server may grow beyond 100 kB."""
    before, size = sorted(files(server.folder)), 100_000
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    status, body = send(server, 3_000_000)
    assert (status, body[-1:], "\n" in body) == (507, ".", False)
    assert sorted(files(server.folder)) == before
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    assert send(server, 3_000_000)[0] == 200
    assert answers(server, *uploaded(server, clips), "A block.")[-1]["labels"]
    assert "Traceback" not in server.log.read_text()


def test_uploads_that_nobody_asks_for_any_more_are_forgotten() -> None:
    progress, sweeps = FileUploadProgress(), ForgottenUploads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "file_upload_statuses", progress)
        with contextlib.suppress(TimeoutError):
            run_in_thread(asyncio.wait_for(progress.is_tracked("asked for, and never sent"), 0.01))
        progress.track("goes on")
        progress.set_done("over")
        sweeps.sweep()
        assert set(progress._signals) == {"asked for, and never sent", "goes on", "over"}
        sweeps.sweep()
        assert set(progress._signals) == set(progress._statuses) == {"goes on"}
        progress.set_done("goes on")
        progress.track("new")
        sweeps.sweep()
        assert set(progress._signals) == set(progress._statuses) == {"new"}
