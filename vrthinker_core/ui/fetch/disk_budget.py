"""The disk budget: how many bytes one visitor, and all together, may hold on the server's disk."""

import threading
from collections import Counter
from pathlib import Path

from vrthinker_core.errors import BadInput

MAX_VISITOR_BYTES = 500_000_000
MAX_BYTES = 4_000_000_000
NOBODY = ""  # stands for all visitors whose file has no known owner: fetched ones, copies; they may hold half of all

OWN_SHARE_FULL = "Your files take {:.0f} MB here, the most that one visitor may keep. Unused ones go after ten minutes; try again then."
FULL = "There is no room here to keep this file; try again in ten minutes."


class DiskBudget:
    """Who holds which file, and how large it is. A file that is still arriving counts with what has come of it."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[str, int]] = {}
        self._held: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, file: Path, visitor: str, size: int) -> None:
        """Count the file with `size` bytes, whatever it was counted with before. Raises BadInput when there is no room for it."""
        most = MAX_BYTES // 2 if visitor == NOBODY else MAX_VISITOR_BYTES
        with self._lock:
            self._forget(file)
            if self._held.total() + size > MAX_BYTES or (
                visitor == NOBODY and self._held[visitor] + size > most
            ):
                raise BadInput(FULL)
            if self._held[visitor] + size > most:
                raise BadInput(OWN_SHARE_FULL.format(most / 1e6))
            self._files[file] = (visitor, size)
            self._held[visitor] += size

    def release(self, file: Path) -> None:
        """Count the file no more."""
        with self._lock:
            self._forget(file)

    def release_missing(self) -> None:
        """Count no file any more that has been deleted."""
        for file in list(self._files):
            if not file.exists():
                self.release(file)

    def _forget(self, file: Path) -> None:
        visitor, size = self._files.pop(file, (NOBODY, 0))
        self._held[visitor] -= size
        if not self._held[visitor]:
            del self._held[visitor]
