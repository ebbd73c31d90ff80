"""The waiting room: who waits for a judge or has one, and whether there is a place for one more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Place:
    waiting: bool = True


class WaitingRoom:
    """Holds at most `most` visitors, those who are being judged included; each of them once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: dict[str, _Place] = {}
        self._lock = threading.Lock()

    def join(self, visitor: str) -> bool:
        """Take a place; False when all are taken."""
        with self._lock:
            if visitor not in self._places and len(self._places) >= self._most:
                return False
            self._places[visitor] = _Place()
            return True

    @contextmanager
    def active(self, visitor: str) -> Iterator[None]:
        """The visitor is judged, and leaves when that has ended. Who has come in anew meanwhile stays."""
        with self._lock:
            place = self._places.get(visitor, _Place())
            place.waiting = False
        try:
            yield
        finally:
            with self._lock:
                if self._places.get(visitor) is place:
                    del self._places[visitor]

    def leave(self, visitor: str) -> bool:
        """The visitor has gone; True when they were still waiting for their turn."""
        with self._lock:
            place = self._places.pop(visitor, None)
            return place is not None and place.waiting
