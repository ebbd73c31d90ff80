"""The waiting room: who waits for the judge, and whether there is a place for one more."""

from __future__ import annotations

import threading


class Room:
    """Holds at most `most` visitors; each of them once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: set[str] = set()
        self._lock = threading.Lock()

    def enter(self, visitor: str) -> bool:
        """Take a place; False when all are taken."""
        with self._lock:
            if visitor not in self._inside and len(self._inside) >= self._most:
                return False
            self._inside.add(visitor)
            return True

    def leave(self, visitor: str) -> bool:
        """The visitor's turn has come, or they have gone; False when they were not inside."""
        with self._lock:
            waited = visitor in self._inside
            self._inside.discard(visitor)
            return waited
