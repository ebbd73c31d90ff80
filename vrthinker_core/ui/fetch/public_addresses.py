"""Which addresses of the network a server may be sent to by a stranger: public ones, and nothing that only looks like one."""

from __future__ import annotations

import concurrent.futures
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Resolver = Callable[[str, int], Sequence[str]]
"""(host, port) to all its addresses. Raises OSError when there is no such host."""

# Addresses that carry another one inside, or lead to one: where they end is decided by somebody else.
_TUNNELS = tuple(
    map(
        ipaddress.IPv6Network,
        ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16", "fec0::/10"),
    )
)
_SPECIAL_V4 = tuple(map(ipaddress.IPv4Network, ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24")))


def is_public(address: str) -> bool:
    """Whether `address`, an IP address as text, is one of the open internet."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    special = found.is_private or found.is_loopback or found.is_link_local or found.is_multicast or found.is_reserved
    inside = any(found in network for network in (_TUNNELS if found.version == 6 else _SPECIAL_V4))
    return found.is_global and not (special or found.is_unspecified or inside)


def resolve(host: str, port: int) -> tuple[str, ...]:
    """Every address of a host. Raises OSError."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Where a download may go."""

    resolve: Resolver = resolve
    is_public: Callable[[str], bool] = is_public
    ports: frozenset[int] | None = frozenset({80, 443})
    """None for all."""
    trust: Callable[[], ssl.SSLContext] = ssl.create_default_context
    """Which certificates are believed."""


PUBLIC_ONLY = FetchPolicy()
"""The open internet, and the usual ports."""

ANY_ADDRESS = FetchPolicy(is_public=lambda _: True, ports=None)
"""Wherever the server itself can go: for a server whose visitors may go there as well."""


def resolve_within(host: str, port: int, resolver: Resolver, seconds: float) -> tuple[str, ...]:
    """The addresses, after `seconds` at most: a name server that never answers cannot be interrupted, only left behind.

    Raises OSError when there are none, TimeoutError when it took too long.
    """
    answer: concurrent.futures.Future[tuple[str, ...]] = concurrent.futures.Future()

    def ask() -> None:
        try:
            answer.set_result(tuple(resolver(host, port)))
        except (OSError, UnicodeError):
            answer.set_exception(OSError("no such host"))

    threading.Thread(target=ask, name="resolving", daemon=True).start()
    found = answer.result(timeout=seconds)
    if not found:
        raise OSError("no address")
    return found
