"""Atomic files, locked folders, and the cleanup after killed processes."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vrthinker_core.errors import BadInput

if sys.platform != "win32":
    import fcntl

PREFIX, SUFFIX = ".vr-thinker.", ".part"  # Around names of unfinished files


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` if the block succeeds.

    The content is flushed to disk before the rename, so `path` always holds either the old or the
    new content. Raises `OSError`, and leaves no half-written file.
    """
    part, lock = _owned(lambda: _new_file(path))
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
    """Write a file whole or not at all.

    Raises `OSError`, and leaves no half-written file.
    """
    with atomic_path(path) as part:
        part.write_bytes(data)


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
    """Lock a folder until the block ends or the process dies.

    A file system without locks keeps nobody out. Raises `BadInput` if another process holds the
    lock.
    """
    handle = (
        os.open(out, os.O_RDONLY) if sys.platform != "win32" else os.open(os.devnull, os.O_RDONLY)
    )
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
        yield
    finally:
        os.close(handle)


def remove_parts(folder: Path) -> None:
    """Remove half-written files of killed processes, but no unfinished file in use."""
    remove_abandoned(folder, f"{PREFIX}*{SUFFIX}")


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove our own files and folders that no living process owns.

    `pattern` is a glob. A folder that cannot be listed is skipped.
    """
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


def _new_file(path: Path) -> Path:
    """Make an empty file beside `path`, with the default permissions.

    `mkstemp` would let nobody else read the file.
    """
    start = os.fsencode(path.name)[:60].decode(errors="ignore")  # A file name has at most 255 bytes
    part = path.parent / f"{PREFIX}{start}.{os.urandom(8).hex()}{SUFFIX}"
    part.touch(exist_ok=False)
    return part
