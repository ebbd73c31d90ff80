"""`labels.jsonl`: the data set's labels for the traces in the same folder.

One line per trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.files.line_file import LineFile, whole_lines
from vrthinker_core.files.type_adapter import type_adapter
from vrthinker_core.types import Verdict

LABELS = "labels.jsonl"  # beside the traces


@dataclass(frozen=True, slots=True)
class KnownLabels:
    """The labels of one trace's pair."""

    trace: str  # file name
    labels: Verdict


def add_labels(folder: Path, labels: Mapping[str, Verdict]) -> None:
    """Add a line for each trace, keyed by file name.

    Skips traces without a known label. Raises `OSError`.
    """
    with LineFile(folder / LABELS) as file:
        for trace, known in labels.items():
            if known.labels:
                file.append(type_adapter(KnownLabels).dump_json(KnownLabels(trace, known)))


def read_labels(folder: Path) -> dict[str, Verdict]:
    """Return the labels by trace file; the last valid line wins."""
    from pydantic import ValidationError

    found: dict[str, Verdict] = {}
    try:
        lines = whole_lines(folder / LABELS)
    except OSError:
        return {}
    for line in lines:
        try:
            known = type_adapter(KnownLabels).validate_json(line)
        except ValidationError:
            continue
        found[known.trace] = known.labels
    return found
