"""The runs of one folder, which may grow while it is served: their rows in memory, traces and videos from the disk."""

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, read_line, result_of
from vrthinker_core.results.trace_files import json_files, read_labels
from vrthinker_core.text import encodable
from vrthinker_core.traces import load
from vrthinker_core.types import Verdict
from vrthinker_core.types.events import Trace
from vrthinker_core.ui import words
from vrthinker_core.ui.listed_run import (
    MAX_SOURCE,
    ROW,
    ListedRun,
    listed_run,
    one_line,
    row_name,
    unreadable_run,
)

MAX_LINE_BYTES = 2**20
MAX_BROKEN = 200  # broken lines that are rows; more of them mean that the file is something else

News = tuple[str, ListedRun | None]  # the name of a row, and the row; None for one that is gone


class FolderReader(Protocol):
    """Reads what is new."""

    said: str  # what a person must know of all that was read, "" for nothing

    def fits(self) -> bool:
        """Whether the folder still is what was read; otherwise everything is read anew."""

    def news(self) -> Iterator[News]:
        """The rows that have come, changed or gone. Raises OSError where the folder cannot be read."""


@dataclass(slots=True)
class ResultLines:
    """Reads `results.jsonl`, whose lines are only ever added."""

    folder: Path
    said: str = ""
    _file: tuple[int, int] | None = None  # device and number of the file that was read
    _offset: int = 0  # bytes that were read, all of them whole lines
    _lines: int = 0
    _broken: int = 0

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / RESULTS

    def fits(self) -> bool:
        """It is the same file, and has not become shorter."""
        try:
            found = self.path.stat()
        except OSError:
            return self._file is None
        return self._file in (None, (found.st_dev, found.st_ino)) and found.st_size >= self._offset

    def news(self) -> Iterator[News]:
        """The lines that were added. One that is not whole yet is left for the next time."""
        with self.path.open("rb") as file:
            found = self.path.stat()
            self._file = found.st_dev, found.st_ino
            file.seek(self._offset)
            while (line := _whole_line(file)) is not None:
                self._lines += 1
                self._offset = file.tell()
                if (run := self._run(line)) is not None:
                    yield run.name, run
        self._say()

    def _run(self, line: bytes) -> ListedRun | None:
        where = f"Line {self._lines} of {RESULTS}"
        try:
            if not line:
                raise BadInput(f"{where} is longer than any result.")
            return listed_run(read_line(line, where))
        except BadInput as broken:
            self._broken += 1
            return (
                unreadable_run(f"line {self._lines}", self._lines, str(broken))
                if self._broken <= MAX_BROKEN
                else None
            )

    def _say(self) -> None:
        broken, lines = f"{self._broken:,}", f"{self._lines:,} lines of {RESULTS}"
        self.said = words.BROKEN_LINES.format(broken, lines) if self._broken else ""
        if self._broken and self._broken == self._lines:
            self.said = words.NO_RESULTS.format(encodable(str(self.path)))
        elif not self._lines:
            self.said = words.NO_RESULT_YET


def _whole_line(file: BinaryIO) -> bytes | None:
    """The next line; b"" for one that is too long, of which nothing is kept; None where no whole line follows."""
    line = file.readline(MAX_LINE_BYTES)
    if line.endswith(b"\n"):
        return line
    while part := file.readline(MAX_LINE_BYTES):
        if part.endswith(b"\n"):
            return b""
    return None


@dataclass(slots=True)
class TraceFiles:
    """Reads every JSON file below a folder as a trace. People's labels are those of its vote, the data set's stand beside the file.

    What else evaluations and trainings keep as JSON in their folders is no trace, and no row.
    """

    folder: Path
    said: str = ""
    _read: dict[str, "_FileState"] = field(
        default_factory=dict
    )  # by the file's path below the folder
    _rows: dict[str, int] = field(
        default_factory=dict
    )  # numbers, in the order in which files were found; none is given twice

    def fits(self) -> bool:
        """It is no folder of an evaluation by now."""
        return not (self.folder / RESULTS).exists()

    def news(self) -> Iterator[News]:
        """Files that came, were written anew, or are gone."""
        found = dict(self._found())
        for file in [file for file in self._read if file not in found]:
            del self._read[file]
            yield row_name(_key(file)), None
        labels_in = functools.cache(
            read_labels
        )  # no sooner than the traces were found, whose labels are written first
        for file, state in found.items():
            if self._read.get(file) != state:
                run = self._run(file, state, labels_in)
                self._read[file] = state
                yield row_name(_key(file)), run
        self.said = (
            ""
            if self._rows.keys() & found.keys()
            else words.EMPTY.format(encodable(str(self.folder)))
        )

    def _found(self) -> Iterator[tuple[str, "_FileState"]]:
        for path, named in sorted(json_files(self.folder)):
            with suppress(OSError):  # it has just gone
                status = path.stat()
                yield (
                    path.relative_to(self.folder).as_posix(),
                    _FileState(status.st_mtime_ns, status.st_size, named),
                )

    def _run(
        self, file: str, state: "_FileState", labels_in: Callable[[Path], Mapping[str, Verdict]]
    ) -> ListedRun | None:
        """The row of a file; None for one that is no trace and need not be one."""
        path, source = self.folder / file, one_line(file, MAX_SOURCE)
        try:
            trace = load(path)
        except TraceError as error:
            return (
                unreadable_run(_key(file), self._row(file), str(error), source)
                if state.named
                else None
            )
        labels = trace.vote.labels if trace.vote else Verdict()
        first, second = (clip.name if clip else "" for clip in trace.started.clips)
        pair = EvaluationPair(
            _key(file), self._row(file), trace.started.prompt, first, second, labels
        )
        return listed_run(
            result_of(pair, trace, file), source, labels_in(path.parent).get(path.name)
        )

    def _row(self, file: str) -> int:
        return self._rows.setdefault(file, len(self._rows) + 1)


@dataclass(frozen=True, slots=True)
class _FileState:
    """A file that was read."""

    written: int  # when, in nanoseconds
    size: int
    named: bool  # whether it is a row where it is no trace


def _key(file: str) -> str:
    return f"trace {file}"  # with a space, so that the row's name is a digest: a path is no name


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
            raise TraceError(run.error or words.NO_TRACE)
        if ".." in PurePath(run.trace).parts or PurePath(run.trace).is_absolute():
            raise TraceError(words.LEFT_FOLDER)
        path = self.folder / run.trace
        if not path.is_file():
            raise TraceError(words.TRACE_GONE)
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
            said = words.UNREADABLE.format(
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
            raise BadInput(words.NO_FOLDER.format(encodable(str(self.folder))))
        if self._reader is None or not self._reader.fits():
            results = (self.folder / RESULTS).exists()
            self._begin(ResultLines(self.folder) if results else TraceFiles(self.folder))
        assert self._reader is not None
        yield from self._reader.news()

    def _begin(self, reader: FolderReader | None) -> None:
        with self._lock:
            self._runs.clear()
            self._reader = reader
