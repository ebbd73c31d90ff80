"""`outcomes.jsonl`: which runs a teacher has made, and what the filters said of each. Its first line says whose runs they are."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.storage import LineFile, remove_parts, whole_lines
from vrthinker_core.training.filters import Outcome

OUTCOMES = "outcomes.jsonl"
FORMAT = "vr-thinker-outcomes/1"


class OutcomeFile(AbstractContextManager["OutcomeFile"]):
    """Appends outcomes to the file of a folder. What a killed process left of a line is cut off first.

    Each line is handed to the system at once, so it outlives this process.
    """

    def __init__(self, folder: Path, job: Mapping[str, Any], subfolder: str) -> None:
        """`job`: plain JSON values that say whose runs these are; `subfolder` is made for what belongs to them.

        Raises BadInput where the folder holds the outcomes of another job, holds anything else, or cannot be written.
        """
        self._path = folder / OUTCOMES
        head = {"format": FORMAT, **json.loads(json.dumps(job))}
        try:
            _prepare(folder, subfolder)
            self.outcomes = (
                _checked(whole_lines(self._path), head, folder) if self._path.exists() else []
            )
            self._lines = LineFile(self._path)
            if self._lines.empty:
                self._write(head)
        except OSError as error:
            raise BadInput(f"Cannot write to {folder}: {error.strerror or error}.") from None

    def append(self, outcome: Outcome) -> None:
        """Add a line. Raises BadInput where the disk is full, and then leaves none of it."""
        self._write(asdict(outcome))

    def _write(self, values: Mapping[str, Any]) -> None:
        try:
            self._lines.append(json.dumps(values, ensure_ascii=False).encode())
        except OSError as error:
            raise BadInput(
                f"Cannot write {self._path}: {error.strerror or error}. What is there already is kept."
            ) from None

    def __exit__(self, *_: object) -> None:
        self._lines.close()


def read_outcomes(folder: Path) -> list[Outcome]:
    """The outcomes in the order of pairs and samples; of several for one run the last one counts. Raises BadInput."""
    path = folder / OUTCOMES
    try:
        lines = whole_lines(path)
    except OSError as error:
        raise BadInput(f"{folder} holds no runs of a teacher: {error.strerror or error}.") from None
    return _outcomes(lines[1:], path)


def read_job(folder: Path) -> dict[str, Any]:
    """Whose runs a folder holds: the values its first line says. Raises BadInput."""
    try:
        head = json.loads(whole_lines(folder / OUTCOMES)[0])
    except OSError as error:
        raise BadInput(f"{folder} holds no runs of a teacher: {error.strerror or error}.") from None
    except (ValueError, IndexError):
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise BadInput(f"{folder / OUTCOMES} is no list of outcomes that is known here.")
    return head


def _outcomes(lines: list[bytes], path: Path) -> list[Outcome]:
    found: dict[tuple[int, int], Outcome] = {}
    for number, line in enumerate(lines, start=2):
        try:
            outcome = Outcome(**json.loads(line))
        except (ValueError, TypeError):
            raise BadInput(f"Line {number} of {path} is no outcome of a run.") from None
        found[outcome.pair, outcome.sample] = outcome
    return [found[key] for key in sorted(found)]


def _checked(lines: list[bytes], head: Mapping[str, Any], folder: Path) -> list[Outcome]:
    """The outcomes that are there. Raises BadInput where they are of another job."""
    if not lines:
        return []
    try:
        before = json.loads(lines[0])
    except ValueError:
        before = None
    if not isinstance(before, dict) or before.get("format") != FORMAT:
        raise BadInput(
            f"{folder / OUTCOMES} is no list of outcomes that is known here: name a new folder with --out."
        )
    if different := [name for name in head if before.get(name) != head[name]]:
        names = " and ".join(different)
        raise BadInput(
            f"{folder} holds runs with another value of {names}: name a new folder with --out."
        )
    return _outcomes(lines[1:], folder / OUTCOMES)


def _prepare(folder: Path, subfolder: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / OUTCOMES).exists() and any(folder.iterdir()):
        raise BadInput(f"{folder} holds other files: name a new folder with --out.")
    (folder / subfolder).mkdir(exist_ok=True)
    remove_parts(folder / subfolder)
