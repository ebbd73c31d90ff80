"""A file that is there whole or not at all, also after a crash; a folder that one process writes; what killed processes leave."""

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

PREFIX, SUFFIX = ".vr-thinker.", ".part"  # around the names of files that are still being written


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the place of `path` when the block ends without an exception.

    Its content is on the disk before it is renamed, so at every moment either the old or the new content is there. Raises OSError,
    and leaves no half file.
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
    """Write a file whole. Raises OSError, and leaves no half file."""
    with atomic_path(path) as part:
        part.write_bytes(data)


@contextmanager
def owned_folder(prefix: str) -> Iterator[Path]:
    """A new temporary folder, removed at the end; first, those of that prefix whose process was killed. Raises OSError."""
    remove_abandoned(Path(tempfile.gettempdir()), f"{prefix}*")
    folder, lock = _owned(lambda: Path(tempfile.mkdtemp(prefix=prefix)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


@contextmanager
def hold_folder(out: Path) -> Iterator[None]:
    """The lock of a folder, until the block ends or the process dies. A file system without locks holds nobody off.

    Raises BadInput where another process holds it.
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
    """Remove what killed processes left half written in `folder`, and nothing that is being written."""
    remove_abandoned(folder, f"{PREFIX}*{SUFFIX}")


def remove_abandoned(folder: Path, pattern: str) -> None:
    """Remove our own files and folders of that pattern that no living process owns, as far as the folder can be listed."""
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
    """What `make` makes, and a handle that owns it until it is closed or the process dies, however that comes about.

    Whoever removes what is abandoned may have been quicker than the lock; then there is another try.
    """
    while sys.platform != "win32":
        path = make()
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY)
            with suppress(
                OSError
            ):  # where a file system has no locks, nothing on it is ever taken for abandoned
                fcntl.flock(lock, fcntl.LOCK_EX)
            if path.exists():
                return path, lock
            os.close(lock)
    return make(), os.open(os.devnull, os.O_RDONLY)


def _new_file(path: Path) -> Path:
    """An empty file beside `path`, with the permissions of any new file: those of `mkstemp` let nobody else read."""
    start = os.fsencode(path.name)[:60].decode(errors="ignore")  # a name may have 255 bytes
    part = path.parent / f"{PREFIX}{start}.{os.urandom(8).hex()}{SUFFIX}"
    part.touch(exist_ok=False)
    return part
