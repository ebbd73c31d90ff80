"""Downloads of videos. A stranger names the address: nothing in the server's network is reached.

A host is looked up once, each of its IP addresses is checked, and the connection goes to one of
them: a name that resolves differently a moment later (DNS rebinding) changes nothing. Redirects are
followed by hand and checked in the same way.
"""

import contextlib
import ipaddress
import re
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urljoin

import httpcore
import httpx

from vrthinker_core.errors import BadInput
from vrthinker_core.ui import words
from vrthinker_core.ui.visitors import ip_of

# Beside what Python knows: what embeds or leads to an IPv4 address, whose target others decide
_TUNNELS = "::/8", "2001::/23", "2002::/16", "fec0::/10", "192.0.0.0/24", "192.88.99.0/24"
_NETWORKS = tuple(map(ipaddress.ip_network, _TUNNELS))


def is_public(address: str) -> bool:
    """Whether `address` is an IP address of the open internet."""
    if (ip := ip_of(address)) is None:
        return False
    special = ip.is_multicast or ip.is_reserved or any(ip in network for network in _NETWORKS)
    return ip.is_global and not special


def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return every IP address of a host. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


@cache
def trusted() -> ssl.SSLContext:
    """Load the certificates once: it takes 30 ms, in which nobody is answered."""
    return ssl.create_default_context()


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Which hosts a video may be downloaded from."""

    resolve: Callable[[str, int], Sequence[str]] = resolve
    is_public: Callable[[str], bool] = is_public
    ports: frozenset[int] | None = frozenset({80, 443})  # None for all ports
    ssl_context: Callable[[], ssl.SSLContext] = trusted  # checks certificates


PUBLIC_ONLY = FetchPolicy()
# Whatever the server can reach: only if its visitors may reach all of that anyway
ANY_ADDRESS = FetchPolicy(is_public=lambda _: True, ports=None)


class _CheckedNetwork(httpcore.NetworkBackend):
    """Connects to the hosts of a policy; one deadline holds for all that is done."""

    def __init__(self, policy: FetchPolicy, deadline: float) -> None:
        self._policy, self._deadline = policy, deadline

    def remaining(self) -> float:
        """Return seconds (> 0) until the deadline. Raises TimeoutError without."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
        """Connect to the first of the host's IP addresses that accepts.

        Raises BadInput if one of them is not public.
        """
        addresses = self._look_up(host, port)
        if not all(map(self._policy.is_public, addresses)):
            raise BadInput(f"{host} is not on the public internet, and only that is fetched from.")
        failed = httpcore.ConnectError("no address")
        for address in addresses:
            try:
                tcp = httpcore.SyncBackend().connect_tcp(address, port, self.remaining())
            except httpcore.ConnectError as error:
                failed = error
            else:
                return _DeadlineStream(tcp, self.remaining)
        raise failed

    def _look_up(self, host: str, port: int) -> Sequence[str]:
        """Return the host's IP addresses. A look-up that takes too long is left to its thread."""
        found = Future[Sequence[str]]()

        def look_up() -> None:
            try:
                found.set_result(self._policy.resolve(host, port))
            except (OSError, UnicodeError):
                found.set_exception(httpcore.ConnectError("no such host"))

        threading.Thread(target=look_up, name="resolving", daemon=True).start()
        return found.result(self.remaining())


class _DeadlineStream(httpcore.NetworkStream):
    """A connection with one deadline: httpcore's starts anew with every read."""

    def __init__(self, stream: httpcore.NetworkStream, remaining: Callable[[], float]) -> None:
        self._stream, self._remaining = stream, remaining

    def read(self, max_bytes: int, *_: Any, **__: Any) -> bytes:
        return self._stream.read(max_bytes, self._remaining())

    def write(self, buffer: bytes, *_: Any, **__: Any) -> None:
        self._stream.write(buffer, self._remaining())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, *_: Any, **__: Any
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._remaining())
        return _DeadlineStream(stream, self._remaining)


MAX_REDIRECTS = 3
MAX_URL_LENGTH = 2048
MAX_HEADERS = 100
MAX_HEADER_BYTES = 1 << 16
HEADERS: dict[bytes | str, bytes | str] = {
    "User-Agent": "vr-thinker",
    "Accept": "video/*, */*;q=0.5",
    "Accept-Encoding": "identity",
    "Connection": "close",
}

_PORTS = {"http": 80, "https": 443}
_SUFFIXES = (
    *(".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".gif"),
    *(".mpg", ".mpeg", ".ts", ".flv", ".ogv", ".wmv", ".3gp"),
)
_TYPES = {
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "video/quicktime": ".mov",
    "video/x-matroska": ".mkv",
    "image/gif": ".gif",
}
_NO_URL = "This is not a web address that can be fetched."


def fetch_video(
    url: str,
    folder: Path,
    *,
    policy: FetchPolicy = PUBLIC_ONLY,
    limit_bytes: int = 100_000_000,
    seconds: float = 30.0,
) -> Path:
    """Fetch a video over http or https into `folder`, under a random name that keeps its suffix.

    `seconds` bound everything together, redirects included. Raises BadInput with one sentence; then
    no file is left. Whether the file is a video is not checked here.
    """
    network = _CheckedNetwork(policy, time.monotonic() + seconds)
    address = _parse_url(url.strip(), policy)
    with httpcore.ConnectionPool(policy.ssl_context(), network_backend=network) as pool:
        for _ in range(MAX_REDIRECTS + 1):
            scheme, target = address.raw_scheme, address.raw_path
            asked = httpcore.URL(
                scheme=scheme, host=address.raw_host, port=address.port, target=target
            )
            headers = {**HEADERS, "Host": address.netloc}
            with (
                _naming_errors(address, seconds),
                pool.stream("GET", asked, headers=headers) as response,
            ):
                size = sum(len(name) + len(value) for name, value in response.headers)
                if len(response.headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
                    raise httpcore.RemoteProtocolError("too many headers")
                if response.status not in (301, 302, 303, 307, 308):
                    return _save(response, address, folder, limit_bytes)
            location = httpx.Headers(response.headers).get("location", "")
            address = _parse_url(location, policy, str(address))
    ending = "sends from one address to the next; give the address of the file itself."
    raise BadInput(f"{address.raw_host.decode()} {ending}")


def _parse_url(text: str, policy: FetchPolicy, base: str = "") -> httpx.URL:
    """Parse a web address, maybe relative to `base`. Raises BadInput."""
    if len(text) > MAX_URL_LENGTH:
        most = f"at most {MAX_URL_LENGTH:,} are read"
        raise BadInput(f"This address has {len(text):,} characters; {most}.")
    text = text.replace(" ", "%20")
    if any(not character.isprintable() or character in '\\"<>' for character in text):
        raise BadInput(_NO_URL)
    try:
        url = httpx.URL(urljoin(base, text))
        # httpx lets labels pass that are empty or too long for a name server
        url.raw_host.decode().encode("idna")
    except (httpx.InvalidURL, ValueError):
        raise BadInput(_NO_URL) from None
    if url.scheme not in _PORTS:
        raise BadInput("Only web addresses that begin with http:// or https:// are fetched.")
    if url.userinfo:
        raise BadInput(
            "An address with a user name or a password in it is not fetched; give one without."
        )
    port = _PORTS[url.scheme] if url.port is None else url.port
    if not url.raw_host or not 0 < port < 1 << 16:
        raise BadInput(_NO_URL)
    if policy.ports is not None and port not in policy.ports:
        raise BadInput(f"Videos are fetched from the usual web ports only, not from port {port}.")
    return url


@contextlib.contextmanager
def _naming_errors(url: httpx.URL, seconds: float) -> Iterator[None]:
    host = url.raw_host.decode()
    try:
        yield
        return
    except (TimeoutError, httpcore.TimeoutException):
        why = f"{host} took longer than {seconds:g} s, so the video was not fetched."
    except httpcore.ProtocolError:
        why = f"{host} does not answer as a web server does."
    except httpcore.NetworkError as error:
        why = f"{host} cannot be reached."
        if isinstance(error.__context__, ssl.SSLError):
            why = f"{host} could not prove that it is that host: its certificate is not accepted."
    except OSError:  # of our own disk: httpcore has its own errors
        why = words.NO_ROOM_NOW
    raise BadInput(why) from None


def _decoded(response: httpcore.Response, encoding: str, host: str) -> Iterator[bytes]:
    """Yield the body; some servers compress it though nobody asked. Raises BadInput."""
    if encoding not in ("", "identity", "gzip", "deflate"):
        raise BadInput(f"{host} sends this file compressed ({encoding}), which is not read.")
    told, whole = {"content-encoding": encoding}, response.iter_stream()
    # A few bytes may hold many
    body = (part[at : at + 4096] for part in whole for at in range(0, len(part), 4096))
    try:
        yield from httpx.Response(200, headers=told, content=body).iter_bytes()
    except httpx.DecodingError:
        raise BadInput(f"{host} sends this file compressed, and it is damaged.") from None


def _save(response: httpcore.Response, url: httpx.URL, folder: Path, limit_bytes: int) -> Path:
    """Write the whole body or nothing. Raises BadInput for what is no file within the limit."""
    host, headers = url.raw_host.decode(), httpx.Headers(response.headers)
    too_large = f"This video has more than {limit_bytes / 1e6:g} MB, and no larger one is fetched."
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status != 200:
        raise BadInput(f"{host} does not give this file (it answers {response.status}).")
    if kind in ("text/html", "application/xhtml+xml"):
        raise BadInput(
            "This is the address of a web page; give the address of the video file itself."
        )
    # httpcore has checked that the length is a number
    announced = 0 if "transfer-encoding" in headers else int(headers.get("content-length", 0))
    if announced > limit_bytes:
        raise BadInput(too_large)
    # Sentences name the file as people know it
    known = re.sub(r"[^\w-]+", "-", PurePosixPath(unquote(url.path)).stem)[:40].strip("-")
    name, size = f"{known}-{secrets.token_hex(16)}".lstrip("-"), 0
    if (suffix := PurePosixPath(url.path).suffix.lower()) not in _SUFFIXES:
        suffix = _TYPES.get(kind, ".video")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{name}.part"
    try:
        with part.open("xb") as file:
            encoding = headers.get("content-encoding", "").strip().lower().removeprefix("x-")
            for chunk in _decoded(response, encoding, host):
                size += len(chunk)
                if size > limit_bytes:
                    raise BadInput(too_large)
                file.write(chunk)
        if not size:
            raise BadInput(f"{host} gives an empty file.")
        return part.replace(folder / f"{name}{suffix}")
    except httpcore.RemoteProtocolError:
        if not announced:
            raise
        raise BadInput(f"{host} broke off before the file was whole; try again.") from None
    finally:
        part.unlink(missing_ok=True)
