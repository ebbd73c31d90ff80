"""Who asks, how much of the server each visitor may take, and whose turn it is."""

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import threading
from base64 import urlsafe_b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from starlette.requests import HTTPConnection

from vrthinker_core.backends.served_model import LOOPBACK
from vrthinker_core.errors import BadInput
from vrthinker_core.ui import words

K = TypeVar("K")
T = TypeVar("T")

COOKIE = "vr-thinker-visitor"
HERE_COOKIE = "vr-thinker-here"
COOKIE_SECONDS = 30 * 24 * 3600  # After the page was opened last
PROXY_HEADERS = ("x-forwarded-", "x-real-ip", "via", "forwarded")  # The start of their names
KEY_BYTES = 32
Holder = tuple[str, str]  # (address, owner)
SHARES_AN_ADDRESS = 8  # Cookies cost nothing: so much they hold together at one address


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sent a request."""

    owner: str = ""  # Of kept runs: 64 hexadecimal digits, "" without a cookie of this server
    address: str = ""  # An IPv4 address, or the first 64 bits of an IPv6 address
    here: bool = False  # The person at this machine
    counted: bool = True  # Limits hold; on a private page they do not for this machine

    @property
    def share(self) -> Holder:
        """Whose share it is: (address, owner)."""
        return self.address, self.owner

    @property
    def shares(self) -> int:
        """How many shares it may hold; without a cookie it may be several people."""
        return 1 if self.owner else SHARES_AN_ADDRESS


UNKNOWN = Visitor()


def visitor_of(request: Any) -> Visitor:
    """Return the visitor that `GuardMiddleware` has found, of a request or Gradio's copy."""
    found: Visitor = getattr(getattr(request, "state", None), "visitor", UNKNOWN)
    return found


def split_url(url: str) -> SplitResult:
    """Return the parts of a web address; empty parts for text that is none."""
    with suppress(ValueError):
        return urlsplit(url)
    return urlsplit("")


def host_name(netloc: str) -> str:
    """Return the name in a Host header, without its port; "" without one."""
    return split_url(f"//{netloc}").hostname or ""


def ip_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return this IP address, or None for text that is none."""
    with suppress(ValueError):
        return ipaddress.ip_address(text)
    return None


class Visitors:
    """Tells who sends a request.

    On a private page the person at this machine is known by a loopback client, Host and Origin,
    without a proxy's headers. On a public page, or outside a container, the person is known by
    `token` alone, which stands in the address that the page prints.
    """

    def __init__(self, key: bytes | None = None, hops: int = 0, *, public: bool = False) -> None:
        """Sign cookies with `key`. `hops`: proxies in front whose X-Forwarded-For is believed.

        -1 hops: a Space, whose number of proxies is not known. `public`: strangers are expected.
        """
        self._key, self._hops = key or secrets.token_bytes(KEY_BYTES), hops
        self._public, self.token = public or hops != 0, secrets.token_urlsafe(24)

    def of(self, request: HTTPConnection) -> Visitor:
        """Return the visitor that sends this request."""
        peer, headers = request.client.host if request.client else "", request.headers
        proxied = any(name.startswith(PROXY_HEADERS) for name in headers)
        local = peer in LOOPBACK and host_name(headers.get("host", "")) in LOOPBACK
        private = local and not proxied and not self._public
        from_page = split_url(headers.get("origin", "")).hostname in LOOPBACK
        known = not proxied and self.admits(request.cookies.get(HERE_COOKIE, ""))
        here = known or (private and from_page)
        return Visitor(
            self.owner_of(request.cookies),
            _network(self._address(request, peer)),
            here,
            counted=self._public or not (private or here),
        )

    def _address(self, request: HTTPConnection, peer: str) -> str:
        """Return the visitor's address: the peer's, or what the trusted proxies say."""
        lines = ",".join(request.headers.getlist("x-forwarded-for"))
        told = [each.strip() for each in lines.split(",") if each.strip()]
        if self._hops > 0:
            return told[-self._hops] if len(told) >= self._hops else peer
        foreign = (each for each in reversed(told) if (ip := ip_of(each)) and ip.is_global)
        return next(foreign, peer) if self._hops else peer

    def is_secure(self, request: HTTPConnection) -> bool:
        """Whether the visitor's browser speaks TLS, with this server or with its proxy."""
        told = request.headers.get("x-forwarded-proto", "") if self._hops else ""
        return request.url.scheme in ("https", "wss") or told.rpartition(",")[2].strip() == "https"

    def admits(self, token: str) -> bool:
        """Whether this is the token of the page's first address."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def owner_of(self, cookies: Mapping[str, str]) -> str:
        """Return these cookies' owner as 64 hexadecimal digits; "" without one of this server."""
        value, _, signature = cookies.get(COOKIE, "").partition(".")
        if not value or not hmac.compare_digest(signature.encode(), self._sign(value).encode()):
            return ""
        return hashlib.sha256(value.encode()).hexdigest()

    def signed(self, cookie: str) -> str:
        """Return a visitor's cookie, signed: a new one unless this is one of an earlier version."""
        if self.owner_of({COOKIE: cookie}):
            return cookie
        is_earlier = re.fullmatch(r"[A-Za-z0-9_-]{43}", cookie)
        value = cookie if is_earlier else secrets.token_urlsafe(KEY_BYTES)
        return f"{value}.{self._sign(value)}"

    def _sign(self, value: str) -> str:
        digest = hmac.digest(self._key, value.encode(), "sha256")
        return urlsafe_b64encode(digest[:18]).decode()


def cookie_key(folder: Path) -> bytes | None:
    """Return the key that signs cookies; servers that share the folder share it.

    None if the folder cannot keep one.
    """
    path = folder / "cookie.key"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            path.touch(0o600, exist_ok=False)
            path.write_bytes(secrets.token_bytes(KEY_BYTES))
        if len(key := path.read_bytes()) == KEY_BYTES:
            return key
    return None


def _network(address: str) -> str:
    """Return an IPv4 address as it is, an IPv6 address as its network of 64 bits."""
    ip = ip_of(address.partition("%")[0].strip("[]"))
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ip.ipv4_mapped or ipaddress.ip_network(f"{ip}/64", strict=False))
    return str(ip or address[:64])


# -- shares ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of one thing visitors may hold at the same time."""

    each: float  # One cookie; one address holds 8 times as much
    whole: float  # All together; beyond it only who holds less than a fair part takes more
    refusal: str  # Of who holds `each`
    full: str  # Of who comes when all is taken


EVENTS = Limit(30, 1000, words.MANY_EVENTS, words.BUSY)
FOLLOWERS = Limit(16, 1000, words.MANY_FOLLOW, words.MANY_FOLLOW)
BYTES = Limit(500e6, 4e9, words.MANY_BYTES, words.NO_ROOM_NOW)


def refusal_of(
    limit: Limit, visitor: Visitor, held: Mapping[Holder, float], more: float = 1
) -> str:
    """Say why the visitor may not hold `more`; "" if it may.

    Nobody is refused what they may hold (`each`) before all of it (`whole`) is taken, and then
    only who holds a fair part already: all parts of an address together are as large as those
    of any other address.
    """
    held = {**held, visitor.share: held.get(visitor.share, 0) + more}
    total, own = sum(held.values()), held[visitor.share]
    beside = [amount for (address, _), amount in held.items() if address == visitor.address]
    if visitor.counted:
        if own > visitor.shares * limit.each or sum(beside) > SHARES_AN_ADDRESS * limit.each:
            return limit.refusal
        fair = limit.whole / len({address for address, _ in held}) / len(beside)
        if own <= fair and total <= 2 * limit.whole:
            return ""
    return limit.full if total > limit.whole else ""


def in_turns(waiting: Mapping[K, Visitor], running: Collection[Visitor] = ()) -> dict[K, Visitor]:
    """Order what waits: addresses take turns, then the visitors of one address."""
    every, order = [*waiting.items()], [*range(len(waiting))]
    for group in (attrgetter("share"), attrgetter("address")):
        taken, ranked = Counter(map(group, running)), list[tuple[int, int]]()
        for place in order:
            who = group(every[place][1])
            ranked.append((taken[who], place))
            taken[who] += 1
        order = [place for _, place in sorted(ranked)]
    return dict(every[place] for place in order)


class Shares:
    """Who holds how much of one thing. Safe to call from threads."""

    def __init__(self, limit: Limit) -> None:
        self._limit, self._lock = limit, threading.RLock()
        self._held: dict[Hashable, tuple[Holder, float]] = {}
        self._totals: dict[Holder, float] = defaultdict(float)

    def take(self, key: Hashable, visitor: Visitor, amount: float = 1) -> None:
        """Count `amount` for `key`, in place of what was counted. Raises BadInput."""
        with self._lock:
            self.release(key)
            if told := refusal_of(self._limit, visitor, self._totals, amount):
                raise BadInput(told)
            self._held[key] = visitor.share, amount
            self._totals[visitor.share] += amount

    def release(self, key: Hashable) -> None:
        """Count `key` no more."""
        with self._lock:
            if key in self._held:
                share, amount = self._held.pop(key)
                self._totals[share] -= amount
                if self._totals[share] <= 0:
                    del self._totals[share]

    def held(self) -> list[Hashable]:
        """Return what is counted."""
        with self._lock:
            return [*self._held]


class Turns:
    """So many at once: addresses take turns, then visitors. For the tasks of one event loop."""

    def __init__(self, width: int, name: str) -> None:
        """Have as many threads of that name."""
        self._width, self._threads = width, ThreadPoolExecutor(width, name)
        self._waiting = dict[asyncio.Event, Visitor]()  # what begins, and whose it is
        self._running = dict[asyncio.Event, Visitor]()

    async def run(self, visitor: Visitor, work: Callable[..., T], *given: Any) -> T:
        """Return what `work` does in a thread, once it is the visitor's turn."""
        begins = asyncio.Event()
        self._waiting[begins] = visitor
        self._begin()
        try:
            await begins.wait()
            return await asyncio.wrap_future(self._threads.submit(work, *given))
        finally:
            self._waiting.pop(begins, None)
            self._running.pop(begins, None)
            self._begin()

    def _begin(self) -> None:
        """Let those begin whose turn it is; the last place is for an address that has none."""
        for begins, visitor in in_turns(self._waiting, self._running.values()).items():
            has_one = visitor.address in {each.address for each in self._running.values()}
            leaves_one = self._width > 1 and visitor.counted and has_one
            if self._width - len(self._running) > leaves_one:
                self._running[begins] = self._waiting.pop(begins)
                begins.set()
