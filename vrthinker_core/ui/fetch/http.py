"""One GET request to an address that was checked, all of it within one deadline.

The connection is opened here; httpcore, the lower half of httpx, does HTTP on it. httpx itself bounds each read but not all of them
together, so headers that come a byte at a time would never end, and it takes no connection that somebody else has opened. httpcore
follows no redirects, reads no proxy from the environment and decompresses nothing.
"""

import contextlib
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpcore
import httpx

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
    """Seconds until `deadline` on the monotonic clock, more than 0. Raises TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@contextlib.contextmanager
def open_response(
    target: FetchTarget,
    addresses: Sequence[str],
    deadline: float,
    ssl_context: ssl.SSLContext | None,
) -> Iterator[httpx.Response]:
    """The response, its body not read yet. With an `ssl_context` the certificate must be the host's own, whatever the address.

    Raises TimeoutError or httpcore.TimeoutException at the deadline, httpcore.NetworkError (its cause is an ssl.SSLError when the
    certificate is refused), httpcore.ProtocolError for what is not HTTP; so does reading the body.
    """
    url = httpcore.URL(
        scheme=target.url.raw_scheme, host=target.host, port=target.port, target=target.url.raw_path
    )
    headers = [("Host", target.url.netloc.decode()), *HEADERS.items()]
    with contextlib.closing(_connect(addresses, target.port, deadline)) as tcp:
        stream = (
            tcp.start_tls(ssl_context, target.host, remaining(deadline)) if ssl_context else tcp
        )
        with (
            httpcore.HTTP11Connection(url.origin, _DeadlineStream(stream, deadline)) as connection,
            connection.stream("GET", url, headers=headers) as response,
        ):
            size = sum(len(name) + len(value) for name, value in response.headers)
            if len(response.headers) > MAX_HEADERS or size > MAX_HEADER_BYTES:
                raise httpcore.RemoteProtocolError("too many headers")
            yield httpx.Response(
                response.status, headers=response.headers, content=response.iter_stream()
            )


def _connect(addresses: Sequence[str], port: int, deadline: float) -> httpcore.NetworkStream:
    """A connection to the first of the IP addresses (at least one) that accepts it. Nothing is looked up."""
    *others, last = addresses
    for address in others:
        with contextlib.suppress(httpcore.ConnectError):
            return httpcore.SyncBackend().connect_tcp(address, port, remaining(deadline))
    return httpcore.SyncBackend().connect_tcp(last, port, remaining(deadline))


class _DeadlineStream(httpcore.NetworkStream):
    """A connection whose reads and writes all end at one deadline: a timeout of httpcore's own starts anew with every read."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline is nearer
        return self._stream.read(max_bytes, remaining(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the deadline is nearer
        self._stream.write(buffer, remaining(self._deadline))

    def close(self) -> None:
        self._stream.close()
