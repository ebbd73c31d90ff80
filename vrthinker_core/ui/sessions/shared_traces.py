"""Traces behind links `?trace=NAME`. They are kept as long as the server runs, up to a number and a total size."""

import secrets
import threading
from pathlib import Path

from vrthinker_core.errors import TraceError
from vrthinker_core.traces import load, to_json, write_atomically
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.view import words
from vrthinker_core.ui.view.example_cards import Examples

MAX_TRACES = 200
MAX_BYTES = 512 * 2**20


class SharedTraces:
    """At most `max_traces` traces and `max_bytes` bytes in `folder`; the oldest are dropped first."""

    def __init__(self, folder: Path, max_traces: int = MAX_TRACES, max_bytes: int = MAX_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._max_traces = max_traces
        self._max_bytes = max_bytes
        self._sizes: dict[str, int] = {}
        self._links: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, run: str, trace: Trace) -> str:
        """Keep the trace of the run `run`; returns its name, which cannot be guessed, the same one each time. Raises OSError."""
        with self._lock:
            if (known := self._links.get(run)) in self._sizes:
                return str(known)
            name = secrets.token_hex(12)
            data = to_json(trace)
            write_atomically(self._path(name), data)
            self._sizes[name] = len(data)
            self._links[run] = name
            self._drop_oldest()
            return name

    def get(self, name: str) -> Trace:
        """The trace of that name. Raises TraceError when there is none (any more)."""
        if name not in self._sizes:
            raise TraceError(words.NO_SUCH_LINK)
        return load(self._path(name))

    def _drop_oldest(self) -> None:
        while len(self._sizes) > self._max_traces or (len(self._sizes) > 1 and sum(self._sizes.values()) > self._max_bytes):
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            self._links = {run: name for run, name in self._links.items() if name != oldest}
            self._path(oldest).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def find_saved(examples: Examples, shared: SharedTraces, name: str) -> Trace:
    """The trace that `?trace=NAME` means: an example's, or a shared one. Raises TraceError when there is none (any more)."""
    example = examples.find(name)
    return example.trace if example else shared.get(name)
