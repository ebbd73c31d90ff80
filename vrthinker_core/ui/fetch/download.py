"""A video by its address: fetched for a stranger, so nothing inside the server's own network can be reached by it.

A host is looked up once, every address it has is checked, and the connection goes to the address that was checked: a name that
points elsewhere a moment later changes nothing. Redirects are followed by hand and checked in the same way.
"""

from __future__ import annotations

import contextlib
import http.client
import secrets
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.fetch.http import Deadline, FetchTarget, open_response
from vrthinker_core.ui.fetch.public_addresses import PUBLIC_ONLY, FetchPolicy, resolve_within

MAX_REDIRECTS = 3
MAX_URL_LENGTH = 2048

_PORTS = {"http": 80, "https": 443}
_MOVED = (301, 302, 303, 307, 308)
_PIECE = 1 << 16
_SUFFIXES = (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".gif", ".mpg", ".mpeg", ".ts", ".flv", ".ogv", ".wmv", ".3gp")
_TYPES = {"video/mp4": ".mp4", "video/webm": ".webm", "video/quicktime": ".mov", "video/x-matroska": ".mkv", "image/gif": ".gif"}
_SAFE = "/%:@!$&'()*+,;=~-._?"
_NO_URL = "This is not a web address that can be fetched."


def fetch_video(
    url: str, folder: Path, *, policy: FetchPolicy = PUBLIC_ONLY, limit_bytes: int = 100_000_000, seconds: float = 30.0
) -> Path:
    """Fetch a video over http or https into `folder`, under a random name that keeps its suffix.

    `seconds` bound the whole of it, redirects included. Raises BadInput with one sentence; then no file is left. What the file
    holds is for the decoder to say.
    """
    clock = Deadline(seconds)
    target = parse_url(url.strip(), policy)
    for _ in range(MAX_REDIRECTS + 1):
        with _naming_errors(target, seconds), _open_response(target, policy, clock) as response:
            if response.status not in _MOVED:
                _check(target, response, limit_bytes)
                return _write_file(_pieces(target, response, limit_bytes), folder, _suffix(target, response))
            place = response.headers.get("Location", "")
        target = parse_url(_next(target, place), policy)
    raise BadInput(f"{target.host} sends from one address to the next; give the address of the file itself.")


# -- the address ---------------------------------------------------------------------------------------------------------


def parse_url(url: str, policy: FetchPolicy) -> FetchTarget:
    """The address in its parts. Raises BadInput for what is never fetched."""
    parts = _split(url)
    if parts.scheme not in _PORTS:
        raise BadInput("Only web addresses that begin with http:// or https:// are fetched.")
    if parts.username is not None or parts.password is not None:
        raise BadInput("An address with a user name or a password in it is not fetched; give one without.")
    try:
        host, port = _ascii(parts.hostname or ""), parts.port or _PORTS[parts.scheme]
    except ValueError:
        raise BadInput(_NO_URL) from None
    if policy.ports is not None and port not in policy.ports:
        raise BadInput(f"Videos are fetched from the usual web ports only, not from port {port}.")
    path = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
    return FetchTarget(url, parts.scheme == "https", host, port, path)


def _split(url: str) -> SplitResult:
    if len(url) > MAX_URL_LENGTH:
        raise BadInput(f"This address has {len(url):,} characters; at most {MAX_URL_LENGTH:,} are read.")
    if any(not letter.isprintable() or letter in ' \\"<>' for letter in url):
        raise BadInput(_NO_URL)
    try:
        return urlsplit(url)
    except ValueError:
        raise BadInput(_NO_URL) from None


def _next(target: FetchTarget, place: str) -> str:
    """Where a redirect leads."""
    try:
        return urljoin(target.url, place)
    except ValueError:
        raise BadInput(_NO_URL) from None


def _ascii(host: str) -> str:
    """The host as it is looked up. Raises ValueError for what cannot be one."""
    if not host:
        raise ValueError
    return host if ":" in host else host.encode("idna").decode("ascii")


# -- the answer ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _open_response(target: FetchTarget, policy: FetchPolicy, clock: Deadline) -> Iterator[http.client.HTTPResponse]:
    """The answer of a host all of whose addresses are public."""
    addresses = resolve_within(target.host, target.port, policy.resolve, clock.remaining())
    if not all(map(policy.is_public, addresses)):
        raise BadInput(f"{target.host} is not on the public internet, and only that is fetched from.")
    with open_response(target, addresses, clock, policy.trust() if target.secure else None) as response:
        yield response


@contextlib.contextmanager
def _naming_errors(target: FetchTarget, seconds: float) -> Iterator[None]:
    """What goes wrong on the way, as a sentence."""
    try:
        yield
    except TimeoutError:
        raise BadInput(f"{target.host} took longer than {seconds:g} s, so the video was not fetched.") from None
    except ssl.SSLError:
        raise BadInput(f"{target.host} could not prove that it is that host: its certificate is not accepted.") from None
    except http.client.HTTPException:
        raise BadInput(f"{target.host} does not answer as a web server does.") from None
    except OSError:
        raise BadInput(f"{target.host} cannot be reached.") from None


def _check(target: FetchTarget, response: http.client.HTTPResponse, limit_bytes: int) -> None:
    if response.status != HTTPStatus.OK:
        raise BadInput(f"{target.host} does not give this file (it answers {response.status}).")
    if response.headers.get_content_type() in ("text/html", "application/xhtml+xml"):
        raise BadInput("This is the address of a web page; give the address of the video file itself.")
    if (response.length or 0) > limit_bytes:
        raise _too_large(limit_bytes)


def _pieces(target: FetchTarget, response: http.client.HTTPResponse, limit_bytes: int) -> Iterator[bytes]:
    """The body, up to the limit, whole or not at all."""
    announced, size = response.length, 0
    while piece := response.read(_PIECE):
        size += len(piece)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        yield piece
    if not size:
        raise BadInput(f"{target.host} gives an empty file.")
    if announced is not None and size < announced:
        raise BadInput(f"{target.host} broke off before the file was whole; try again.")


def _too_large(limit_bytes: int) -> BadInput:
    return BadInput(f"This video has more than {limit_bytes / 1e6:g} MB, and no larger one is fetched.")


def _suffix(target: FetchTarget, response: http.client.HTTPResponse) -> str:
    """How the file is called: as in its address, else by what the server says it is."""
    suffix = PurePosixPath(urlsplit(target.url).path).suffix.lower()
    return suffix if suffix in _SUFFIXES else _TYPES.get(response.headers.get_content_type(), ".video")


# -- the file ------------------------------------------------------------------------------------------------------------


def _write_file(pieces: Iterator[bytes], folder: Path, suffix: str) -> Path:
    """The whole file or none."""
    name = secrets.token_hex(16)
    part, whole = folder / f"{name}.part", folder / f"{name}{suffix}"
    try:
        with _naming_disk_errors():
            folder.mkdir(parents=True, exist_ok=True)
            file = part.open("xb", buffering=0)
        with file:
            for piece in pieces:
                with _naming_disk_errors():
                    file.write(piece)
        with _naming_disk_errors():
            part.replace(whole)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return whole


@contextlib.contextmanager
def _naming_disk_errors() -> Iterator[None]:
    """Trouble with our own disk is not the other side's."""
    try:
        yield
    except OSError:
        raise BadInput("There is no room here to keep this video; try again later.") from None
