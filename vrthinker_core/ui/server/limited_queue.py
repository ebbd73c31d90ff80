"""Gradio's queue of events, in which only comparisons wait for a place, and what nobody collects is dropped.

Gradio's own limit counts every event, so a full queue refuses pages and uploads too. It runs an event to its end whether or not
anybody asks for what it says, and looks for new events a thousand times a second.
"""

import asyncio
import secrets
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from typing import Any, TypeVar

from gradio.queueing import Queue
from gradio.utils import run_coro_in_background

COLLECT_SECONDS = (
    10.0  # a client that does not wait for the messages of its events for so long has left
)
SWEEP_SECONDS = 1.0  # between two looks for such clients
IDLE_SECONDS = 0.05  # between two looks for new events, while there is none
MAX_AT_ONCE = (
    1000  # events of all kinds that go on at the same time: a page that waits for its judge is one
)

FULL = "Queue is full: {} comparisons wait already. Try again later."
NO_FUNCTION = "There is no such function here."

Item = TypeVar("Item")


class SessionMessages(asyncio.Queue[Any]):
    """The messages for one client, which knows how long the client has not waited for one."""

    def __init__(self) -> None:
        super().__init__()
        self._readers = 0
        self._last_read = time.monotonic()

    async def get(self) -> Any:
        """The next message."""
        self._readers += 1
        try:
            return await super().get()
        finally:
            self._readers -= 1
            self._last_read = time.monotonic()

    @property
    def is_abandoned(self) -> bool:
        """Nobody has waited for a message for `COLLECT_SECONDS`."""
        return not self._readers and time.monotonic() - self._last_read > COLLECT_SECONDS


class LimitedQueue(Queue):
    """At most `max_waiting` events of `limited_id`, the concurrency id of comparisons, wait; all others are always taken.

    `on_taken` is told of each session whose comparison is to wait here, `on_abandoned` of each with events whose messages nobody
    collects. Those events are dropped.
    """

    def __init__(
        self,
        blocks: Any,
        limited_id: str,
        max_waiting: int,
        on_taken: Callable[[str], None],
        on_abandoned: Callable[[str], None],
    ) -> None:
        super().__init__(
            True, MAX_AT_ONCE, 1, max_size=None, blocks=blocks, default_concurrency_limit=None
        )
        self.sleep_when_free = IDLE_SECONDS
        self.progress_update_sleep_when_free = SWEEP_SECONDS  # no event here reports progress
        self.ANALYTICS_MAX_EVENTS = 0  # nobody reads them, and each event would sum up all others
        self.pending_messages_per_session.max_size = (
            sys.maxsize
        )  # else whoever has waited longest is forgotten first
        self._limited_id = limited_id
        self._max_waiting = max_waiting
        self._on_taken = on_taken
        self._on_abandoned = on_abandoned
        self._released = 0  # comparisons that run but hold no place, since their judge is not ready

    def start(self) -> None:
        """As Gradio does, with more events at once than threads, and with the sweep."""
        super().start()  # type: ignore[no-untyped-call]
        self.active_jobs = [None] * MAX_AT_ONCE
        run_coro_in_background(self._sweep)

    async def push(self, body: Any, request: Any, username: str | None) -> tuple[bool, Any, Any]:
        """Take an event, or say why not: (success, its id or a sentence, what Gradio calls the reason)."""
        function = self.blocks.fns.get(body.fn_index)
        if function is None or function.fn is None:
            return False, NO_FUNCTION, "error"
        is_comparison = function.concurrency_id == self._limited_id
        if is_comparison and self.counts()[1] >= self._max_waiting:
            return False, FULL.format(self._max_waiting), "queue_full"
        body.session_hash = body.session_hash or secrets.token_hex(12)
        self.pending_messages_per_session.setdefault(body.session_hash, SessionMessages())
        taken, said, reason = await super().push(body, request, username)
        if taken and is_comparison:
            self._on_taken(body.session_hash)
        return taken, said, reason

    def counts(self) -> tuple[int, int]:
        """How many comparisons run, and how many wait."""
        queue = self.event_queue_per_concurrency_id.get(self._limited_id)
        return (
            (max(0, queue.current_concurrency), len(queue.queue) + self._released)
            if queue
            else (0, 0)
        )

    def comparisons_before(self, session_id: str) -> int | None:
        """How many comparisons run, or are to run, before the one of that session that waits; None when none of it waits."""
        queue = self.event_queue_per_concurrency_id.get(self._limited_id)
        waiting = [event.session_hash for event in queue.queue] if queue else []
        if queue is None or session_id not in waiting:
            return None
        return max(0, queue.current_concurrency) + self._released + waiting.index(session_id)

    def has_comparison(self, session_id: str) -> bool:
        """Whether a comparison of that session waits or runs."""
        comparisons = (
            event
            for event in self.event_ids_to_events.values()
            if event.concurrency_id == self._limited_id
        )
        return any(event.session_hash == session_id for event in comparisons)

    async def release_until(
        self, ready: Callable[[], bool], items: AsyncGenerator[Item, None]
    ) -> AsyncIterator[Item]:
        """The items of a comparison that runs. As long as it is not `ready`, another one may run in its place."""
        async with aclosing(items):
            with ExitStack() as released:
                if not ready():
                    released.enter_context(self._slot_released())
                async for item in items:
                    if ready():
                        released.close()
                    yield item

    @contextmanager
    def _slot_released(self) -> Iterator[None]:
        queue = self.event_queue_per_concurrency_id[self._limited_id]
        queue.current_concurrency -= 1
        self._released += 1
        try:
            yield
        finally:
            queue.current_concurrency += 1
            self._released -= 1

    async def _sweep(self) -> None:
        while not self.stopped:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.drop_uncollected()

    async def drop_uncollected(self) -> None:
        """Drop the events that began just after their session was forgotten, and those whose messages nobody collects."""
        for session_id in {event.session_hash for event in self.event_ids_to_events.values()}:
            if session_id not in self.pending_messages_per_session:
                await self.clean_events(session_hash=session_id)
                self._on_abandoned(session_id)
        for session_id, messages in list(self.pending_messages_per_session.items()):
            if isinstance(messages, SessionMessages) and messages.is_abandoned:
                await self._forget(session_id, messages)

    async def _forget(self, session_id: str, messages: SessionMessages) -> None:
        """Also of a client that has collected everything: it gets a new queue of messages with its next event."""
        del self.pending_messages_per_session[session_id]
        events = self.pending_event_ids_session.get(session_id, set())
        uncollected = not messages.empty() or any(
            event in self.event_ids_to_events for event in events
        )
        await self.clean_events(session_hash=session_id)
        self.pending_event_ids_session.pop(session_id, None)
        if uncollected:
            self._on_abandoned(session_id)
