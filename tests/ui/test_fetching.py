"""Fetching for strangers: what is refused, what is kept, and that nothing but this machine's own server is ever asked."""

from __future__ import annotations

import http.server
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.addresses import PUBLIC, Policy, is_public
from vrthinker_core.ui.fetching import fetch_video

VIDEO = bytes(range(256)) * 400
Reply = Callable[["Handler"], None]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the test wants."""

    replies: dict[str, Reply]
    asked: list[tuple[str, dict[str, str]]]

    def do_GET(self) -> None:
        self.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.close_connection = True
        try:
            self.replies[self.path.partition("?")[0]](self)
        except OSError:
            return  # the other side had enough

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def says(status: int = 200, body: bytes = VIDEO, length: int | None = None, **headers: str) -> Reply:
    def reply(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        if length != -1:
            handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def moves(place: str) -> Reply:
    return says(302, b"", Location=place)


def drips(head: bytes, drop: bytes) -> Reply:
    """Never stops, and never lets the other side wait long."""

    def reply(handler: Handler) -> None:
        handler.wfile.write(head)
        while True:
            handler.wfile.write(drop)
            handler.wfile.flush()
            time.sleep(0.05)

    return reply


def floods(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
    while True:
        handler.wfile.write(VIDEO)


def raw(text: bytes) -> Reply:
    return lambda handler: handler.wfile.write(text) and None


class Web:
    """A web of one server on this machine: every name in `hosts` leads somewhere, only 127.0.0.1 counts as public."""

    def __init__(self, server: http.server.HTTPServer) -> None:
        self.port = server.server_address[1]
        self.replies = Handler.replies = {"/film.mp4": says(Content_Type="video/mp4")}
        self.asked = Handler.asked = []
        self.hosts: dict[str, Sequence[str]] = {"film.example": ["127.0.0.1"], "inside.example": ["10.0.0.7"]}
        self.lookups: list[str] = []
        self.policy = Policy(self._resolve, lambda address: address == "127.0.0.1", ports=None)

    def url(self, path: str = "/film.mp4", host: str = "film.example") -> str:
        return f"http://{host}:{self.port}{path}"

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append(host)
        if host in self.hosts:
            return self.hosts[host]
        if host.replace(".", "").isdigit() or ":" in host:
            return [host]
        raise OSError("no such host")


@pytest.fixture(scope="module")
def server() -> Iterator[http.server.HTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        running.block_on_close = False
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield running
        running.shutdown()


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


def refused(url: str, folder: Path, policy: Policy, **rest: float) -> str:
    with pytest.raises(BadInput) as caught:
        fetch_video(url, folder, policy=policy, **rest)  # type: ignore[arg-type]
    assert not folder.exists() or not list(folder.iterdir())
    told = str(caught.value)
    assert told.endswith(".")
    assert "\n" not in told
    return told


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


NEVER = [
    "file:///etc/passwd",
    "ftp://film.example/a.mp4",
    "data:video/mp4;base64,AAAA",
    "gopher://film.example/",
    "javascript:alert(1)",
    "/etc/passwd",
    "film.mp4",
    "",
    "http://",
    "http:///a.mp4",
    "http://[::1/",
    "http://film.example:port/",
    "http://film.example:99999/",
    "http://film.example/a b",
    "http://film.example/a\r\nHost: other",
    "http://film.example\\@127.0.0.1/",
    "http://a..b/",
    f"http://{'a' * 70}.example/",
    f"http://film.example/{'a' * 3000}",
    "http://anna@film.example/a.mp4",
    "http://anna:secret@film.example/a.mp4",
    "http://:@film.example/a.mp4",
]


@pytest.mark.parametrize("url", NEVER)
def test_what_is_no_web_address_is_refused(url: str, web: Web, tmp_path: Path) -> None:
    assert "secret" not in refused(url, tmp_path, web.policy)
    assert web.lookups == []


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 7860])
def test_other_ports_are_refused(port: int, web: Web, tmp_path: Path) -> None:
    policy = replace(web.policy, ports=PUBLIC.ports)
    assert str(port) in refused(f"http://film.example:{port}/film.mp4", tmp_path, policy)
    assert web.lookups == []


PRIVATE = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.88.99.1",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::808:808",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2002:808:808::1",
    "2001:0:808:808::1",
    "2001:db8::1",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "localhost",
    "",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700:4700::1111", "2a00:1450::1"])
def test_what_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"],
)
def test_this_machine_is_never_asked_whatever_it_is_called(host: str, web: Web, tmp_path: Path) -> None:
    """With the real rules and the system's own resolver: none of these needs a name server."""
    refused(f"http://{host}/film.mp4", tmp_path, PUBLIC)
    refused(f"http://{host}:{web.port}/film.mp4", tmp_path, replace(PUBLIC, ports=None))
    assert web.asked == []


@pytest.mark.parametrize("addresses", [["10.0.0.7"], ["127.0.0.1", "10.0.0.7"], ["10.0.0.7", "127.0.0.1"], ["nonsense"], []])
def test_a_name_that_leads_inside_is_refused(addresses: list[str], web: Web, tmp_path: Path) -> None:
    web.hosts["film.example"] = addresses
    told = refused(web.url(), tmp_path, web.policy)
    assert "10.0.0.7" not in told
    assert web.asked == []


def test_a_name_that_changes_its_mind_is_held_to_its_first_answer(web: Web, tmp_path: Path) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.7"]])
    policy = replace(web.policy, resolve=lambda host, port: next(answers))
    assert fetch_video(web.url(), tmp_path, policy=policy).read_bytes() == VIDEO


def test_redirects_are_followed(web: Web, tmp_path: Path) -> None:
    web.replies |= {"/a": moves("b"), "/b": moves(f"//film.example:{web.port}/c"), "/c": moves(web.url())}
    assert fetch_video(web.url("/a"), tmp_path, policy=web.policy).read_bytes() == VIDEO
    assert web.lookups == ["film.example"] * 4


@pytest.mark.parametrize(
    "place",
    [
        "http://10.0.0.7/film.mp4",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/film.mp4",
        "http://inside.example/film.mp4",
        "file:///etc/passwd",
        "ftp://film.example/",
        "http://anna:secret@film.example/",
        "data:,x",
        "http://[",
        "http://film.example:port/",
    ],
)
def test_redirects_to_where_nobody_may_go_are_refused(place: str, web: Web, tmp_path: Path) -> None:
    web.replies["/a"] = moves(place)
    refused(web.url("/a"), tmp_path, web.policy)
    assert [path for path, _ in web.asked] == ["/a"]


def test_a_redirect_to_this_machine_is_refused_by_the_real_rules(web: Web, tmp_path: Path) -> None:
    """The first host counts as public, this machine does not."""
    web.replies["/a"] = moves(f"http://127.0.0.2:{web.port}/film.mp4")
    refused(web.url("/a"), tmp_path, web.policy)
    assert [path for path, _ in web.asked] == ["/a"]


@pytest.mark.parametrize("place", ["/a", "", "//", "/a?again"])
def test_circles_end(place: str, web: Web, tmp_path: Path) -> None:
    web.replies["/a"] = moves(place)
    refused(web.url("/a"), tmp_path, web.policy)
    assert len(web.asked) == 4


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


def test_a_folder_without_room_is_not_the_hosts_fault(web: Web, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"^There is no room here"):
        fetch_video(web.url(), tmp_path / "file" / "folder", policy=web.policy)


# -- certificates --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of film.example, signed by itself; key and certificate in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    path = tmp_path_factory.mktemp("certificate") / "film.pem"
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=film.example -addext subjectAltName=DNS:film.example"
    made = subprocess.run([*command.split(), "-keyout", "-", "-out", "-"], capture_output=True, check=True)
    path.write_bytes(made.stdout)
    return path


@pytest.fixture
def secure_web(certificate: Path) -> Iterator[Web]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        running.handle_error = lambda *_: None  # type: ignore[method-assign]
        running.socket = context.wrap_socket(running.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield Web(running)
        running.shutdown()


def believing(web: Web, certificate: Path) -> Policy:
    return replace(web.policy, trust=lambda: ssl.create_default_context(cafile=str(certificate)))


def test_the_certificate_must_be_the_hosts_own(secure_web: Web, certificate: Path, tmp_path: Path) -> None:
    secure_web.hosts["other.example"] = ["127.0.0.1"]
    policy = believing(secure_web, certificate)
    url = f"https://film.example:{secure_web.port}/film.mp4"
    fetched = fetch_video(url, tmp_path / "kept", policy=policy)
    assert fetched.read_bytes() == VIDEO
    assert "certificate" in refused(url.replace("film.example", "other.example"), tmp_path / "refused", policy)
    assert "certificate" in refused(url, tmp_path / "refused", secure_web.policy)
    assert [path for path, _ in secure_web.asked] == ["/film.mp4"]
