"""The runs of one folder, which may grow while it is served: their rows in memory, traces and videos from the disk."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.result import RESULTS
from vrthinker_core.text import encodable
from vrthinker_core.traces import load
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.runs import runs_words
from vrthinker_core.ui.runs.folder_readers import FolderReader, ResultLines, TraceFiles
from vrthinker_core.ui.runs.listed_run import ROW, ListedRun

PATIENCE_SECONDS = (
    0.5  # for which an answer waits for what is being read; what comes later is in the next answer
)
REST = 4.0  # times as long as looking through the folder took, until it is looked through again
MOST_REST_SECONDS = 10.0


@dataclass(slots=True)
class ListedRuns:
    """The folder that `--runs` names. Requests name rows of the list and nothing else: no path in a request is ever opened."""

    folder: Path
    _runs: dict[str, ListedRun] = field(default_factory=dict)
    _reader: FolderReader | None = None
    _thread: threading.Thread | None = None
    _said: str = ""  # why the folder cannot be read
    _rest_until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self, patience: float = PATIENCE_SECONDS) -> bool:
        """Read what is new, in a thread of its own; whether all of it was read within `patience` seconds."""
        with self._lock:
            if self._thread is None and time.monotonic() >= self._rest_until:
                self._thread = threading.Thread(target=self._read, name="read runs", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread is not None:
            thread.join(patience)
        return thread is None or not thread.is_alive()

    @property
    def said(self) -> str:
        """What a person must know of the folder, in one sentence; "" for nothing."""
        return self._said or (self._reader.said if self._reader else "")

    def runs(self) -> Sequence[ListedRun]:
        """All rows that have been read."""
        with self._lock:
            return list(self._runs.values())

    def find(self, name: str) -> ListedRun | None:
        """The row of that name; None where there is none."""
        with self._lock:
            return self._runs.get(name)

    def find_now(self, name: str) -> ListedRun | None:
        """The same, also for a row that has come since the folder was read, or that is still being read."""
        if not name.startswith(ROW) or self.find(name) is not None:
            return self.find(name)
        self.refresh()
        return self.find(name)

    def trace(self, run: ListedRun) -> Trace:
        """Its trace, from the disk. Raises TraceError."""
        if not run.trace:
            raise TraceError(run.error or runs_words.NO_TRACE)
        if ".." in PurePath(run.trace).parts or PurePath(run.trace).is_absolute():
            raise TraceError(runs_words.LEFT_FOLDER)
        path = self.folder / run.trace
        if not path.is_file():
            raise TraceError(runs_words.TRACE_GONE)
        return load(path)

    def videos(self, run: ListedRun) -> list[Path]:
        """Files that may be its videos, by the names in the result or the trace; only one with the digest of a clip is shown.

        A result's path may be relative to where `evaluate` was started, which then is this folder, one above it, or where the page
        was started. A trace holds no path: the name of a clip means a file beside the trace, or above it in this folder.
        """
        named = [path for path in run.videos if path]
        if self._is_evaluation:
            places = [Path(), self.folder, *self.folder.parents]
        else:
            beside = (self.folder / run.trace).parent
            places = [
                place for place in (beside, *beside.parents) if place.is_relative_to(self.folder)
            ]
            named = [Path(path).name for path in named]
        return [
            path
            for path in dict.fromkeys(place / path for path in named for place in places)
            if path.is_file()
        ]

    @property
    def _is_evaluation(self) -> bool:
        return isinstance(self._reader, ResultLines)

    def _read(self) -> None:
        """All that the thread does: the rows appear while it goes on."""
        began, said = time.monotonic(), ""
        try:
            for name, run in self._news():
                with self._lock:
                    self._runs.pop(name, None)
                    if run is not None:
                        self._runs[name] = run
        except OSError as error:
            said = runs_words.UNREADABLE.format(
                encodable(str(self.folder)), error.strerror or type(error).__name__
            )
        except BadInput as bad:
            said = str(bad)
        self._said = said
        with self._lock:
            self._rest_until = time.monotonic() + min(
                MOST_REST_SECONDS, REST * (time.monotonic() - began)
            )
            self._thread = None

    def _news(self) -> Iterator[tuple[str, ListedRun | None]]:
        if not self.folder.is_dir():
            self._begin(None)
            raise BadInput(runs_words.NO_FOLDER.format(encodable(str(self.folder))))
        if self._reader is None or not self._reader.fits():
            results = (self.folder / RESULTS).exists()
            self._begin(ResultLines(self.folder) if results else TraceFiles(self.folder))
        assert self._reader is not None
        yield from self._reader.news()

    def _begin(self, reader: FolderReader | None) -> None:
        with self._lock:
            self._runs.clear()
            self._reader = reader
