"""`outcomes.jsonl`: whose runs a teacher's are (first line), and what the filters said of each."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.storage import LineFile, remove_parts, whole_lines
from vrthinker_core.training.filters import Outcome

OUTCOMES = "outcomes.jsonl"
FORMAT = "vr-thinker-outcomes/1"
KEPT = " What is there already is kept."


class OutcomeFile(AbstractContextManager["OutcomeFile"]):
    """Appends outcomes to the file of a folder.

    What a killed process left of a line is cut off first. Each line is handed to the system at
    once, so it outlives this process.
    """

    def __init__(self, folder: Path, job: Mapping[str, Any], subfolder: str) -> None:
        """`job`: JSON values that say whose runs these are; `subfolder` is made for their files.

        Raises BadInput if the folder holds another job's outcomes or other files, or is read-only.
        """
        self._path = folder / OUTCOMES
        head = {"format": FORMAT, **json.loads(json.dumps(job))}
        with os_errors(f"Cannot write to {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            if not self._path.exists() and any(folder.iterdir()):
                raise BadInput(f"{folder} holds other files: name a new folder with --out.")
            (folder / subfolder).mkdir(exist_ok=True)
            remove_parts(folder / subfolder)
            lines = whole_lines(self._path) if self._path.exists() else []
            if lines:
                before = _head(lines, self._path, ": name a new folder with --out")
                if names := " and ".join(name for name in head if before.get(name) != head[name]):
                    raise BadInput(
                        f"{folder} holds runs with another value of {names}: name a new folder "
                        "with --out."
                    )
            self.outcomes = _outcomes(lines[1:], self._path)
            self._lines = LineFile(self._path)
            if self._lines.empty:
                self._write(head)

    def append(self, outcome: Outcome) -> None:
        """Add a line. Raises BadInput if the disk is full, and then leaves none of it."""
        self._write(asdict(outcome))

    def _write(self, values: Mapping[str, Any]) -> None:
        with os_errors(f"Cannot write {self._path}", KEPT):
            self._lines.append(json.dumps(values, ensure_ascii=False).encode())

    def __exit__(self, *_: object) -> None:
        self._lines.close()


def read_outcomes(folder: Path) -> list[Outcome]:
    """The outcomes by pair and sample; of several for one run the last one counts.

    Raises BadInput.
    """
    return _outcomes(_lines(folder)[1:], folder / OUTCOMES)


def read_job(folder: Path) -> dict[str, Any]:
    """Whose runs a folder holds: the values its first line says. Raises BadInput."""
    return _head(_lines(folder), folder / OUTCOMES)


def _lines(folder: Path) -> list[bytes]:
    with os_errors(f"{folder} holds no runs of a teacher"):
        return whole_lines(folder / OUTCOMES)


def _head(lines: list[bytes], path: Path, remedy: str = "") -> dict[str, Any]:
    try:
        head = json.loads(lines[0])
    except (ValueError, IndexError):
        head = None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise BadInput(f"{path} is no list of outcomes that is known here{remedy}.")
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
