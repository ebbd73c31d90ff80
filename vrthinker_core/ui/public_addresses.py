"""Which IP addresses the server may connect to for a stranger: public ones only."""

import concurrent.futures
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# From (host, port) to all IP addresses of the host; raises OSError
Resolver = Callable[[str, int], Sequence[str]]

# IPv6 addresses that embed or lead to an IPv4 address: somebody else decides their target
_TUNNELS = (
    *("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"),
    *("2001::/23", "2002::/16", "fec0::/10"),
)
_SPECIAL_V4 = ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24")


def is_public(address: str) -> bool:
    """Whether `address` is an IP address of the open internet."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    special = (
        ip.is_private
        or ip.is_loopback
        or ip.is_link_local
        or ip.is_multicast
        or ip.is_reserved
        or ip.is_unspecified
    )
    networks = map(ipaddress.ip_network, (*_TUNNELS, *_SPECIAL_V4))
    return ip.is_global and not special and not any(ip in network for network in networks)


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
