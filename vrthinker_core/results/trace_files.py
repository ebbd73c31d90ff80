"""Which JSON files below a folder may be traces: all but what evaluations and trainings keep beside theirs."""

import os
from collections.abc import Iterator
from pathlib import Path

from vrthinker_core.results.result_file import RESULTS
from vrthinker_core.results.run_file import RUN

CONFIG = "config.json"  # In the folder of a training run: every figure of it
STATE = "state.json"  # Beside it: which run it is, and how far it has come
CHECKPOINTS = "checkpoints"  # Folder from which the stage goes on after a stop
RESULT = (
    "checkpoint"  # What the stage trained, once it is done: a checkpoint that the product opens
)
MADE = f"{RESULT}.part"  # The same, until it is whole


def json_files(place: Path) -> Iterator[tuple[Path, bool]]:
    """Every JSON file below a folder, and whether one that is no trace is to be named.

    Any name may be that of a trace that a person saved, also those that evaluations and trainings give to other files.
    """
    for folder, subfolders, names in os.walk(place):
        evaluation, training = (
            {RUN, RESULTS} <= set(names),
            {STATE, CONFIG} <= set(names),
        )  # A ranking is an evaluation, too
        if training:
            subfolders[:] = [name for name in subfolders if name not in (RESULT, MADE, CHECKPOINTS)]
        paths = map(Path(folder).joinpath, names)
        yield from (
            (path, not (evaluation or training))
            for path in paths
            if path.suffix == ".json" and path.is_file()
        )
