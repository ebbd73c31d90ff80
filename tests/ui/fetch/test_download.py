"""What is fetched and kept, what gives no video, and who takes too long."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.fetch.local_web import VIDEO, Handler, Reply, Web, drips, floods, moves, raw, refused, says
from vrthinker_core.errors import BadInput
from vrthinker_core.ui.fetch.download import fetch_video


def test_a_video_is_kept_under_a_name_that_tells_nothing(web: Web, tmp_path: Path) -> None:
    first = fetch_video(web.url("/film.mp4?secret=1"), tmp_path, policy=web.policy)
    second = fetch_video(f"  {web.url()}\n", tmp_path, policy=web.policy)
    assert first.read_bytes() == second.read_bytes() == VIDEO
    assert first != second
    assert first.suffix == ".mp4"
    assert "film" not in first.name
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert [path for path, _ in web.asked] == ["/film.mp4?secret=1", "/film.mp4"]


def test_a_host_is_looked_up_once_and_sees_its_own_name(web: Web, tmp_path: Path) -> None:
    fetch_video(web.url(), tmp_path, policy=web.policy)
    assert web.lookups == ["film.example"]
    headers = web.asked[0][1]
    assert headers["host"] == f"film.example:{web.port}"
    assert not headers.keys() & {"cookie", "authorization", "referer"}


def test_the_environment_names_no_proxy(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch_video(web.url(), tmp_path, policy=web.policy).read_bytes() == VIDEO


@pytest.mark.parametrize(
    ("path", "kind", "suffix"),
    [("/a", "video/webm", ".webm"), ("/a.MOV", "video/mp4", ".mov"), ("/a.exe", "text/plain", ".video"), ("/ü/ä.mkv", "", ".mkv")],
)
def test_the_suffix_is_the_addresss_own_or_the_servers(path: str, kind: str, suffix: str, web: Web, tmp_path: Path) -> None:
    web.replies |= {name: says(Content_Type=kind) for name in (path, "/%C3%BC/%C3%A4.mkv")}
    assert fetch_video(web.url(path), tmp_path, policy=web.policy).suffix == suffix


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (says(404), "404"),
        (says(500), "500"),
        (says(206), "206"),
        (says(204, b""), "204"),
        (says(Content_Type="text/html; charset=utf-8"), "web page"),
        (says(body=b""), "empty"),
        (says(length=len(VIDEO) + 1), "broke off"),
        (says(body=b"5\r\nab", length=-1, Transfer_Encoding="chunked"), "web server"),
        (raw(b"SSH-2.0-OpenSSH\r\n"), "web server"),
        (raw(b""), "web server"),
        (raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n"), "web server"),
        (raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n"), "web server"),
    ],
)
def test_what_gives_no_video_is_said(reply: Reply, words: str, web: Web, tmp_path: Path) -> None:
    web.replies["/film.mp4"] = reply
    assert words in refused(web.url(), tmp_path, web.policy)


@pytest.mark.parametrize(
    "reply", [says(), says(length=-1), floods, says(body=b"", length=10**12)], ids=["announced", "silent", "endless", "boasting"]
)
def test_what_is_too_large_is_given_up(reply: Reply, web: Web, tmp_path: Path) -> None:
    web.replies["/film.mp4"] = reply
    assert "more than 0.1 MB" in refused(web.url(), tmp_path, web.policy, limit_bytes=100_000)


def test_what_is_just_not_too_large_is_kept(web: Web, tmp_path: Path) -> None:
    assert fetch_video(web.url(), tmp_path, policy=web.policy, limit_bytes=len(VIDEO)).read_bytes() == VIDEO


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        drips(HEAD + b"\r\n", b"x"),
        drips(HEAD, b"X"),
        drips(HEAD, b"A: b\r\n"),
        drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        lambda handler: time.sleep(3),
    ],
    ids=["body", "header", "headers", "continue", "chunks", "silence"],
)
def test_who_drips_is_given_up_in_time(reply: Reply, web: Web, tmp_path: Path) -> None:
    web.replies["/film.mp4"] = reply
    began = time.monotonic()
    told = refused(web.url(), tmp_path, web.policy, seconds=0.6)
    assert time.monotonic() - began < 2
    assert "longer than 0.6 s" in told or "web server" in told


def test_the_time_counts_for_all_redirects_together(web: Web, tmp_path: Path) -> None:
    def slowly(handler: Handler) -> None:
        time.sleep(0.4)
        moves("/a")(handler)

    web.replies["/a"] = slowly
    assert "longer than 0.6 s" in refused(web.url("/a"), tmp_path, web.policy, seconds=0.6)


def test_a_name_server_that_hangs_is_given_up_in_time(web: Web, tmp_path: Path) -> None:
    let_go = threading.Event()

    def hang(host: str, port: int) -> list[str]:
        let_go.wait(20)
        return []

    policy = replace(web.policy, resolve=hang)
    assert "longer than 0.3 s" in refused(web.url(), tmp_path, policy, seconds=0.3)
    let_go.set()


def test_nobody_there(web: Web, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        told = refused(f"http://film.example:{closed.getsockname()[1]}/", tmp_path, web.policy)
    assert told == "film.example cannot be reached."
    assert refused("http://nowhere.example/", tmp_path, web.policy) == "nowhere.example cannot be reached."


def test_the_second_address_is_tried_when_the_first_accepts_no_connection(
    web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.hosts["film.example"] = ["127.0.0.9", "127.0.0.1"]
    connect, tried = socket.socket.connect, []

    def refusing(self: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address[0])
        if address[0] == "127.0.0.9":
            raise ConnectionRefusedError
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refusing)
    policy = replace(web.policy, is_public=lambda address: address in ("127.0.0.1", "127.0.0.9"))
    assert fetch_video(web.url(), tmp_path, policy=policy).read_bytes() == VIDEO
    assert tried == ["127.0.0.9", "127.0.0.1"]


def test_nothing_is_decompressed(web: Web, tmp_path: Path) -> None:
    """A small response must not become a large file."""
    web.replies["/film.mp4"] = says(body=gzip.compress(VIDEO), Content_Encoding="gzip")
    assert gzip.decompress(fetch_video(web.url(), tmp_path, policy=web.policy).read_bytes()) == VIDEO
    assert web.asked[0][1]["accept-encoding"] == "identity"


def test_a_folder_without_room_is_not_the_hosts_fault(web: Web, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"^There is no room here"):
        fetch_video(web.url(), tmp_path / "file" / "folder", policy=web.policy)
