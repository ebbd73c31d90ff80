"""Which file each player of an open page holds, so that a run can say that it judged others."""

import threading

from vrthinker_core.types import Side
from vrthinker_core.types.events import Started
from vrthinker_core.ui.page_values import PageValues

EMPTY = ""  # the visitor has removed the video of a side
Digests = tuple[str | None, str | None]  # SHA-256 of each side's file; None where nothing is known of it


class PlayerFiles:
    """Digests of the files in both players, by session id. Not saved; calls from several threads are safe."""

    def __init__(self) -> None:
        self._digests = PageValues[Digests]()
        self._lock = threading.RLock()  # reading one side and storing both is one step

    def get(self, session_id: str) -> Digests:
        """What both players of that page hold."""
        return self._digests.get(session_id) or (None, None)

    def put(self, session_id: str, side: Side, digest: str) -> None:
        """The player of one side holds another file, or EMPTY."""
        with self._lock:
            first, second = self.get(session_id)
            self.put_both(session_id, (digest, second) if side is Side.FIRST else (first, digest))

    def put_both(self, session_id: str, digests: Digests) -> None:
        """Both players hold other files."""
        with self._lock:
            self._digests.put(session_id, digests)

    def swap(self, session_id: str) -> None:
        """Each player holds what the other one held."""
        with self._lock:
            first, second = self.get(session_id)
            self.put_both(session_id, (second, first))

    def forget(self, session_id: str) -> None:
        """The page is closed."""
        self._digests.take(session_id)


def changed_sides(started: Started | None, digests: Digests) -> tuple[Side, ...]:
    """The sides whose player holds another file than the run judged; () before the run has opened its files."""
    clips = started.clips if started else (None, None)
    pairs = zip(Side, clips, digests, strict=True)
    return tuple(side for side, clip, digest in pairs if clip is not None and digest is not None and digest != clip.digest)


def are_swapped(started: Started, digests: Digests) -> bool:
    """Whether each player holds the very file that the run judged as the other side's."""
    first, second = (clip.digest if clip else None for clip in started.clips)
    return first is not None and second is not None and first != second and digests == (second, first)
