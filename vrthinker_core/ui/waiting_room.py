"""The waiting room: how many sessions may wait for a judge."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

CLAIM_SECONDS = 10.0  # for a place's comparison to be queued


@dataclass(slots=True)
class _Place:
    number: int
    waiting: bool = True
    queued: bool = False  # whether its comparison has been queued
    since: float = field(default_factory=time.monotonic)


class WaitingRoom:
    """Places for `capacity` sessions, with or without a run; one each."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._places: dict[str, _Place] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def next_number(self) -> int:
        """Return a number above the numbers of all earlier places."""
        return next(self._numbers)

    def join(self, session_id: str, has_comparison: Callable[[str], bool] = lambda _: False) -> int:
        """Take a place, and return its number; 0 if all are taken.

        Places of sessions that have had no comparison for `CLAIM_SECONDS` are free.
        """
        latest = time.monotonic() - CLAIM_SECONDS
        with self._lock:
            for other, place in list(self._places.items()):
                if place.waiting and place.since < latest and not has_comparison(other):
                    del self._places[other]
            if session_id not in self._places and len(self._places) >= self._capacity:
                return 0
            self._places[session_id] = _Place(number := self.next_number())
            return number

    def waits(self, session_id: str) -> bool:
        """Whether the session has a place, and its run has not begun."""
        place = self._find(session_id)
        return place is not None and place.waiting

    def note_queued(self, session_id: str) -> None:
        """Note that the comparison of the session's place, if any, has been queued."""
        if place := self._find(session_id):
            place.queued = True

    def was_queued(self, session_id: str) -> bool:
        """Whether the session has a place, and its comparison has been queued."""
        place = self._find(session_id)
        return place is not None and place.queued

    def number(self, session_id: str) -> int:
        """Return the number of the session's place; 0 if it has none."""
        place = self._find(session_id)
        return place.number if place else 0

    def _find(self, session_id: str) -> _Place | None:
        with self._lock:
            return self._places.get(session_id)

    @contextmanager
    def active(self, session_id: str) -> Iterator[int]:
        """Yield the number of the session's place during its run.

        A session without a place gets one. Then it leaves, unless it has taken a new place.
        """
        with self._lock:
            place = self._places.get(session_id) or _Place(self.next_number())
            place.waiting = False
        try:
            yield place.number
        finally:
            with self._lock:
                if self._places.get(session_id) is place:
                    del self._places[session_id]

    def leave(self, session_id: str, number: int | None = None) -> bool:
        """Give the place back (only that `number`); True if its run had not begun."""
        with self._lock:
            place = self._places.get(session_id)
            if place is None or number not in (None, place.number):
                return False
            del self._places[session_id]
            return place.waiting
