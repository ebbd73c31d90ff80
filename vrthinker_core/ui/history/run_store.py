"""The run store: runs on disk with their traces and videos, up to an age and a number of bytes. Servers may share its folder.

A run is there once its record is: that is written last and removed first. Whatever no record names is what a killed server left.
"""

import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import TraceError
from vrthinker_core.storage import atomic_path, remove_parts, write_atomically
from vrthinker_core.traces import load, to_json
from vrthinker_core.types.events import Trace
from vrthinker_core.ui.history import history_words
from vrthinker_core.ui.history.run_record import NAME, VIDEO, RunRecord, read_record, record_json
from vrthinker_core.video.files import file_digest

if sys.platform != "win32":
    import fcntl

MAX_BYTES = 4 * 10**9
MAX_RUNS = 5000
KEEP_SECONDS = 24 * 3600.0

IsOurs = Callable[[Path], bool]


def nobodys(_path: Path) -> bool:
    """No file is the server's own."""
    return False


class RunStore:
    """At most `max_bytes` bytes and `MAX_RUNS` runs in `folder`, the oldest of which go first; each is kept for `keep_seconds`.

    Each video is kept once, by its content: linked where `is_ours` says that nobody else writes to the file, copied otherwise.
    Calls from several threads and processes are safe.
    """

    def __init__(
        self,
        folder: Path,
        max_bytes: int = MAX_BYTES,
        keep_seconds: float = KEEP_SECONDS,
        is_ours: IsOurs = nobodys,
    ) -> None:
        """Opens the folder, or makes it. Raises OSError."""
        self.keep_seconds = keep_seconds
        self._max_bytes = max_bytes
        self._is_ours = is_ours
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folders = self._records, self._traces, self._videos = [
            folder / name for name in ("records", "traces", "videos")
        ]
        for each in self._folders:
            each.mkdir(exist_ok=True)
        self._known: dict[
            str, tuple[int, RunRecord | None]
        ] = {}  # by name: when the file was written, and what it says
        self._lock = threading.RLock()
        self._depth = 0
        self._is_locked = False
        self.sweep()

    def put(
        self,
        name: str,
        record: RunRecord,
        trace: Trace,
        videos: Sequence[Path] = (),
        *,
        again: bool = False,
    ) -> RunRecord | None:
        """Keep a run; the record as it is kept, with the names of those videos that are. Raises OSError.

        With `again` a kept run is replaced; None where it has been deleted meanwhile.
        """
        data, digests = (
            to_json(trace),
            [(file_digest(path), path) for path in videos if self._fits(path)],
        )
        with self._locked():
            if again and self.get(name) is None:
                return None
            names = tuple(
                kept for digest, path in digests if (kept := self._keep_video(digest, path))
            )
            record = replace(record, videos=names) if names else record
            write_atomically(self._traces / f"{name}.json", data)
            write_atomically(self._records / f"{name}.json", record_json(record))
            if not again:  # one that grows is counted by the next sweep
                self._drop_oldest()
        return record

    def records(self) -> dict[str, RunRecord]:
        """All runs that are kept, by name; the oldest is the first."""
        now = time.time()
        return {name: record for name, record in self._read_all().items() if record.until > now}

    def _read_all(self) -> dict[str, RunRecord]:
        """Every record that can be read, also of runs that are too old. A file is read again only when it has changed."""
        found = {}
        with self._lock:
            for path in self._records.glob("*.json"):
                with suppress(OSError):
                    written = path.stat().st_mtime_ns
                    known = self._known.get(path.stem)
                    found[path.stem] = (
                        known if known and known[0] == written else (written, read_record(path))
                    )
            self._known = found
        runs = {
            name: record for name, (_, record) in found.items() if NAME.fullmatch(name) and record
        }
        return dict(sorted(runs.items(), key=lambda item: item[1].begun))

    def get(self, name: str) -> RunRecord | None:
        """The record of that run; None when there is none (any more)."""
        record = read_record(self._records / f"{name}.json") if NAME.fullmatch(name) else None
        return record if record and record.until > time.time() else None

    def trace(self, name: str) -> Trace:
        """The trace of that run. Raises TraceError when there is none (any more), or what is there is damaged."""
        if self.get(name) is None:
            raise TraceError(history_words.NO_SUCH_RUN)
        return load(self._traces / f"{name}.json")

    def videos(self, record: RunRecord) -> list[Path]:
        """The kept files of the videos that it compared, those that are there."""
        return [path for name in record.videos if (path := self._videos / name).is_file()]

    def remove(self, names: Collection[str]) -> None:
        """Remove these runs, and the links to them."""
        with self._locked():
            runs = self.records()
            gone = {name for name in runs if name in names or runs[name].origin in names}
            self._remove(gone, runs)

    def sweep(self) -> None:
        """Remove runs that are too old, damaged records of that age, and what servers left that were killed."""
        with self._locked():
            for folder in self._folders:
                remove_parts(folder)
            runs = self._read_all()
            self._remove(runs.keys() - self.records().keys(), runs)
            if self._is_locked:
                self._remove_unnamed(runs)
            self._drop_oldest()

    def _remove_unnamed(self, runs: dict[str, RunRecord]) -> None:
        """What no record names. A damaged record goes with its trace when it is as old as runs get."""
        for path in self._records.glob("*.json"):
            with suppress(OSError):
                if path.stem not in runs and path.stat().st_mtime < time.time() - self.keep_seconds:
                    path.unlink()
        named = {path.name for path in self._records.glob("*.json")}
        for path in self._traces.glob("*.json"):
            if path.name not in named:
                _unlink(path)
        videos = {name for record in runs.values() for name in record.videos}
        for path in self._videos.iterdir():
            if VIDEO.fullmatch(path.name) and path.name not in videos:
                _unlink(path)

    def _fits(self, path: Path) -> bool:
        """A video of more than half of all bytes there may be is not even read."""
        with suppress(OSError):
            return path.stat().st_size <= self._max_bytes // 2
        return False

    def _keep_video(self, digest: str, path: Path) -> str:
        """The name under which a video is kept now; "" where it cannot be."""
        name = digest + (
            path.suffix.lower() if re.fullmatch(r"\.[a-z0-9]{1,8}", path.suffix.lower()) else ""
        )
        kept = self._videos / name
        with suppress(OSError):
            if kept.is_file():
                return name
            if not digest:
                return ""
            if self._is_ours(path):
                with suppress(OSError):  # another disk
                    os.link(path, kept)
                    return name
            with atomic_path(kept) as part:
                shutil.copyfile(path, part)
            return name
        return ""

    def _drop_oldest(self) -> None:
        runs = self.records()
        while runs and (len(runs) > MAX_RUNS or self._bytes() > self._max_bytes):
            oldest = next(iter(runs))
            self._remove({oldest}, runs)

    def _remove(self, names: Collection[str], runs: dict[str, RunRecord]) -> None:
        """Remove these runs, which are then no more among `runs`, and the videos that no other one compared."""
        videos = {video for name in names for video in runs.pop(name).videos}
        for name in names:
            _unlink(self._records / f"{name}.json")
            _unlink(self._traces / f"{name}.json")
        for video in videos - {video for record in runs.values() for video in record.videos}:
            _unlink(self._videos / video)

    def _bytes(self) -> int:
        total = 0
        for folder in self._folders:
            for path in folder.iterdir():
                with suppress(OSError):
                    total += path.stat().st_size
        return total

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone in the folder, as far as its file system has locks."""
        with self._lock:
            if self._depth:
                yield
                return
            self._depth += 1
            lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                self._is_locked = _take(lock)
                yield
            finally:
                self._depth -= 1
                self._is_locked = False
                os.close(lock)


def _take(lock: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        return False
    return True


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
