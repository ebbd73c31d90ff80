"""Traces behind links `?trace=NAME`, for whoever has the name; kept with the visitors' runs."""

import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vrthinker_core.errors import TraceError
from vrthinker_core.types.events import Trace
from vrthinker_core.ui import words
from vrthinker_core.ui.run_store import RunStore, record_of
from vrthinker_core.ui.tiles import Examples


class SharedTraces:
    """Links to runs, in the same store as the runs. Deleting a run removes the links to it."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._lock = threading.Lock()

    def add(self, run: str, trace: Trace, owner: str = "", videos: Sequence[Path] = ()) -> str:
        """Keep a run's trace; return a name that cannot be guessed, the same for the same trace.

        Raises OSError, also if there is no room for it.
        """
        with self._lock:
            for name, kept in self._store.records().items():
                with suppress(TraceError):  # a damaged one
                    is_its_link = kept.origin == run and kept.owner == owner
                    if is_its_link and self._store.trace(name) == trace:
                        return name
            name, now = secrets.token_hex(12), time.time()
            record = record_of(owner, trace, now, now + self._store.keep_seconds, origin=run)
            self._store.put(name, record, trace, videos)
            if self._store.get(name) is None:
                raise OSError(words.NO_ROOM)
            return name

    def has(self, name: str) -> bool:
        """Whether there is such a link."""
        record = self._store.get(name)
        return record is not None and bool(record.origin)

    def get(self, name: str) -> Trace:
        """Return that trace. Raises TraceError if there is none (any more)."""
        if not self.has(name):
            raise TraceError(words.NO_SUCH_LINK)
        return self._store.trace(name)

    def videos(self, name: str) -> list[Path]:
        """Return the videos of that trace, those that are kept."""
        record = self._store.get(name)
        return self._store.videos(record) if record and record.origin else []


def find_saved(examples: Examples, shared: SharedTraces, name: str) -> Trace:
    """Return the trace of `?trace=NAME`, an example's or shared. Raises TraceError."""
    example = examples.find(name)
    return example.trace if example else shared.get(name)
