"""Which file each player of an open page holds, so that a run can say that it judged others."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Generic, TypeVar

from vrthinker_core.types import Side
from vrthinker_core.types.events import Started

MAX_PAGES = 400  # beyond them, the page whose value was put longest ago is forgotten

T = TypeVar("T")


class PageValues(Generic[T]):
    """Values by session id. Not saved; calls from several threads are safe."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, session_id: str) -> T | None:
        """Return that page's value; None if there is none."""
        with self._lock:
            return self._values.get(session_id)

    def put(self, session_id: str, value: T) -> None:
        """Replace that page's value."""
        with self._lock:
            self._values[session_id] = value
            self._values.move_to_end(session_id)
            if len(self._values) > MAX_PAGES:
                self._values.popitem(last=False)

    def take(self, session_id: str) -> T | None:
        """Return that page's value, and forget it."""
        with self._lock:
            return self._values.pop(session_id, None)


EMPTY = ""  # the visitor has removed the video of a side
Digests = tuple[str | None, str | None]  # SHA-256 of each side's file; None if unknown


class PlayerFiles:
    """Digests of the files in both players, by session id, and why files are refused.

    Not saved; safe to call from threads.
    """

    def __init__(self) -> None:
        self._digests = PageValues[Digests]()
        self._refused = PageValues[Mapping[str, str]]()  # digest to the reason
        self._lock = threading.RLock()  # reading one side and storing both is one step

    def get(self, session_id: str) -> Digests:
        """Return what both players of that page hold."""
        return self._digests.get(session_id) or (None, None)

    def put(self, session_id: str, side: Side, digest: str) -> None:
        """Put another file, not refused yet, or EMPTY into one player."""
        with self._lock:
            first, second = self.get(session_id)
            self.put_both(session_id, (digest, second) if side is Side.FIRST else (first, digest))
            refused, held = self._refused.get(session_id) or {}, {*self.get(session_id)} - {digest}
            self._refused.put(session_id, {each: refused[each] for each in refused if each in held})

    def put_both(self, session_id: str, digests: Digests) -> None:
        """Put other files into both players."""
        with self._lock:
            self._digests.put(session_id, digests)

    def refuse(self, session_id: str, digest: str, reason: str) -> None:
        """Note why the file of that digest cannot be opened."""
        with self._lock:
            self._refused.put(session_id, {**(self._refused.get(session_id) or {}), digest: reason})

    def refusals(self, session_id: str) -> tuple[str, str]:
        """Return why each player's file is refused; "" if it is not."""
        with self._lock:
            refused, (first, second) = self._refused.get(session_id) or {}, self.get(session_id)
        return refused.get(first or EMPTY, ""), refused.get(second or EMPTY, "")

    def swap(self, session_id: str) -> None:
        """Put into each player what the other one held."""
        with self._lock:
            first, second = self.get(session_id)
            self.put_both(session_id, (second, first))

    def forget(self, session_id: str) -> None:
        """Forget a closed page."""
        self._digests.take(session_id)
        self._refused.take(session_id)


def changed_sides(started: Started | None, digests: Digests) -> tuple[Side, ...]:
    """Return the sides whose player holds another file than was judged."""
    clips = started.clips if started else (None, None)
    sides = zip(Side, clips, digests, strict=True)
    return tuple(side for side, clip, held in sides if clip and held not in (None, clip.digest))


def are_swapped(started: Started, digests: Digests) -> bool:
    """Return whether the players hold the two judged files, swapped."""
    first, second = (clip.digest if clip else None for clip in started.clips)
    return None not in (first, second) and first != second and digests == (second, first)
