"""A file that grows by whole lines. A killed process leaves at most one line that is not whole, and nobody reads that one."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

BLOCK = 2**16  # Bytes that are read at a time, to find the end of the last whole line


class LineFile(AbstractContextManager["LineFile"]):
    """Appends lines. What a killed process left of a line is cut off first.

    Each line is handed to the system at once, so it outlives this process; what was flushed to the disk outlives the machine.
    """

    def __init__(self, path: Path) -> None:
        """The file is made where there is none. Raises OSError."""
        self._file = path.open("ab+", buffering=0)
        self._file.truncate(self._end_of_lines())

    @property
    def empty(self) -> bool:
        """There is no line yet."""
        return self._file.seek(0, os.SEEK_END) == 0

    def append(self, line: bytes, *, sync: bool = False) -> None:
        """Write a line, and its end; with `sync`, flush all lines to the disk. Raises OSError, and then leaves none of it."""
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
        """Cut off all lines but the first ones. Raises OSError."""
        self._file.seek(0)
        self._file.truncate(sum(len(line) + 1 for line in self._file.read().split(b"\n")[:count]))

    def sync(self) -> None:
        """Flush all lines to the disk. Raises OSError."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file. May be called again."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_of_lines(self) -> int:
        """How many bytes of the file are whole lines."""
        end = self._file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - BLOCK)
            self._file.seek(start)
            if (last := self._file.read(end - start).rfind(b"\n")) >= 0:
                return start + last + 1
            end = start
        return 0


def whole_lines(path: Path) -> list[bytes]:
    """The lines of a file without their ends; a last one that is not whole is left out. Raises OSError."""
    return path.read_bytes().split(b"\n")[:-1]
