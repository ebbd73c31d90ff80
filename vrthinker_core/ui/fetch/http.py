"""One request over one connection to an address that was checked, all of it within one time."""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADERS = {"User-Agent": "vr-thinker", "Accept": "video/*, */*;q=0.5", "Accept-Encoding": "identity", "Connection": "close"}

_BUFFER = 1 << 16
_PORTS = {False: 80, True: 443}


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """What is asked for, and of whom."""

    url: str
    secure: bool
    host: str
    """A name in ASCII, or an address."""
    port: int
    path: str
    """Path and query as they are asked for."""

    @property
    def authority(self) -> str:
        """Host and port as they stand in a request."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.secure] else f"{host}:{self.port}"


class Deadline:
    """How much of the time is left."""

    def __init__(self, seconds: float) -> None:
        """It runs from now on."""
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds, more than 0. Raises TimeoutError when the time is up."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


@contextlib.contextmanager
def open_response(
    target: FetchTarget, addresses: Sequence[str], clock: Deadline, trust: ssl.SSLContext | None
) -> Iterator[http.client.HTTPResponse]:
    """The answer to a GET, its body not read yet. Over TLS the certificate must be the host's own, whatever the address.

    Raises OSError (TimeoutError when the time is up, ssl.SSLError for a certificate) and http.client.HTTPException.
    """
    with contextlib.closing(_connected(addresses, target.port, clock)) as plain:
        plain.settimeout(clock.remaining())
        with contextlib.closing(trust.wrap_socket(plain, server_hostname=target.host) if trust else plain) as wire:
            connection = http.client.HTTPConnection(target.host, target.port)
            connection.auto_open = 0
            connection.sock = _DeadlineSocket(wire, clock)
            connection.request("GET", target.path, headers={"Host": target.authority, **HEADERS})
            with contextlib.closing(connection.getresponse()) as response:
                yield response


def _connected(addresses: Sequence[str], port: int, clock: Deadline) -> socket.socket:
    """A connection to the first address that takes one. The addresses are numbers: nothing is looked up any more."""
    for number, address in enumerate(addresses, start=1):
        try:
            return socket.create_connection((address, port), timeout=clock.remaining())
        except TimeoutError:
            raise
        except OSError:
            if number == len(addresses):
                raise
    raise OSError("no address")


class _DeadlineSocket:
    """What an HTTP connection needs of a socket. Closing is left to whoever opened the socket."""

    def __init__(self, wire: socket.socket, clock: Deadline) -> None:
        self._wire = wire
        self._clock = clock

    def sendall(self, data: bytes) -> None:
        self._wire.settimeout(self._clock.remaining())
        self._wire.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_DeadlineReader(self._wire, self._clock), _BUFFER)

    def close(self) -> None:
        """Nothing: the answer is still to be read."""


class _DeadlineReader(io.RawIOBase):
    """Reads a socket until the whole time is up, however slowly the other side goes on."""

    def __init__(self, wire: socket.socket, clock: Deadline) -> None:
        self._wire = wire
        self._clock = clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        self._wire.settimeout(self._clock.remaining())
        return self._wire.recv_into(buffer)
