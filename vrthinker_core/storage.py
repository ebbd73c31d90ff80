"""Atomic files, locked folders, and the cleanup after killed processes."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from vrthinker_core.errors import BadInput

if sys.platform != "win32":
    import fcntl

BLOCK = 2**16  # Bytes per read in the search for the end of the last whole line


class LineFile(AbstractContextManager["LineFile"]):
    """An append-only file of lines.

    Opening the file cuts off the partial line of a killed process. Each line is handed to the
    system at once, so the line outlives this process. Lines that were flushed to disk outlive the
    machine.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file, or raise `OSError`."""
        self._file = path.open("ab+", buffering=0)
        end = self._file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - BLOCK)
            self._file.seek(start)
            if (last := self._file.read(end - start).rfind(b"\n")) >= 0:
                end = start + last + 1
                break
            end = start
        self._file.truncate(end)

    @property
    def empty(self) -> bool:
        """Whether the file has no line yet."""
        return self._file.seek(0, os.SEEK_END) == 0

    def append(self, line: bytes, *, sync: bool = False) -> None:
        """Write a line whole, or raise `OSError` and write none. `sync` flushes all lines."""
        end, rest = self._file.seek(0, os.SEEK_END), line + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            if sync:
                self.sync()
        except OSError:
            self._file.truncate(end)
            raise

    def keep(self, count: int) -> None:
        """Cut off all lines after the first `count`, or raise `OSError`."""
        self._file.seek(0)
        self._file.truncate(sum(len(line) + 1 for line in self._file.read().split(b"\n")[:count]))

    def sync(self) -> None:
        """Flush all lines to disk, or raise `OSError`."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file. May be called again."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def whole_lines(path: Path) -> list[bytes]:
    """Return the whole lines of a file, without line feeds. Raises `OSError`."""
    return path.read_bytes().split(b"\n")[:-1]


PREFIX, SUFFIX = ".vr-thinker.", ".part"  # Around names of unfinished files


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` if the block succeeds.

    The content is flushed to disk before the rename, so `path` always holds either the old or the
    new content. Raises `OSError`, and leaves no half-written file.
    """

    def new_file() -> Path:  # `mkstemp` would let nobody else read the file
        start = os.fsencode(path.name)[:60].decode(errors="ignore")  # A name has at most 255 bytes
        part = path.parent / f"{PREFIX}{start}.{os.urandom(8).hex()}{SUFFIX}"
        part.touch(exist_ok=False)
        return part

    part, lock = _owned(new_file)
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; raises `OSError`."""
    with atomic_path(path) as part:
        part.write_bytes(data)


def link_or_copy(file: Path, place: Path, may_link: bool = True) -> None:
    """Link or copy a file to `place`, unless one is there. Raises OSError."""
    if may_link:
        with suppress(OSError):  # one is there, or it is another disk
            os.link(file, place)
    if not place.is_file():
        with atomic_path(place) as part:
            shutil.copyfile(file, part)


def usable_folder(chosen: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the `chosen` folder for runs, else the first writable one, or None."""
    folders, space_disk = list[Path](), Path("/data")
    if environment.get("SPACE_ID") and space_disk.is_dir():
        folders.append(space_disk / "vr-thinker-runs")
    cache = environment.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    if cache or environment.get("HOME") or sys.platform == "win32":
        folders.append(Path(cache or Path.home() / ".cache") / "vr-thinker" / "runs")
    for folder in [chosen] if chosen else folders:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


@contextmanager
def owned_folder(prefix: str) -> Iterator[Path]:
    """Yield a new temporary folder; remove it at the end.

    First removes the folders with this prefix whose process was killed. Raises `OSError`.
    """
    remove_abandoned(Path(tempfile.gettempdir()), f"{prefix}*")
    folder, lock = _owned(lambda: Path(tempfile.mkdtemp(prefix=prefix)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def hold_folder(out: Path) -> Iterator[None]:
    """Make a folder and lock it until the block ends or the process dies.

    Removes half-written files of killed processes. A file system without locks keeps nobody out.
    Raises `BadInput` if another process holds the lock.
    """
    out.mkdir(parents=True, exist_ok=True)
    handle = os.open(out if sys.platform != "win32" else os.devnull, os.O_RDONLY)
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise BadInput(
            f"Another process is writing to {out}: wait for it, or name another folder with --out."
        ) from None
    except OSError:
        pass
    try:
        remove_parts(out)
        yield
    finally:
        os.close(handle)


def remove_parts(folder: Path) -> None:
    """Remove half-written files of killed processes, but no unfinished file in use."""
    remove_abandoned(folder, f"{PREFIX}*{SUFFIX}")


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove our files and folders of a glob without a living owner."""
    found: list[Path] = []
    with suppress(OSError):
        found = list(folder.glob(pattern)) if sys.platform != "win32" else []
    for path in found:
        with suppress(OSError):
            if path.is_symlink() or path.lstat().st_uid != os.getuid():
                continue
            lock = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            finally:
                os.close(lock)


def _owned(make: Callable[[], Path]) -> tuple[Path, int]:
    """Return what `make` made, and a handle that owns it.

    The ownership ends when the handle is closed or the process dies, in whatever way.
    `remove_abandoned` may delete the new path before the lock is taken: then `make` is called
    again.
    """
    while sys.platform != "win32":
        path = make()
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY)
            with suppress(OSError):  # Without locks nothing ever counts as abandoned
                fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return path, lock
            os.close(lock)
    return make(), os.open(os.devnull, os.O_RDONLY)
