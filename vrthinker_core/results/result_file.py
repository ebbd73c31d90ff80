"""`results.jsonl`: a line for each pair as soon as it is judged. A killed process leaves at most one line that is not whole."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from vrthinker_core.errors import BadInput
from vrthinker_core.results.result import PairResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RESULTS = "results.jsonl"  # In the folder of an evaluation
TRACES = "traces"  # Folder beside it


@functools.cache
def _adapter() -> "TypeAdapter[PairResult]":
    from pydantic import TypeAdapter

    return TypeAdapter(PairResult)


def to_line(result: PairResult) -> bytes:
    """One line of JSON, with its end."""
    return _adapter().dump_json(result) + b"\n"


def read_results(path: Path) -> Iterator[PairResult]:
    """The results of a file, in the order in which they came. A last line that is not whole is left out.

    Raises BadInput for a file that cannot be read, or that holds anything else.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield _result(line, f"Line {number} of {path.name}")
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None


def _result(line: bytes, where: str) -> PairResult:
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadInput(f"{where} is no result of an evaluation: {first['msg']}.") from None


class ResultFile:
    """Appends results, each flushed to the disk before the next one. What a killed process left of a line is cut off first."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab+")
        self._file.seek(0)
        whole = self._file.read().rfind(b"\n") + 1
        self._file.truncate(whole)

    def append(self, result: PairResult) -> None:
        """Write one line."""
        self._file.write(to_line(result))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()
