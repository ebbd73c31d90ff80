"""Downloads: the file and its name, responses that are no video, limits of size and time."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui.fetch.local_web import (
    VIDEO,
    Handler,
    LocalWeb,
    Reply,
    drips,
    floods,
    raw,
    redirects,
    refusal,
    responds,
    serving,
)
from vrthinker_core.errors import BadInput
from vrthinker_core.ui.download import fetch_video
from vrthinker_core.ui.public_addresses import FetchPolicy


def test_a_video_is_kept_under_a_random_name(web: LocalWeb, tmp_path: Path) -> None:
    first = fetch_video(web.url("/film.mp4?secret=1"), tmp_path, policy=web.policy)
    second = fetch_video(f"  {web.url()}\n", tmp_path, policy=web.policy)
    assert first.read_bytes() == second.read_bytes() == VIDEO
    assert first != second
    assert first.suffix == ".mp4"
    assert "film" not in first.name
    assert sorted(tmp_path.iterdir()) == sorted([first, second])
    assert [path for path, _ in web.requests] == ["/film.mp4?secret=1", "/film.mp4"]


def test_a_host_is_looked_up_once_and_gets_its_own_name_as_host_header(
    web: LocalWeb, tmp_path: Path
) -> None:
    fetch_video(web.url(), tmp_path, policy=web.policy)
    assert web.lookups == ["film.example"]
    headers = web.requests[0][1]
    assert headers["host"] == f"film.example:{web.port}"
    assert not headers.keys() & {"cookie", "authorization", "referer"}


def test_proxies_from_the_environment_are_ignored(
    web: LocalWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch_video(web.url(), tmp_path, policy=web.policy).read_bytes() == VIDEO


@pytest.mark.parametrize(
    ("path", "kind", "suffix"),
    [
        ("/a", "video/webm", ".webm"),
        ("/a.MOV", "video/mp4", ".mov"),
        ("/a.exe", "text/plain", ".video"),
        ("/ü/ä.mkv", "", ".mkv"),
    ],
)
def test_the_suffix_is_the_urls_or_the_content_types(
    path: str, kind: str, suffix: str, web: LocalWeb, tmp_path: Path
) -> None:
    web.replies |= {name: responds(Content_Type=kind) for name in (path, "/%C3%BC/%C3%A4.mkv")}
    assert fetch_video(web.url(path), tmp_path, policy=web.policy).suffix == suffix


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (responds(404), "404"),
        (responds(500), "500"),
        (responds(206), "206"),
        (responds(204, b""), "204"),
        (responds(Content_Type="text/html; charset=utf-8"), "web page"),
        (responds(body=b""), "empty"),
        (responds(length=len(VIDEO) + 1), "broke off"),
        (responds(body=b"5\r\nab", length=-1, Transfer_Encoding="chunked"), "web server"),
        (raw(b"SSH-2.0-OpenSSH\r\n"), "web server"),
        (raw(b""), "web server"),
        (raw(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n"), "web server"),
        (raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n"), "web server"),
    ],
)
def test_a_response_that_is_no_video_is_refused(
    reply: Reply, words: str, web: LocalWeb, tmp_path: Path
) -> None:
    web.replies["/film.mp4"] = reply
    assert words in refusal(web.url(), tmp_path, web.policy)


@pytest.mark.parametrize(
    "reply",
    [responds(), responds(length=-1), floods, responds(body=b"", length=10**12)],
    ids=["announced", "unannounced", "endless", "announced only"],
)
def test_a_video_larger_than_the_limit_is_refused(
    reply: Reply, web: LocalWeb, tmp_path: Path
) -> None:
    web.replies["/film.mp4"] = reply
    assert "more than 0.1 MB" in refusal(web.url(), tmp_path, web.policy, limit_bytes=100_000)


def test_a_video_as_large_as_the_limit_is_kept(web: LocalWeb, tmp_path: Path) -> None:
    assert (
        fetch_video(web.url(), tmp_path, policy=web.policy, limit_bytes=len(VIDEO)).read_bytes()
        == VIDEO
    )


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
def test_a_response_that_drips_is_given_up_at_the_deadline(
    reply: Reply, web: LocalWeb, tmp_path: Path
) -> None:
    web.replies["/film.mp4"] = reply
    began = time.monotonic()
    sentence = refusal(web.url(), tmp_path, web.policy, seconds=0.6)
    assert time.monotonic() - began < 2
    assert "longer than 0.6 s" in sentence or "web server" in sentence


def test_the_deadline_counts_for_all_redirects_together(web: LocalWeb, tmp_path: Path) -> None:
    def slow_redirect(handler: Handler) -> None:
        time.sleep(0.4)
        redirects("/a")(handler)

    web.replies["/a"] = slow_redirect
    assert "longer than 0.6 s" in refusal(web.url("/a"), tmp_path, web.policy, seconds=0.6)


def test_a_name_server_that_hangs_is_given_up_at_the_deadline(
    web: LocalWeb, tmp_path: Path
) -> None:
    over = threading.Event()

    def hang(host: str, port: int) -> list[str]:
        over.wait(20)
        return []

    policy = replace(web.policy, resolve=hang)
    assert "longer than 0.3 s" in refusal(web.url(), tmp_path, policy, seconds=0.3)
    over.set()


def test_a_host_that_is_not_there_cannot_be_reached(web: LocalWeb, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        sentence = refusal(f"http://film.example:{closed.getsockname()[1]}/", tmp_path, web.policy)
    assert sentence == "film.example cannot be reached."
    assert (
        refusal("http://nowhere.example/", tmp_path, web.policy)
        == "nowhere.example cannot be reached."
    )


def test_the_second_address_is_tried_when_the_first_accepts_no_connection(
    web: LocalWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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


def test_nothing_is_decompressed(web: LocalWeb, tmp_path: Path) -> None:
    """A small response must not become a large file."""
    web.replies["/film.mp4"] = responds(body=gzip.compress(VIDEO), Content_Encoding="gzip")
    assert (
        gzip.decompress(fetch_video(web.url(), tmp_path, policy=web.policy).read_bytes()) == VIDEO
    )
    assert web.requests[0][1]["accept-encoding"] == "identity"


def test_an_error_of_our_own_disk_is_not_blamed_on_the_host(web: LocalWeb, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"^There is no room here"):
        fetch_video(web.url(), tmp_path / "file" / "folder", policy=web.policy)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of film.example; key and certificate in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("certificate") / "film.pem"
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=film.example -addext subjectAltName=DNS:film.example"
    done = subprocess.run(
        [*command.split(), "-keyout", "-", "-out", "-"], capture_output=True, check=True
    )
    path.write_bytes(done.stdout)
    return path


@pytest.fixture
def secure_web(certificate: Path) -> Iterator[LocalWeb]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(context) as running:
        yield LocalWeb(running)


def trusting(web: LocalWeb, certificate: Path) -> FetchPolicy:
    return replace(
        web.policy, ssl_context=lambda: ssl.create_default_context(cafile=str(certificate))
    )


def test_the_certificate_must_be_the_hosts_own(
    secure_web: LocalWeb, certificate: Path, tmp_path: Path
) -> None:
    secure_web.hosts["other.example"] = ["127.0.0.1"]
    policy = trusting(secure_web, certificate)
    url = f"https://film.example:{secure_web.port}/film.mp4"
    fetched = fetch_video(url, tmp_path / "kept", policy=policy)
    assert fetched.read_bytes() == VIDEO
    assert "certificate" in refusal(
        url.replace("film.example", "other.example"), tmp_path / "refused", policy
    )
    assert "certificate" in refusal(url, tmp_path / "refused", secure_web.policy)
    assert [path for path, _ in secure_web.requests] == ["/film.mp4"]


def test_headers_that_drip_over_tls_end_at_the_deadline(
    secure_web: LocalWeb, certificate: Path, tmp_path: Path
) -> None:
    secure_web.replies["/film.mp4"] = drips(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n")
    url = f"https://film.example:{secure_web.port}/film.mp4"
    began = time.monotonic()
    assert "longer than 0.6 s" in refusal(
        url, tmp_path, trusting(secure_web, certificate), seconds=0.6
    )
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("drop", [b"", b"\0"], ids=["silence", "drip"])
def test_a_handshake_that_never_ends_is_given_up_at_the_deadline(
    drop: bytes, web: LocalWeb, tmp_path: Path
) -> None:
    """The beginning of a TLS record, then silence or a byte every 50 ms."""

    def stall() -> None:
        with contextlib.suppress(OSError), listening.accept()[0] as connection:
            connection.sendall(b"\x16\x03\x03\x40\x00")
            while not over.wait(0.05):
                connection.sendall(drop)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=stall, daemon=True).start()
        began = time.monotonic()
        assert "longer than 0.6 s" in refusal(
            f"https://film.example:{listening.getsockname()[1]}/", tmp_path, web.policy, seconds=0.6
        )
        assert time.monotonic() - began < 2
        over.set()
