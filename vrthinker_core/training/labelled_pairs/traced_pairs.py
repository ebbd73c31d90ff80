"""Labelled pairs from a folder of traces: a person's labels, and the judge's where no person gave any."""

from collections.abc import Sequence
from pathlib import Path

from vrthinker_core.errors import TraceError
from vrthinker_core.results.datasets.layout import TableRow, existing_file, make_pairs
from vrthinker_core.results.datasets.pair_csv import LAYOUT
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.training.rows.make_rows import trace_videos
from vrthinker_core.training.rows.teaching import (
    KnownLabel,
    NotForTraining,
    TraceFile,
    known_labels,
)
from vrthinker_core.training.rows.trace_folder import read_traces
from vrthinker_core.types import Dimension

Known = dict[Dimension, KnownLabel]


def read_traced_pairs(folder: Path) -> list[EvaluationPair]:
    """The pairs of all traces below a folder. Runs of one pair count together; a file that is no trace is left out.

    A dimension in which the runs of a judge contradict one another, and of which no person says anything, has no label.
    """
    found: dict[tuple[str, str, str], list[Known]] = {}
    for _, file in read_traces([folder]):
        if isinstance(file, TraceError):
            continue
        try:
            key = (file.trace.started.prompt, *_paths(file))
        except NotForTraining:
            continue  # a run without its videos says nothing of them
        found.setdefault(key, []).append(known_labels(file))
    rows = [
        _table_row(number, key, known) for number, (key, known) in enumerate(found.items(), start=1)
    ]
    return make_pairs(rows, LAYOUT, lambda name: existing_file(Path(), name))


def agreed_labels(known: Sequence[Known]) -> dict[Dimension, int]:
    """The labels of a pair from several runs: people's before judges', and none where those who count differ."""
    labels: dict[Dimension, int] = {}
    for dimension in Dimension:
        told = [each[dimension] for each in known if dimension in each]
        counted = [label for label in told if label.source == "person"] or told
        if len({label.label for label in counted}) == 1:
            labels[dimension] = int(counted[0].label)
    return labels


def _paths(file: TraceFile) -> tuple[str, str]:
    first, second = (str(video["path"]) for video in trace_videos(file, file.trace))
    return first, second


def _table_row(number: int, key: tuple[str, str, str], known: Sequence[Known]) -> TableRow:
    prompt, first, second = key
    labels = {dimension.value: str(label) for dimension, label in agreed_labels(known).items()}
    return TableRow(number, {"prompt": prompt, "video1": first, "video2": second} | labels)
