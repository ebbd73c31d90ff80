"""The JSON files below a folder that may be traces."""

import os
from collections.abc import Iterator
from pathlib import Path

from vrthinker_core.results.result_file import RESULTS
from vrthinker_core.results.run_file import RUN

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
        # A ranking has the files of an evaluation, too.
        evaluation, training = (
            {RUN, RESULTS} <= set(names),
            {STATE, CONFIG} <= set(names),
        )
        if training:
            subfolders[:] = [name for name in subfolders if name not in (RESULT, MADE, CHECKPOINTS)]
        paths = map(Path(folder).joinpath, names)
        yield from (
            (path, not (evaluation or training))
            for path in paths
            if path.suffix == ".json" and path.is_file()
        )
