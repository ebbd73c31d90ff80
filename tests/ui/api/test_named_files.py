"""Files are named by what an upload gave: no other file of the machine, and nothing of the web that only this machine can see."""

from __future__ import annotations

import http.server
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.ui.conftest import Server
from tests.ui.server.test_server import status_of
from tests.ui.sessions.test_sessions import files
from tests.ui.support.api_calls import META, PROMPT, Clips, act, answers, begin, check_refused, config, file, messages, upload
from vrthinker_core.ui.server.gradio_blocks import NOT_UPLOADED

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
    """The path that an upload gave."""
    return upload(server, clips[0])


@pytest.fixture(scope="module")
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server of this machine that nobody should be sent to, and what it was asked for."""
    heard: list[str] = []

    class Listens(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)

    with http.server.HTTPServer(("127.0.0.1", 0), Listens) as trap:
        threading.Thread(target=trap.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{trap.server_address[1]}/film.mp4", heard
        trap.shutdown()


def named(path: str, server: Server, clip: str) -> str:
    """The path as it is on this machine; a link lies among the uploads, though nobody can put one there."""
    uploads = Path(clip).parents[1]
    link = uploads / "link.mp4"
    link.unlink(missing_ok=True)
    link.symlink_to("/etc/passwd")
    return path.format(uploads=uploads, folder=server.folder, link=link)


# -- programs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_a_program_can_name_no_file_of_the_machine(path: str, server: Server, clip: str) -> None:
    path = named(path, server, clip)
    check_refused(answers(server, {"path": path}, file(clip), PROMPT)[-1], "Video 1 is no uploaded file.")
    event, said = list(messages(begin(server, file(path), file(clip), PROMPT)))[-1]
    if event == "complete":
        check_refused(said[0], "Video 1 is no uploaded file.")
    else:
        assert (event, said["error"]) == ("error", NOT_UPLOADED)
    check_refused(answers(server, path, file(clip), PROMPT)[-1], "Video 1")


def test_a_program_cannot_send_the_server_to_itself(server: Server, clip: str, asked: tuple[str, list[str]]) -> None:
    url, heard = asked
    event, said = list(messages(begin(server, file(url), file(clip), PROMPT)))[-1]
    assert event == "error"
    assert said["error"].endswith(".")
    check_refused(answers(server, {"path": url}, file(clip), PROMPT)[-1], "no uploaded file")
    check_refused(answers(server, url, file(clip), PROMPT)[-1], "")
    assert heard == []


# -- the page's own events, sent by hand ---------------------------------------------------------------------------------


def events(server: Server) -> Iterator[tuple[int, list[str]]]:
    """(event, kinds of its inputs) of every event of the page that takes a file."""
    told = config(server)
    kinds = {part["id"]: part["type"] for part in told["components"]}
    for event in told["dependencies"]:
        inputs = [kinds[part] for part in event["inputs"]]
        if any(kind in TAKES_FILES for kind in inputs):
            yield event["id"], inputs


def answered(server: Server, value: object) -> list[dict[str, Any]]:
    """What every such event answers when all its files are `value`."""
    return [act(server, event, [value if kind in TAKES_FILES else None for kind in kinds]) for event, kinds in events(server)]


@pytest.mark.parametrize("path", [path for path in PATHS if path not in ("", "{uploads}")])
def test_the_page_can_name_no_file_of_the_machine(path: str, server: Server, clip: str) -> None:
    path = named(path, server, clip)
    before = sorted(files(server.folder))
    found = answered(server, file(path))
    assert len(found) >= 5
    assert [said.get("error") for said in found] == [NOT_UPLOADED] * len(found)
    assert sorted(files(server.folder)) == before, "nothing was fetched, copied or kept"


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
def test_nor_in_any_other_shape(shape: Callable[[str], object], server: Server) -> None:
    before = sorted(files(server.folder))
    for said in answered(server, shape("/etc/passwd")):
        assert said.keys() >= {"error"}
        assert "data" not in said
        assert "root:" not in str(said)
    assert sorted(files(server.folder)) == before


def test_the_page_cannot_send_the_server_to_itself(server: Server, clip: str, asked: tuple[str, list[str]]) -> None:
    url, heard = asked
    for said in answered(server, file(url)):
        assert said["error"].endswith(".")
    answered(server, {**file(clip), "url": url})
    assert heard == []


# -- addresses of the server ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("address", ["gradio_api/file={}", "gradio_api/file/{}", "gradio_api/proxy={}", "static/{}", "assets/{}"])
def test_no_address_leads_to_a_file_of_the_machine(address: str, path: str, server: Server, clip: str) -> None:
    assert status_of(server.url + quote(address.format(named(path, server, clip)), safe="/=:.")) in (400, 403, 404, 405)


@pytest.mark.parametrize("address", ["gradio_api/file={}", "gradio_api/file/{}", "gradio_api/proxy={}"])
def test_no_address_sends_the_server_out(address: str, server: Server, asked: tuple[str, list[str]]) -> None:
    url, heard = asked
    assert status_of(server.url + address.format(url)) in (400, 403, 404)
    assert heard == []


@pytest.mark.parametrize("name", ["page.html", "picture.svg", "script.js", "video.mp4.html"])
def test_what_is_uploaded_is_never_shown_as_a_page(name: str, server: Server, tmp_path: Path) -> None:
    evil = tmp_path / name
    evil.write_text("<script xmlns='http://www.w3.org/2000/svg'>alert(1)</script>")
    with urllib.request.urlopen(f"{server.url}gradio_api/file={upload(server, evil)}", timeout=10) as response:
        headers = response.headers
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
