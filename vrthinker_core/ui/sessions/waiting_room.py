"""The waiting room: how many sessions may wait for a judge; beyond that, a visitor is refused at once."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CLAIM_SECONDS = 10.0  # for the comparison of a place to be queued: a page does both at once


@dataclass(slots=True)
class _Place:
    waiting: bool = True
    since: float = field(default_factory=time.monotonic)


class WaitingRoom:
    """Places for at most `capacity` sessions, those with a run included; one place a session."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._places: dict[str, _Place] = {}
        self._lock = threading.Lock()

    def join(self, session_id: str, has_comparison: Callable[[str], bool] = lambda _: False) -> bool:
        """Take a place; False when all are taken. Places of sessions that have had no comparison for `CLAIM_SECONDS` are free."""
        latest = time.monotonic() - CLAIM_SECONDS
        with self._lock:
            for other, place in list(self._places.items()):
                if place.waiting and place.since < latest and not has_comparison(other):
                    del self._places[other]
            if session_id not in self._places and len(self._places) >= self._capacity:
                return False
            self._places[session_id] = _Place()
            return True

    def waits(self, session_id: str) -> bool:
        """The session has a place, and its run has not begun."""
        with self._lock:
            place = self._places.get(session_id)
            return place is not None and place.waiting

    @contextmanager
    def active(self, session_id: str) -> Iterator[None]:
        """The session has its run, and leaves when that has ended; a place taken anew meanwhile is kept."""
        with self._lock:
            place = self._places.get(session_id, _Place())
            place.waiting = False
        try:
            yield
        finally:
            with self._lock:
                if self._places.get(session_id) is place:
                    del self._places[session_id]

    def leave(self, session_id: str) -> bool:
        """Give the place back; True when the session was still waiting for its run."""
        with self._lock:
            place = self._places.pop(session_id, None)
            return place is not None and place.waiting
