"""`results.jsonl`: a line for each pair as soon as it is judged. A killed process leaves at most one line that is not whole."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from vrthinker_core.errors import BadInput
from vrthinker_core.files.line_file import LineFile
from vrthinker_core.files.type_adapter import type_adapter
from vrthinker_core.results.result import PairResult

RESULTS = "results.jsonl"  # In the folder of an evaluation
TRACES = "traces"  # Folder beside it
SYNC_SECONDS = 0.5  # at most between two flushes to the disk, as long as results come


def to_line(result: PairResult) -> bytes:
    """One line of JSON, with its end."""
    return type_adapter(PairResult).dump_json(result) + b"\n"


def read_results(path: Path) -> Iterator[PairResult]:
    """Every line of a file, in the order in which they came. A last line that is not whole is left out.

    Raises BadInput for a file that cannot be read, or that holds anything else.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield read_line(line, f"Line {number} of {path.name}")
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None


def final_results(path: Path) -> list[PairResult]:
    """The result of each pair, in the order of the data set's rows: of several lines the last one counts. Raises BadInput."""
    found = {result.pair.id: result for result in read_results(path)}
    return sorted(found.values(), key=lambda result: (result.pair.row, result.pair.id))


def read_line(line: bytes, where: str) -> PairResult:
    """The result in a line; `where` is how the sentence of a BadInput begins."""
    from pydantic import ValidationError

    try:
        return type_adapter(PairResult).validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadInput(f"{where} is no result of an evaluation: {first['msg']}.") from None


class ResultFile:
    """Appends results. What a killed process left of a line is cut off first.

    Each line is handed to the system at once, so it outlives this process; twice a second it is flushed to the disk, to outlive the
    machine. What is lost there is judged again.
    """

    def __init__(self, path: Path) -> None:
        self._lines = LineFile(path)
        self._synced_at = time.monotonic()

    def append(self, result: PairResult) -> None:
        """Write one line. Raises OSError, and then leaves none of it."""
        due = time.monotonic() - self._synced_at >= SYNC_SECONDS
        self._lines.append(to_line(result).removesuffix(b"\n"), sync=due)
        if due:
            self._synced_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Flush what there is to the disk, and end. Raises OSError."""
        with self._lines:
            self._lines.sync()
