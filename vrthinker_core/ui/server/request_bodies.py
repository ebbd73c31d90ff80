"""The bodies of requests: read up to a limit each and all together, and checked before anything is made of their JSON."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

MAX_UNFINISHED_BYTES = 256 * 2**20  # of all bodies that have begun to come and are not whole yet
STALL_SECONDS = 30.0  # in which more of a body must come
BODY_SECONDS = 30.0  # in which a body that is no upload must come
DRAIN_SECONDS = 2.0  # for the rest of a body that was refused
MAX_VALUES = 20_000  # of one body's JSON; a video in it is one
MAX_DEPTH = 50  # of lists and objects in each other
QUICK_BYTES = 2**16  # a body up to this size is checked at once, a larger one in a thread


class Refusal(Exception):
    """A request that is refused, with its status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


TOO_SLOW = (408, "The rest of this request did not come in time. Send it again.")
NO_ROOM = (503, "Too much is being sent at once. Try again in a minute.")
TOO_MANY = (413, f"This request has too many values. At most {MAX_VALUES:,} are taken.")
TOO_DEEP = (
    400,
    f"This request is nested too deep. At most {MAX_DEPTH} lists and objects in each other are read.",
)
MAX_ID = (
    100  # characters of what a page calls itself, an upload or an event: each is kept in memory
)
IDS = ("session_hash", "upload_id", "event_id")
LONG_ID = (400, f"The names {', '.join(IDS)} have at most {MAX_ID} characters.")
NUL_IN_PATH = (400, "The path of a file cannot contain the character NUL.")


class Body:
    """The body of one request, as it comes."""

    def __init__(self, receive: Receive, limit: int, others: "UnfinishedBodies") -> None:
        self.size = 0
        self.last_seen = time.monotonic()
        self._receive = receive
        self._limit = limit
        self._others = others
        self._patience: asyncio.Timeout | None = None
        self._is_cut = False

    async def receive(self) -> Message:
        """The next message. Raises Refusal when the body grows too large or stalls, or when others need the room."""
        try:
            async with asyncio.timeout(STALL_SECONDS) as self._patience:
                message = await self._receive()
        except TimeoutError:
            raise Refusal(*(NO_ROOM if self._is_cut else TOO_SLOW)) from None
        finally:
            self._patience = None
        self.last_seen = time.monotonic()
        self.size += len(message.get("body", b""))
        if self.size > self._limit:
            raise Refusal(413, f"At most {self._limit / 1e6:.0f} MB are taken at once.")
        if message.get("more_body", False):
            self._others.make_room()
        else:
            self._others.discard(self)
        if self._is_cut:
            raise Refusal(*NO_ROOM)
        return message

    async def read(self) -> bytes:
        """All of it. Raises Refusal, and ClientDisconnect when the client has left."""
        pieces = []
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while (message := await self.receive())["type"] == "http.request":
                    pieces.append(message.get("body", b""))
                    if not message.get("more_body", False):
                        return b"".join(pieces)
        except TimeoutError:
            raise Refusal(*TOO_SLOW) from None
        raise ClientDisconnect

    def cut(self) -> None:
        """Refuse it now: others need the room."""
        self._is_cut = True
        if self._patience is not None:
            self._patience.reschedule(asyncio.get_running_loop().time())


class UnfinishedBodies:
    """All bodies that are not whole yet. When they are too large together, one that is large and has stalled for long is cut."""

    def __init__(self) -> None:
        self._bodies: set[Body] = set()

    @contextmanager
    def reader(self, receive: Receive, limit: int, length: str) -> Iterator[Body]:
        """A body of at most `limit` bytes; `length` is the request's Content-Length, "" without one. Raises Refusal."""
        if length.isdecimal() and int(length) > limit:
            raise Refusal(413, f"At most {limit / 1e6:.0f} MB are taken at once.")
        body = Body(receive, limit, self)
        self._bodies.add(body)
        try:
            yield body
        finally:
            self.discard(body)

    def discard(self, body: Body) -> None:
        """This body is whole, or nobody reads it any more."""
        self._bodies.discard(body)

    def make_room(self) -> None:
        """Cut bodies until the others are within the limit."""
        while sum(body.size for body in self._bodies) > MAX_UNFINISHED_BYTES:
            now = time.monotonic()
            worst = max(self._bodies, key=lambda body: body.size * (now - body.last_seen))
            worst.cut()
            self.discard(worst)


async def drain(receive: Receive) -> None:
    """Read the rest of a body that was refused, and drop it: a client that still sends would not see the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while (await receive()).get("more_body", False):
                pass


async def check(body: bytes) -> None:
    """Raises Refusal for JSON that would take long to make into values, or that Gradio would fail on."""
    if len(body) <= QUICK_BYTES:
        _check(body)
    else:
        await asyncio.to_thread(_check, body)


def _check(body: bytes) -> None:
    if sum(map(body.count, (b"[", b"{", b","))) > MAX_VALUES:
        raise Refusal(*TOO_MANY)
    try:
        level: list[Any] = [json.loads(body)]
    except RecursionError:
        raise Refusal(*TOO_DEEP) from None
    except ValueError:
        return  # no JSON: whoever it is for says so
    for _ in range(MAX_DEPTH):
        objects = [value for value in level if isinstance(value, dict)]
        if any(
            len(name) > MAX_ID
            for value in objects
            for name in map(value.get, IDS)
            if isinstance(name, str)
        ):
            raise Refusal(*LONG_ID)
        if any(
            "\0" in path
            for path in (value.get("path") for value in objects)
            if isinstance(path, str)
        ):
            raise Refusal(*NUL_IN_PATH)
        lists = [value for value in level if isinstance(value, list)]
        level = [
            *chain.from_iterable(lists),
            *chain.from_iterable(value.values() for value in objects),
        ]
    if any(isinstance(value, dict | list) for value in level):
        raise Refusal(*TOO_DEEP)
