"""`results.jsonl`: a line for each pair as soon as it is judged.

A killed process leaves at most one incomplete line.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from vrthinker_core.errors import BadInput
from vrthinker_core.files.line_file import LineFile
from vrthinker_core.files.type_adapter import type_adapter
from vrthinker_core.results.result import PairResult

RESULTS = "results.jsonl"  # in the folder of an evaluation
TRACES = "traces"  # folder beside it
SYNC_SECONDS = 0.5  # between two flushes to the disk, while results come


def to_line(result: PairResult) -> bytes:
    """Return one line of JSON with its newline."""
    return type_adapter(PairResult).dump_json(result) + b"\n"


def read_results(path: Path) -> Iterator[PairResult]:
    """Yield the results of a file in file order.

    Skips an incomplete last line. Raises `BadInput` if the file cannot be read, or if a line is no
    result.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield read_line(line, f"Line {number} of {path.name}")
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None


def final_results(path: Path) -> list[PairResult]:
    """Return final results in row order; the last line per pair wins."""
    found = {result.pair.id: result for result in read_results(path)}
    return sorted(found.values(), key=lambda result: (result.pair.row, result.pair.id))


def read_line(line: bytes, where: str) -> PairResult:
    """Parse a line; raises `BadInput`, its sentence beginning with `where`."""
    from pydantic import ValidationError

    try:
        return type_adapter(PairResult).validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadInput(f"{where} is no result of an evaluation: {first['msg']}.") from None


class ResultFile:
    """Appender of results, which first cuts off an incomplete last line.

    Each line goes to the operating system at once, so it survives a kill of this process. Twice a
    second the file is flushed to the disk, to survive a crash of the machine. Lost results are
    judged again.
    """

    def __init__(self, path: Path) -> None:
        self._lines = LineFile(path)
        self._synced_at = time.monotonic()

    def append(self, result: PairResult) -> None:
        """Write one line whole, or raise `OSError` and write none."""
        due = time.monotonic() - self._synced_at >= SYNC_SECONDS
        self._lines.append(to_line(result).removesuffix(b"\n"), sync=due)
        if due:
            self._synced_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush to the disk and close; raises `OSError`."""
        with self._lines:
            self._lines.sync()
