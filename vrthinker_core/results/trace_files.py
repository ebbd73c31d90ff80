"""The JSON files below a folder that may be traces."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.errors import type_adapter
from vrthinker_core.results.result import RESULTS, RUN
from vrthinker_core.storage import LineFile, whole_lines
from vrthinker_core.types import Verdict

LABELS = "labels.jsonl"  # beside the traces


@dataclass(frozen=True, slots=True)
class KnownLabels:
    """The labels of one trace's pair."""

    trace: str  # file name
    labels: Verdict


def add_labels(folder: Path, labels: Mapping[str, Verdict]) -> None:
    """Add a line for each trace (file name) with a known label. Raises `OSError`."""
    with LineFile(folder / LABELS) as file:
        for trace, known in labels.items():
            if known.labels:
                file.append(type_adapter(KnownLabels).dump_json(KnownLabels(trace, known)))


def read_labels(folder: Path) -> dict[str, Verdict]:
    """Return the labels by trace file; the last valid line wins."""
    from pydantic import ValidationError

    found: dict[str, Verdict] = {}
    with suppress(OSError):
        for line in whole_lines(folder / LABELS):
            with suppress(ValidationError):
                known = type_adapter(KnownLabels).validate_json(line)
                found[known.trace] = known.labels
    return found


CONFIG = "config.json"  # all figures of a training run, in its folder
STATE = "state.json"  # beside it: identity and progress of the run
CHECKPOINTS = "checkpoints"  # folder from which a stage resumes
RESULT = "checkpoint"  # the trained checkpoint of a finished stage, as a judge opens it
MADE = f"{RESULT}.part"  # the same until it is complete


def json_files(place: Path) -> Iterator[tuple[Path, bool]]:
    """Yield each JSON file below a folder, and whether to report non-traces.

    Files of evaluations and training runs are not reported, but no name is skipped: a person may
    have saved a trace under any name.
    """
    for folder, subfolders, names in os.walk(place):
        evaluation = {RUN, RESULTS} <= set(names)  # A ranking has these files, too
        training = {STATE, CONFIG} <= set(names)
        if training:
            subfolders[:] = [name for name in subfolders if name not in (RESULT, MADE, CHECKPOINTS)]
        for path in map(Path(folder).joinpath, names):
            if path.suffix == ".json" and path.is_file():
                yield path, not (evaluation or training)
