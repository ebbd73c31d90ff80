"""Downloads: what is never fetched, and the limits of size and time of what is."""

import contextlib
import gzip
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.loopback_server import LoopbackServer, QuietHandler, serving
from vrthinker_core.errors import BadInput
from vrthinker_core.ui.fetch import PUBLIC_ONLY, FetchPolicy, fetch_video, is_public

VIDEO = bytes(range(256)) * 400


class Reply(NamedTuple):
    """What is sent after a delay, then a drop again and again, with a pause after each."""

    head: bytes = b""
    drop: bytes = b""
    pause: float = 0.05  # so that no single read has to wait long
    delay: float = 0


def responds(status: int = 200, body: bytes = VIDEO, length: int = -1, **headers: str) -> Reply:
    """`length`: the one that is announced, by default that of the body."""
    headers["Content_Length"] = str(len(body) if length < 0 else length)
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
    return Reply(f"HTTP/1.1 {status} Said\r\n{''.join(lines)}\r\n".encode() + body)


def redirects(place: str) -> Reply:
    return responds(302, b"", Location=place)


class Handler(QuietHandler):
    server: "LocalWeb"

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers))
        self.close_connection = True
        reply = self.server.replies[self.path.partition("?")[0]]
        time.sleep(reply.delay)
        with contextlib.suppress(OSError):  # the client has hung up
            self.wfile.write(reply.head)
            while reply.drop:
                self.wfile.write(reply.drop)
                time.sleep(reply.pause)


class LocalWeb(LoopbackServer):
    """A web server with `hosts` as its name server; only 127.0.0.1 counts as public."""

    block_on_close = False
    connected: list[str]

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        """Serve, over TLS if there is a context."""
        super().__init__(Handler)
        if context is not None:
            secured = {"server_side": True, "do_handshake_on_connect": False}
            self.socket = context.wrap_socket(self.socket, **secured)
        self.port, self.lookups = self.server_address[1], list[str]()
        self.replies = {"/film.mp4": responds(Content_Type="video/mp4")}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.hosts = {"film.example": ["127.0.0.1"], "private.example": ["10.0.0.7"]}
        self.policy = FetchPolicy(self._resolve, lambda address: address == "127.0.0.1", ports=None)

    def url(self, path: str = "/film.mp4", scheme: str = "http") -> str:
        return f"{scheme}://film.example:{self.port}{path}"

    def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.lookups.append(host)
        if host in self.hosts:
            return self.hosts[host]
        if host.replace(".", "").isdigit() or ":" in host:
            return [host]
        raise OSError("no such host")


def refusal(url: str, folder: Path, policy: FetchPolicy, **rest: float) -> str:
    """The sentence with which a download is refused; no file may be left."""
    with pytest.raises(BadInput, match=r"^[^\n]*\.$") as caught:
        fetch_video(url, folder, policy=policy, **rest)
    assert not folder.exists() or not list(folder.iterdir())
    return str(caught.value)


@pytest.fixture(autouse=True)
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were connected to; 127.0.0.9 refuses, any other than this one fails."""
    connect, tried = socket.socket.connect, list[str]()

    def guarded(self: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address[0])
        if address[0] == "127.0.0.9":
            raise ConnectionRefusedError
        assert address[0] == "127.0.0.1", address
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # the environment's are ignored
    return tried


@pytest.fixture
def web(connected: list[str]) -> Iterator[LocalWeb]:
    with serving(LocalWeb()) as web:
        web.connected = connected
        yield web


NO_URLS = [
    *("file:///etc/passwd", "ftp://film.example/a.mp4", "data:video/mp4;base64,AAAA"),
    *("gopher://film.example/", "javascript:alert(1)", "/etc/passwd", "film.mp4", "", "http://"),
    *("http:///a.mp4", "http://[::1/", "http://film.example:port/", "http://film.example:99999/"),
    *("http://film.example:0/", "http://film.example:-1/"),
    *("http://film.example/a\r\nHost: other", "http://film.example\\@127.0.0.1/", "http://a..b/"),
    *(f"http://{'a' * 70}.example/", f"http://film.example/{'a' * 3000}"),
    *("http://anna@film.example/", "http://anna:secret@film.example/", "http://:@film.example/"),
    *(f"http://film.example:{port}/film.mp4" for port in (22, 25, 6379, 8080, 7860)),
]


def test_no_such_url_is_even_looked_up(web: LocalWeb, tmp_path: Path) -> None:
    policy = replace(web.policy, ports=PUBLIC_ONLY.ports)
    for url in NO_URLS:
        assert "secret" not in refusal(url, tmp_path, policy)
    assert web.lookups == []


PRIVATE = [
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "198.18.0.1"),
    *("203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1"),
    *("::", "::1", "::7f00:1", "::ffff:8.8.8.8", "::ffff:127.0.0.1", "::ffff:0:8.8.8.8"),
    *("64:ff9b::808:808", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:808:808::1"),
    *("2001:0:808:808::1", "2001:db8::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0"),
    *("fec0::1", "ff02::1", "localhost", ""),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"]
NAMES = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"]


def test_private_special_and_tunnelled_addresses_are_not_public() -> None:
    assert list(filter(is_public, (*PRIVATE, *PUBLIC))) == PUBLIC


@pytest.mark.parametrize("host", [*NAMES, "localhost", "169.254.169.254"])
def test_this_machine_is_never_fetched_from(host: str, web: LocalWeb, tmp_path: Path) -> None:
    """With the real policy and the system's own resolver: none of these needs a name server."""
    refusal(f"http://{host}/film.mp4", tmp_path, PUBLIC_ONLY)
    refusal(f"http://{host}:{web.port}/film.mp4", tmp_path, replace(PUBLIC_ONLY, ports=None))
    assert web.connected == []


def test_every_address_of_a_name_must_be_public(web: LocalWeb, tmp_path: Path) -> None:
    """And what a name server says later counts for nothing."""
    both = [["127.0.0.1", "10.0.0.7"], ["10.0.0.7", "127.0.0.1"]]
    for addresses in (["10.0.0.7"], *both, ["nonsense"], []):
        web.hosts["film.example"] = addresses
        assert "10.0.0.7" not in refusal(web.url(), tmp_path, web.policy)
    assert web.connected == []
    answers = iter([["127.0.0.1"], ["10.0.0.7"]])
    rebinding = replace(web.policy, resolve=lambda host, port: next(answers))
    assert fetch_video(web.url(), tmp_path, policy=rebinding).read_bytes() == VIDEO


PLACES = [
    *("http://10.0.0.7/film.mp4", "http://169.254.169.254/latest/meta-data/", "http://[::1]/"),
    *("http://private.example/film.mp4", "file:///etc/passwd", "ftp://film.example/", "data:,x"),
    *("http://anna:secret@film.example/", "http://[", "http://film.example:port/"),
    "http://127.0.0.2:{port}/film.mp4",  # only 127.0.0.1 counts as public here
]


@pytest.mark.parametrize("place", [*PLACES, "/a", "", "//", "/a?again"])
def test_redirects_lead_nowhere_else(place: str, web: LocalWeb, tmp_path: Path) -> None:
    """Nor in circles."""
    web.replies["/a"] = redirects(place.replace("{port}", str(web.port)))
    refusal(web.url("/a"), tmp_path, web.policy)
    assert {path.partition("?")[0] for path, _ in web.requests} == {"/a"}
    assert len(web.requests) == (1 if place in PLACES else 4)


def test_a_video_is_kept_under_a_name_of_its_own(web: LocalWeb, tmp_path: Path) -> None:
    """A host is looked up once and told nothing of us."""
    whole = partial(fetch_video, policy=web.policy, limit_bytes=len(VIDEO))
    first = whole(web.url("/film.mp4?secret=1"), tmp_path)
    assert web.lookups == ["film.example"]
    second = whole(f"  {web.url()}\n", tmp_path)
    assert first.read_bytes() == second.read_bytes() == VIDEO
    assert sorted(tmp_path.iterdir()) == sorted({first, second})
    assert re.fullmatch(r"film-[0-9a-f]{32}\.mp4", first.name), "known to who gave the address"
    (path, headers), (other, _) = web.requests
    assert (path, other) == ("/film.mp4?secret=1", "/film.mp4")
    assert headers["host"] == f"film.example:{web.port}"
    assert not headers.keys() & {"cookie", "authorization", "referer"}
    assert headers["accept-encoding"] == "identity"
    web.replies["/a%20film.mp4"] = responds()
    assert whole(web.url("/a film.mp4"), tmp_path).name.startswith("a-film-")


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_video_that_comes_compressed_is_unpacked(
    coding: str, web: LocalWeb, tmp_path: Path
) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}[coding]
    fetch = partial(fetch_video, policy=web.policy, limit_bytes=len(VIDEO))
    web.replies["/film.mp4"] = responds(body=pack(VIDEO), Content_Encoding=coding)
    assert fetch(web.url(), tmp_path).read_bytes() == VIDEO
    for body, told in (
        (pack(bytes(len(VIDEO) + 1)), "no larger one"),  # small, until it is unpacked
        (b"no such thing", "damaged"),
    ):
        web.replies["/film.mp4"] = responds(body=body, Content_Encoding=coding)
        assert told in refusal(web.url(), tmp_path / "none", web.policy, limit_bytes=len(VIDEO))
    web.replies["/film.mp4"] = responds(Content_Encoding="br")
    assert "compressed (br)" in refusal(web.url(), tmp_path / "none", web.policy)


def test_the_suffix_is_the_urls_or_the_content_types(web: LocalWeb, tmp_path: Path) -> None:
    named = {"/a": ("video/webm", ".webm"), "/a.MOV": ("video/mp4", ".mov")}
    named |= {"/a.exe": ("text/plain", ".video"), "/%C3%BC.mkv": ("", ".mkv")}
    for path, (kind, suffix) in named.items():
        web.replies[path] = responds(Content_Type=kind)
        url = web.url(path.replace("%C3%BC", "ü"))
        assert fetch_video(url, tmp_path, policy=web.policy).suffix == suffix


def test_redirects_and_second_addresses_are_followed(web: LocalWeb, tmp_path: Path) -> None:
    places = "b", f"//film.example:{web.port}/c", web.url()
    web.replies |= dict(zip(("/a", "/b", "/c"), map(redirects, places), strict=True))
    assert fetch_video(web.url("/a"), tmp_path, policy=web.policy).read_bytes() == VIDEO
    assert web.lookups == ["film.example"] * 4, "each is checked"
    web.connected.clear()
    web.hosts["film.example"] = ["127.0.0.9", "127.0.0.1"]
    policy = replace(web.policy, is_public=lambda address: address in ("127.0.0.1", "127.0.0.9"))
    assert fetch_video(web.url(), tmp_path, policy=policy).read_bytes() == VIDEO
    assert web.connected == ["127.0.0.9", "127.0.0.1"]


OK = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        *((str(status), responds(status)) for status in (404, 500, 206)),
        ("204", responds(204, b"")),
        ("web page", responds(Content_Type="text/html; charset=utf-8")),
        ("empty", responds(body=b"")),
        ("broke off", responds(length=len(VIDEO) + 1)),
        *(("web server", Reply(head)) for head in (b"", b"SSH-2.0-\r\n", CHUNKED + b"5\r\nab")),
        ("web server", Reply(OK + b"X: y\r\n" * 500 + b"\r\n")),
        ("web server", Reply(OK + b"X: " + b"y" * 70_000 + b"\r\n\r\n")),
        ("0.2 MB", responds(body=VIDEO * 2)),
        ("0.2 MB", responds(body=b"", length=10**12)),
        ("0.2 MB", Reply(OK + b"\r\n" + VIDEO * 2)),
        ("0.2 MB", Reply(OK + b"\r\n", VIDEO, 0)),
    ],
)
def test_no_other_response_is_kept(said: str, reply: Reply, web: LocalWeb, tmp_path: Path) -> None:
    web.replies["/film.mp4"] = reply
    assert said in refusal(web.url(), tmp_path, web.policy, limit_bytes=200_000)


def refused_in_time(url: str, folder: Path, policy: FetchPolicy) -> None:
    began = time.monotonic()
    said = refusal(url, folder, policy, seconds=0.6)
    assert time.monotonic() - began < 2
    assert re.search(r"longer than 0\.6 s|web server", said)


DRIPS = {
    "body": Reply(OK + b"\r\n", b"x"),
    "header": Reply(OK, b"X"),
    "headers": Reply(OK, b"A: b\r\n"),
    "continue": Reply(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunks": Reply(CHUNKED, b"1\r\nx\r\n"),
    "silence": Reply(delay=3),
    "redirects": redirects("/film.mp4")._replace(delay=0.4),
}


@pytest.mark.parametrize("how", [*DRIPS, "name server"])
def test_a_response_that_drips_is_given_up(how: str, web: LocalWeb, tmp_path: Path) -> None:
    web.replies["/film.mp4"], over = DRIPS.get(how, Reply()), threading.Event()
    hanging = replace(web.policy, resolve=lambda host, port: [str(over.wait(20))])
    refused_in_time(web.url(), tmp_path, web.policy if how in DRIPS else hanging)
    over.set()


def test_an_absent_host_and_a_full_disk_are_told_apart(web: LocalWeb, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        for place in (f"film.example:{closed.getsockname()[1]}", "nowhere.example"):
            said = refusal(f"http://{place}/", tmp_path, web.policy)
            assert said == f"{place.partition(':')[0]} cannot be reached."
    (tmp_path / "file").write_text("")
    assert "no room here" in refusal(web.url(), tmp_path / "file" / "folder", web.policy)


@pytest.fixture
def secure_web(tmp_path: Path) -> Iterator[LocalWeb]:
    """Its policy trusts its own self-signed certificate, which is that of film.example."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("openssl is not installed")
    both = tmp_path / "key and certificate.pem"
    command = f"{openssl} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=film.example"
    named = "-addext subjectAltName=DNS:film.example -keyout - -out -"
    done = subprocess.run(f"{command} {named}".split(), capture_output=True, check=True)
    both.write_bytes(done.stdout)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    with serving(LocalWeb(context)) as web:
        trusting = partial(ssl.create_default_context, cafile=str(both))
        web.policy = replace(web.policy, ssl_context=trusting)
        yield web


def test_the_certificate_must_be_the_hosts_own(secure_web: LocalWeb, tmp_path: Path) -> None:
    """And headers that drip are given up over TLS, too."""
    secure_web.hosts["other.example"] = ["127.0.0.1"]
    policy, url = secure_web.policy, secure_web.url(scheme="https")
    assert fetch_video(url, tmp_path / "kept", policy=policy).read_bytes() == VIDEO
    usual = replace(policy, ssl_context=PUBLIC_ONLY.ssl_context)
    for refused, by in ((url.replace("film.e", "other.e"), policy), (url, usual)):
        assert "certificate" in refusal(refused, tmp_path / "refused", by)
    assert [path for path, _ in secure_web.requests] == ["/film.mp4"]
    secure_web.replies["/film.mp4"] = DRIPS["headers"]
    refused_in_time(url, tmp_path / "refused", policy)


@pytest.mark.parametrize("drop", [b"", b"\0"], ids=["silence", "drip"])
def test_an_endless_handshake_is_given_up(drop: bytes, web: LocalWeb, tmp_path: Path) -> None:
    """The beginning of a TLS record, then silence or a byte every 50 ms."""

    class Stalling(QuietHandler):
        def handle(self) -> None:
            self.wfile.write(b"\x16\x03\x03\x40\x00")
            while not over.wait(0.05):
                self.wfile.write(drop)

    over = threading.Event()
    with serving(LoopbackServer(Stalling)) as server:
        address = f"https://film.example:{server.server_address[1]}/"
        refused_in_time(address, tmp_path, web.policy)
        over.set()
