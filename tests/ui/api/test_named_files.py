"""A file can be given as an upload returned it: no other file of the machine, no address that only this machine reaches."""

from __future__ import annotations

import base64
import http.server
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Clips, Server
from tests.ui.server.test_server import status_of
from tests.ui.sessions.test_sessions import files
from tests.ui.support.api import META, answers, begin, check_refused, file, messages, upload
from tests.ui.support.page_events import act, config
from tests.ui.support.saved_examples import PROMPT
from vrthinker_core.errors import BadInput
from vrthinker_core.ui.api_endpoints import MAX_DATA_URL_BYTES, resolve_video
from vrthinker_core.ui.gradio_blocks import NOT_UPLOADED

PATHS = [
    "/etc/passwd",
    "/proc/self/environ",
    "{uploads}/../script.jsonl",
    "{uploads}/../../script.jsonl",
    "{uploads}/../records",
    "{uploads}/../pictures/../../script.jsonl",
    "{uploads}",
    "{link}",
    "{folder}/server.log",
    "app.py",
    "assets/examples/../../app.py",
    "",
    "file:///etc/passwd",
    "concat:/etc/passwd",
    "data:video/mp4;base64,AAAA",
]
TAKES_FILES = ("video", "uploadbutton")


@pytest.fixture(scope="module")
def server(answering: Server) -> Server:
    return answering


@pytest.fixture(scope="module")
def clip(server: Server, clips: Clips) -> str:
    """The path that an upload returned."""
    return upload(server, clips[0])


@pytest.fixture(scope="module")
def local_server() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine that must never be fetched from, and the paths that were requested of it."""
    requested: list[str] = []

    class RecordingHandler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)

    with http.server.HTTPServer(("127.0.0.1", 0), RecordingHandler) as http_server:
        threading.Thread(
            target=http_server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        yield f"http://127.0.0.1:{http_server.server_address[1]}/film.mp4", requested
        http_server.shutdown()


def filled_in(path: str, server: Server, clip: str) -> str:
    """`path` with this machine's folders; there is a symbolic link among the uploads, though no upload can make one."""
    uploads = Path(clip).parents[1]
    link = uploads / "link.mp4"
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/passwd")
    return path.format(uploads=uploads, folder=server.folder, link=link)


# -- the API -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_the_api_takes_no_file_of_the_machine(path: str, server: Server, clip: str) -> None:
    path = filled_in(path, server, clip)
    check_refused(
        answers(server, {"path": path}, file(clip), PROMPT)[-1], "Video 1 is no uploaded file."
    )
    event, data = list(messages(begin(server, file(path), file(clip), PROMPT)))[-1]
    if event == "complete":
        check_refused(data[0], "Video 1 is no uploaded file.")
    else:
        assert (event, data["error"]) == ("error", NOT_UPLOADED)
    check_refused(answers(server, path, file(clip), PROMPT)[-1], "Video 1")


def test_the_api_fetches_nothing_from_this_machine(
    server: Server, clip: str, local_server: tuple[str, list[str]]
) -> None:
    url, requested = local_server
    event, data = list(messages(begin(server, file(url), file(clip), PROMPT)))[-1]
    assert event == "error"
    assert data["error"].endswith(".")
    check_refused(answers(server, {"path": url}, file(clip), PROMPT)[-1], "no uploaded file")
    check_refused(answers(server, url, file(clip), PROMPT)[-1], "")
    assert requested == []


# -- the page's own events, sent by hand ---------------------------------------------------------------------------------


def file_events(server: Server) -> Iterator[tuple[int, list[str]]]:
    """(event, kinds of its inputs) of every event of the page that takes a file."""
    page = config(server)
    kinds = {component["id"]: component["type"] for component in page["components"]}
    for event in page["dependencies"]:
        inputs = [kinds[component] for component in event["inputs"]]
        if any(kind in TAKES_FILES for kind in inputs):
            yield event["id"], inputs


def event_answers(server: Server, value: object) -> list[dict[str, Any]]:
    """What every event that takes a file answers, with `value` for each file."""
    return [
        act(server, event, [value if kind in TAKES_FILES else None for kind in kinds])
        for event, kinds in file_events(server)
    ]


@pytest.mark.parametrize("path", [path for path in PATHS if path not in ("", "{uploads}")])
def test_the_page_takes_no_file_of_the_machine(path: str, server: Server, clip: str) -> None:
    path = filled_in(path, server, clip)
    before = set(files(server.folder))
    found = event_answers(server, file(path))
    assert len(found) >= 5
    assert [reply.get("error") for reply in found] == [NOT_UPLOADED] * len(found)
    assert (
        set(files(server.folder)) <= before
    )  # an earlier test's may go meanwhile, "nothing was fetched, copied or kept"


@pytest.mark.parametrize(
    "shape",
    [
        lambda path: path,
        lambda path: {"path": path},
        lambda path: {"video": file(path)},
        lambda path: [file(path)],
        lambda path: {"path": path, "meta": META, "is_stream": True},
    ],
    ids=["text", "bare", "nested", "list", "stream"],
)
def test_the_page_takes_none_in_any_other_shape(
    shape: Callable[[str], object], server: Server
) -> None:
    before = set(files(server.folder))
    for reply in event_answers(server, shape("/etc/passwd")):
        assert reply.keys() >= {"error"}
        assert "data" not in reply
        assert "root:" not in str(reply)
    assert set(files(server.folder)) <= before  # an earlier test's may go meanwhile


def test_the_page_fetches_nothing_from_this_machine(
    server: Server, clip: str, local_server: tuple[str, list[str]]
) -> None:
    url, requested = local_server
    for reply in event_answers(server, file(url)):
        assert reply["error"].endswith(".")
    event_answers(server, {**file(clip), "url": url})
    assert requested == []


# -- addresses of the server ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "address",
    ["gradio_api/file={}", "gradio_api/file/{}", "gradio_api/proxy={}", "static/{}", "assets/{}"],
)
def test_no_address_leads_to_a_file_of_the_machine(
    address: str, path: str, server: Server, clip: str
) -> None:
    assert status_of(
        server.url + quote(address.format(filled_in(path, server, clip)), safe="/=:.")
    ) in (400, 403, 404, 405)


@pytest.mark.parametrize(
    "address", ["gradio_api/file={}", "gradio_api/file/{}", "gradio_api/proxy={}"]
)
def test_no_address_makes_the_server_fetch(
    address: str, server: Server, local_server: tuple[str, list[str]]
) -> None:
    url, requested = local_server
    assert status_of(server.url + address.format(url)) in (400, 403, 404)
    assert requested == []


@pytest.mark.parametrize("name", ["page.html", "picture.svg", "script.js", "video.mp4.html"])
def test_uploads_are_served_as_attachments_only(name: str, server: Server, tmp_path: Path) -> None:
    evil = tmp_path / name
    evil.write_text("<script xmlns='http://www.w3.org/2000/svg'>alert(1)</script>")
    with urllib.request.urlopen(
        f"{server.url}gradio_api/file={upload(server, evil)}", timeout=PATIENCE_S
    ) as response:
        headers = response.headers
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"


NOWHERE = Path("nowhere")


@pytest.fixture
def uploads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the server's uploads."""
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    return tmp_path / "uploads"


def resolve(given: object, fetched: Path = NOWHERE) -> tuple[Path, bytes | None, list[str]]:
    """(the file, its content while it is in use, the addresses that were fetched)."""
    addresses: list[str] = []

    async def fetch(address: str) -> Path:
        addresses.append(address)
        return fetched

    async def read() -> tuple[Path, bytes | None, list[str]]:
        async with resolve_video(given, "Video 1", fetch) as path:
            return path, path.read_bytes() if path.exists() else None, addresses

    return run_in_thread(read())


def test_an_upload_can_be_given_in_four_ways(uploads: Path) -> None:
    path = uploads / "0f" / "a film, 100%.mp4"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"film")
    address = f"https://demo.example/gradio_api/file={quote(str(path))}"
    for given in (
        str(path),
        {"path": str(path)},
        {"path": str(path), "meta": {"_type": "gradio.FileData"}},
        address,
    ):
        assert resolve(given) == (path, b"film", [])
    assert path.exists()


def test_a_web_address_is_fetched(uploads: Path) -> None:
    for address in ("https://demo.example/film.mp4", "http://demo.example/gradio_api/film.mp4"):
        assert resolve(address) == (NOWHERE, None, [address])


def test_the_file_of_a_data_url_is_deleted_afterwards(uploads: Path) -> None:
    path, content, addresses = resolve(
        "data:video/mp4;base64," + base64.b64encode(b"film").decode()
    )
    assert (content, addresses) == (b"film", [])
    assert path.is_relative_to(uploads)
    assert not path.exists()
    assert not any(uploads.iterdir())


def test_a_data_url_that_is_too_large_is_refused(uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 has more than 3.5 MB"):
        resolve("data:video/mp4;base64," + "A" * (MAX_DATA_URL_BYTES * 4 // 3 + 8))
    assert not any(uploads.iterdir())


@pytest.mark.parametrize(
    "given",
    [
        None,
        7,
        [],
        {},
        {"path": 7},
        "",
        "a\0b",
        "film.mp4",
        "file:///etc/passwd",
        "ftp://demo.example/a",
    ],
)
def test_nothing_else_is_a_video(given: object, uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 is no uploaded file\."):
        resolve(given)


def test_an_address_in_a_file_object_is_not_fetched_here(uploads: Path) -> None:
    with pytest.raises(BadInput, match=r"^Video 1 is no uploaded file\."):
        resolve({"path": "https://demo.example/film.mp4"})
