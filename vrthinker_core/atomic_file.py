"""A file that is there whole or not at all, also after a crash."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUFFIX = ".part"  # How the names of files end that are still being written


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the place of `path` when the block ends without an exception.

    Its content is on the disk before it is renamed, so at every moment either the old or the new content is there. Raises OSError,
    and leaves no half file.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.", suffix=SUFFIX)
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def remove_parts(folder: Path) -> None:
    """Remove what killed processes left half written in `folder`. Raises OSError."""
    for part in folder.glob(f".*{SUFFIX}"):
        part.unlink(missing_ok=True)
