"""Runs of a growing folder: rows in memory, traces on the disk."""

import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import BinaryIO

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
MAX_BROKEN = 200  # broken lines shown as rows; with more, the file is something else

# When a file was written (ns), its size, and whether it is a row even if it is no trace
FileState = tuple[int, int, bool]
News = Iterator[tuple[str, ListedRun | None]]  # names of rows, and the rows; None if gone


@dataclass(slots=True)
class ResultLines:
    """Reads `results.jsonl`, whose lines are only ever added."""

    folder: Path
    said: str = ""  # what a person must know of all that was read, "" for nothing
    _file: tuple[int, int] | None = None  # device and number of the file that was read
    _offset: int = 0  # bytes of the whole lines that were read
    _lines: int = 0
    _broken: int = 0

    def fits(self) -> bool:
        """Whether the file is the same, and not shorter; otherwise all is read anew."""
        try:
            found = (self.folder / RESULTS).stat()
        except OSError:
            return self._file is None
        return self._file in (None, (found.st_dev, found.st_ino)) and found.st_size >= self._offset

    def news(self) -> News:
        """Yield the rows of added lines, but not of an unfinished one.

        Raises OSError if the file cannot be read.
        """
        path = self.folder / RESULTS
        with path.open("rb") as file:
            found = path.stat()
            self._file = found.st_dev, found.st_ino
            file.seek(self._offset)
            while (line := _whole_line(file)) is not None:
                self._lines += 1
                self._offset = file.tell()
                where = f"Line {self._lines} of {RESULTS}"
                try:
                    if not line:
                        raise BadInput(f"{where} is longer than any result.")
                    run = listed_run(read_line(line, where))
                except BadInput as bad:
                    self._broken += 1
                    if self._broken > MAX_BROKEN:
                        continue
                    run = unreadable_run(f"line {self._lines}", self._lines, str(bad))
                yield run.name, run
        if not self._lines:
            self.said = words.NO_RESULT_YET
        elif self._broken == self._lines:
            self.said = words.NO_RESULTS.format(encodable(str(path)))
        else:
            lines = f"{self._lines:,} lines of {RESULTS}"
            broken = words.BROKEN_LINES.format(f"{self._broken:,}", lines)
            self.said = broken if self._broken else ""


def _whole_line(file: BinaryIO) -> bytes | None:
    """Read a line; b"" if too long, None if not whole yet."""
    line = file.readline(MAX_LINE_BYTES)
    if line.endswith(b"\n"):
        return line
    while part := file.readline(MAX_LINE_BYTES):
        if part.endswith(b"\n"):
            return b""
    return None


@dataclass(slots=True)
class TraceFiles:
    """Reads every JSON file below a folder as a trace.

    Its vote has people's labels; labels of the data set stand beside the file. Other JSON files of
    evaluations and training runs are no rows.
    """

    folder: Path
    said: str = ""  # what a person must know of all that was read, "" for nothing
    # Files that were read, by their path below the folder
    _read: dict[str, FileState] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)  # numbers; none is given twice

    def fits(self) -> bool:
        """Whether the folder still has no results; otherwise all is read anew."""
        return not (self.folder / RESULTS).exists()

    def news(self) -> News:
        """Yield the rows of new, changed and deleted files."""
        found: dict[str, FileState] = {}
        for path, named in sorted(json_files(self.folder)):
            with suppress(OSError):  # it has just gone
                status, file = path.stat(), path.relative_to(self.folder).as_posix()
                found[file] = status.st_mtime_ns, status.st_size, named
        for file in [file for file in self._read if file not in found]:
            del self._read[file]
            yield row_name(_key(file)), None
        labels_in = functools.cache(read_labels)  # after the traces: labels are written first
        for file, state in found.items():
            if self._read.get(file) != state:
                run = self._run(file, state[-1], labels_in)
                self._read[file] = state
                yield row_name(_key(file)), run
        empty = self._rows.keys().isdisjoint(found)
        self.said = words.EMPTY.format(encodable(str(self.folder))) if empty else ""

    def _run(
        self, file: str, named: bool, labels_in: Callable[[Path], Mapping[str, Verdict]]
    ) -> ListedRun | None:
        path, source, key = self.folder / file, one_line(file, MAX_SOURCE), _key(file)
        try:
            trace = load(path)
        except TraceError as error:
            return unreadable_run(key, self._row(file), str(error), source) if named else None
        labels = trace.vote.labels if trace.vote else Verdict()
        first, second = (clip.name if clip else "" for clip in trace.started.clips)
        pair = EvaluationPair(key, self._row(file), trace.started.prompt, first, second, labels)
        known = labels_in(path.parent).get(path.name)
        return listed_run(result_of(pair, trace, file), source, known)

    def _row(self, file: str) -> int:
        return self._rows.setdefault(file, len(self._rows) + 1)


def _key(file: str) -> str:
    return f"trace {file}"  # with a space, so that the row's name is a digest: a path is no name


@dataclass(slots=True)
class ListedRuns:
    """The folder of `--runs`; no path in a request is ever opened."""

    folder: Path
    _runs: dict[str, ListedRun] = field(default_factory=dict)
    _reader: ResultLines | TraceFiles | None = None
    _thread: threading.Thread | None = None
    _said: str = ""  # why the folder cannot be read
    _rest_until: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refresh(self, patience: float = 0.5) -> bool:
        """Read in a thread; return whether it ended within `patience` seconds."""
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
        """Return all rows that have been read."""
        with self._lock:
            return list(self._runs.values())

    def find(self, name: str) -> ListedRun | None:
        """Return the row of that name; None if there is none."""
        with self._lock:
            return self._runs.get(name)

    def find_now(self, name: str) -> ListedRun | None:
        """Like find(), but reads what is new if the row is unknown."""
        if name.startswith(ROW) and self.find(name) is None:
            self.refresh()
        return self.find(name)

    def trace(self, run: ListedRun) -> Trace:
        """Load its trace from the disk. Raises TraceError."""
        if not run.trace:
            raise TraceError(run.error or words.NO_TRACE)
        if ".." in PurePath(run.trace).parts or PurePath(run.trace).is_absolute():
            raise TraceError(words.LEFT_FOLDER)
        path = self.folder / run.trace
        if not path.is_file():
            raise TraceError(words.TRACE_GONE)
        return load(path)

    def videos(self, run: ListedRun) -> list[Path]:
        """Return files that may be its videos; their digests decide.

        A result's path may be relative to where `evaluate` was started, which then is this folder,
        one above it, or where the page was started. A trace holds no path: the name of a clip means
        a file beside the trace, or above it in this folder.
        """
        named = [path for path in run.videos if path]
        places = [Path(), self.folder, *self.folder.parents]
        if not isinstance(self._reader, ResultLines):
            named = [Path(path).name for path in named]
            above = (self.folder / run.trace).parents
            places = [place for place in above if place.is_relative_to(self.folder)]
        paths = dict.fromkeys(place / path for path in named for place in places)
        return [path for path in paths if path.is_file()]

    def _read(self) -> None:
        """Read in the thread, row by row."""
        began, said, reader = time.monotonic(), "", self._reader
        try:
            if not self.folder.is_dir():
                reader, said = None, words.NO_FOLDER.format(encodable(str(self.folder)))
            elif reader is None or not reader.fits():
                evaluated = (self.folder / RESULTS).exists()
                reader = ResultLines(self.folder) if evaluated else TraceFiles(self.folder)
            if reader is not self._reader:
                with self._lock:
                    self._runs.clear()
                    self._reader = reader
            for name, run in reader.news() if reader else ():
                with self._lock:
                    self._runs.pop(name, None)
                    if run is not None:
                        self._runs[name] = run
        except OSError as error:
            reason = error.strerror or type(error).__name__
            said = words.UNREADABLE.format(encodable(str(self.folder)), reason)
        except BadInput as bad:
            said = str(bad)
        self._said = said
        with self._lock:
            now = time.monotonic()
            self._rest_until = now + min(10.0, 4 * (now - began))  # 4 × as long as it took
            self._thread = None
