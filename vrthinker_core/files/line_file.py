"""A file that grows by whole lines.

A killed process leaves at most one partial line, which no reader takes.
"""

import os
from contextlib import AbstractContextManager
from pathlib import Path

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
        self._file.truncate(self._end_of_lines())

    @property
    def empty(self) -> bool:
        """Whether the file has no line yet."""
        return self._file.seek(0, os.SEEK_END) == 0

    def append(self, line: bytes, *, sync: bool = False) -> None:
        """Write a line and its line feed; with `sync`, flush all lines.

        Raises `OSError`, and then leaves nothing of the line.
        """
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

    def _end_of_lines(self) -> int:
        """Return how many bytes of the file are whole lines."""
        end = self._file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - BLOCK)
            self._file.seek(start)
            if (last := self._file.read(end - start).rfind(b"\n")) >= 0:
                return start + last + 1
            end = start
        return 0


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a file, without line feeds.

    A partial last line is left out. Raises `OSError`.
    """
    return path.read_bytes().split(b"\n")[:-1]
