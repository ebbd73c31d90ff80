"""Downloads of videos. A stranger names the address: nothing in the server's network is reached.

A host is looked up once, each of its IP addresses is checked, and the connection goes to one of
them: a name that resolves differently a moment later (DNS rebinding) changes nothing. Redirects are
followed by hand and checked in the same way.
"""

import concurrent.futures
import contextlib
import ipaddress
import secrets
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

import httpcore
import httpx

from vrthinker_core.errors import BadInput

# From (host, port) to all IP addresses of the host; raises OSError
Resolver = Callable[[str, int], Sequence[str]]

# IPv6 addresses that embed or lead to an IPv4 address: somebody else decides their target
_TUNNELS = (
    *("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"),
    *("2001::/23", "2002::/16", "fec0::/10"),
)
_SPECIAL_V4 = ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24")
_NETWORKS = tuple(map(ipaddress.ip_network, (*_TUNNELS, *_SPECIAL_V4)))
_SPECIAL = ("private", "loopback", "link_local", "multicast", "reserved", "unspecified")


def is_public(address: str) -> bool:
    """Whether `address` is an IP address of the open internet."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    special = any(getattr(ip, f"is_{kind}") for kind in _SPECIAL)
    return ip.is_global and not special and not any(ip in network for network in _NETWORKS)


def resolve(host: str, port: int) -> tuple[str, ...]:
    """Return every IP address of a host. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Which hosts a video may be downloaded from."""

    resolve: Resolver = resolve
    is_public: Callable[[str], bool] = is_public
    ports: frozenset[int] | None = frozenset({80, 443})  # None for all ports
    ssl_context: Callable[[], ssl.SSLContext] = ssl.create_default_context  # checks certificates


PUBLIC_ONLY = FetchPolicy()
# Whatever the server can reach: only if its visitors may reach all of that anyway
ANY_ADDRESS = FetchPolicy(is_public=lambda _: True, ports=None)


def resolve_within(host: str, port: int, resolver: Resolver, seconds: float) -> tuple[str, ...]:
    """Return the IP addresses of a host, at least one.

    Raises OSError if there are none, TimeoutError after `seconds`. A look-up cannot be interrupted:
    its thread is left behind.
    """
    future: concurrent.futures.Future[tuple[str, ...]] = concurrent.futures.Future()

    def look_up() -> None:
        try:
            future.set_result(tuple(resolver(host, port)))
        except (OSError, UnicodeError):
            future.set_exception(OSError("no such host"))

    threading.Thread(target=look_up, name="resolving", daemon=True).start()
    addresses = future.result(timeout=seconds)
    if not addresses:
        raise OSError("no address")
    return addresses


HEADERS = {
    "User-Agent": "vr-thinker",
    "Accept": "video/*, */*;q=0.5",
    "Accept-Encoding": "identity",
    "Connection": "close",
}
MAX_HEADERS = 100
MAX_HEADER_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """What is requested, and from which host."""

    url: httpx.URL
    host: str  # a name in ASCII, or an IP address
    port: int


def remaining(deadline: float) -> float:
    """Return seconds (> 0) until `deadline` on the monotonic clock. Raises TimeoutError without."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@contextlib.contextmanager
def _open_response(
    target: FetchTarget, policy: FetchPolicy, deadline: float
) -> Iterator[httpx.Response]:
    """The response, its body not read yet. The certificate must be the host's own.

    Raises BadInput if one of the host's addresses is not public, TimeoutError or
    httpcore.TimeoutException at the deadline, httpcore.NetworkError (its cause is an ssl.SSLError
    if the certificate is refused), httpcore.ProtocolError for what is not HTTP; so does reading the
    body.
    """
    host, port, address = target.host, target.port, target.url
    addresses = resolve_within(host, port, policy.resolve, remaining(deadline))
    if not all(map(policy.is_public, addresses)):
        raise BadInput(f"{host} is not on the public internet, and only that is fetched from.")
    ssl_context = policy.ssl_context() if address.scheme == "https" else None
    url = httpcore.URL(scheme=address.raw_scheme, host=host, port=port, target=address.raw_path)
    headers = [("Host", address.netloc.decode()), *HEADERS.items()]
    with contextlib.closing(_connect(addresses, port, deadline)) as tcp:
        stream = tcp.start_tls(ssl_context, host, remaining(deadline)) if ssl_context else tcp
        with (
            httpcore.HTTP11Connection(url.origin, _DeadlineStream(stream, deadline)) as connection,
            connection.stream("GET", url, headers=headers) as response,
        ):
            size = sum(len(name) + len(value) for name, value in response.headers)
            if len(response.headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
                raise httpcore.RemoteProtocolError("too many headers")
            body = response.iter_stream()
            yield httpx.Response(response.status, headers=response.headers, content=body)


def _connect(addresses: Sequence[str], port: int, deadline: float) -> httpcore.NetworkStream:
    """Connect to the first IP address that accepts. Nothing is looked up."""
    *others, last = addresses
    for address in others:
        with contextlib.suppress(httpcore.ConnectError):
            return httpcore.SyncBackend().connect_tcp(address, port, remaining(deadline))
    return httpcore.SyncBackend().connect_tcp(last, port, remaining(deadline))


class _DeadlineStream(httpcore.NetworkStream):
    """A connection with one deadline: httpcore's starts anew with every read."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline is nearer
        return self._stream.read(max_bytes, remaining(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the deadline is nearer
        self._stream.write(buffer, remaining(self._deadline))

    def close(self) -> None:
        self._stream.close()


MAX_VISITOR_BYTES = 500_000_000
MAX_BYTES = 4_000_000_000
NOBODY = ""  # stands for the owner of fetched files and copies, which may hold half of all

OWN_SHARE_FULL = (
    "Your files take {:.0f} MB here, the most that one visitor may keep. "
    "Unused ones go after ten minutes; try again then."
)
FULL = "There is no room here to keep this file; try again in ten minutes."


class DiskBudget:
    """Who holds which file, and its size so far."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[str, int]] = {}
        self._held = Counter[str]()
        self._lock = threading.RLock()

    def take(self, file: Path, visitor: str, size: int) -> None:
        """Count the file with `size` bytes, instead of before. Raises BadInput without room."""
        most = MAX_BYTES // 2 if visitor == NOBODY else MAX_VISITOR_BYTES
        with self._lock:
            self.release(file)
            is_over = self._held[visitor] + size > most
            if self._held.total() + size > MAX_BYTES or (is_over and visitor == NOBODY):
                raise BadInput(FULL)
            if is_over:
                raise BadInput(OWN_SHARE_FULL.format(most / 1e6))
            self._files[file] = (visitor, size)
            self._held[visitor] += size

    def release(self, file: Path) -> None:
        """Count the file no more."""
        with self._lock:
            visitor, size = self._files.pop(file, (NOBODY, 0))
            self._held[visitor] -= size
            if not self._held[visitor]:
                del self._held[visitor]

    def release_missing(self) -> None:
        """Release the files that have been deleted."""
        for file in list(self._files):
            if not file.exists():
                self.release(file)


MAX_REDIRECTS = 3
MAX_URL_LENGTH = 2048

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
_TOO_LARGE = "This video has more than {:g} MB, and no larger one is fetched."
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
    deadline = time.monotonic() + seconds
    target = _parse_url(url.strip(), policy)
    for _ in range(MAX_REDIRECTS + 1):
        host = target.host
        with _naming_errors(host, seconds), _open_response(target, policy, deadline) as response:
            if response.status_code not in (301, 302, 303, 307, 308):
                announced = _checked_length(host, response, limit_bytes)
                chunks = _chunks(host, response, announced, limit_bytes)
                suffix = PurePosixPath(target.url.path).suffix.lower()
                if suffix not in _SUFFIXES:
                    suffix = _TYPES.get(_content_type(response), ".video")
                return _write_file(chunks, folder, suffix)
        target = _parse_url(response.headers.get("location", ""), policy, str(target.url))
    raise BadInput(
        f"{target.host} sends from one address to the next; give the address of the file itself."
    )


def _parse_url(text: str, policy: FetchPolicy, base: str = "") -> FetchTarget:
    """The target of a URL, maybe relative to `base`. Raises BadInput."""
    if len(text) > MAX_URL_LENGTH:
        most = f"at most {MAX_URL_LENGTH:,} are read"
        raise BadInput(f"This address has {len(text):,} characters; {most}.")
    if any(not character.isprintable() or character in ' \\"<>' for character in text):
        raise BadInput(_NO_URL)
    try:
        url = httpx.URL(urljoin(base, text))
        # httpx lets labels pass that are empty or too long for a name server
        url.raw_host.decode().encode("idna")
    except (httpx.InvalidURL, ValueError):
        raise BadInput(_NO_URL) from None
    ports = {"http": 80, "https": 443}
    if url.scheme not in ports:
        raise BadInput("Only web addresses that begin with http:// or https:// are fetched.")
    if url.userinfo:
        raise BadInput(
            "An address with a user name or a password in it is not fetched; give one without."
        )
    host, port = url.raw_host.decode(), ports[url.scheme] if url.port is None else url.port
    if not host or not 0 < port < 1 << 16:
        raise BadInput(_NO_URL)
    if policy.ports is not None and port not in policy.ports:
        raise BadInput(f"Videos are fetched from the usual web ports only, not from port {port}.")
    return FetchTarget(url, host, port)


@contextlib.contextmanager
def _naming_errors(host: str, seconds: float) -> Iterator[None]:
    try:
        yield
    except (TimeoutError, httpcore.TimeoutException):
        late = f"{host} took longer than {seconds:g} s, so the video was not fetched."
        raise BadInput(late) from None
    except httpcore.ProtocolError:
        raise BadInput(f"{host} does not answer as a web server does.") from None
    except (OSError, httpcore.NetworkError) as error:
        if isinstance(error.__cause__, ssl.SSLError):
            raise BadInput(
                f"{host} could not prove that it is that host: its certificate is not accepted."
            ) from None
        raise BadInput(f"{host} cannot be reached.") from None


def _checked_length(host: str, response: httpx.Response, limit_bytes: int) -> int:
    """Bytes of the body as announced, 0 if unknown. Raises BadInput."""
    if response.status_code != HTTPStatus.OK:
        raise BadInput(f"{host} does not give this file (it answers {response.status_code}).")
    if _content_type(response) in ("text/html", "application/xhtml+xml"):
        raise BadInput(
            "This is the address of a web page; give the address of the video file itself."
        )
    headers = response.headers  # httpcore has checked that the length is a number
    announced = 0 if "transfer-encoding" in headers else int(headers.get("content-length", 0))
    if announced > limit_bytes:
        raise BadInput(_TOO_LARGE.format(limit_bytes / 1e6))
    return announced


def _chunks(host: str, response: httpx.Response, announced: int, most: int) -> Iterator[bytes]:
    """The body. Raises BadInput if it is empty, too large, or shorter than announced."""
    size = 0
    try:
        for chunk in response.iter_raw():
            size += len(chunk)
            if size > most:
                raise BadInput(_TOO_LARGE.format(most / 1e6))
            yield chunk
    except httpcore.RemoteProtocolError:
        if not announced:
            raise
        raise BadInput(f"{host} broke off before the file was whole; try again.") from None
    if not size:
        raise BadInput(f"{host} gives an empty file.")


def _content_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _write_file(chunks: Iterator[bytes], folder: Path, suffix: str) -> Path:
    """Write the whole file or none."""
    name = secrets.token_hex(16)
    part, whole = folder / f"{name}.part", folder / f"{name}{suffix}"
    try:
        with _naming_disk_errors():
            folder.mkdir(parents=True, exist_ok=True)
            file = part.open("xb", buffering=0)
        with file:
            for chunk in chunks:
                with _naming_disk_errors():
                    file.write(chunk)
        with _naming_disk_errors():
            part.replace(whole)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return whole


@contextlib.contextmanager
def _naming_disk_errors() -> Iterator[None]:
    """Errors of our own disk as a sentence, before they are taken for the host's."""
    try:
        yield
    except OSError:
        raise BadInput("There is no room here to keep this video; try again later.") from None
