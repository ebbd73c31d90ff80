"""`labels.jsonl`: the labels that a data set gives the pairs of the traces in the same folder, a line for each trace."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vrthinker_core.files.line_file import LineFile, whole_lines
from vrthinker_core.files.type_adapter import type_adapter
from vrthinker_core.types import Verdict

LABELS = "labels.jsonl"  # Beside the traces


@dataclass(frozen=True, slots=True)
class KnownLabels:
    """The labels of one trace's pair."""

    trace: str  # The file's name
    labels: Verdict


def add_labels(folder: Path, labels: Mapping[str, Verdict]) -> None:
    """Add a line for each trace, by its file's name; where no label is known, none. Raises OSError."""
    with LineFile(folder / LABELS) as file:
        for trace, known in labels.items():
            if known.labels:
                file.append(type_adapter(KnownLabels).dump_json(KnownLabels(trace, known)))


def read_labels(folder: Path) -> dict[str, Verdict]:
    """The labels by the trace's file; of several lines the last one counts. A line of anything else is passed over."""
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
