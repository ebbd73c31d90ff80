"""Reads the folder of an evaluation for its report."""

import json
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.result import PairResult
from vrthinker_core.results.result_file import RESULTS, read_results

RUN = "run.json"  # Beside the results: what was judged


def read_folder(folder: Path) -> tuple[list[PairResult], str]:
    """The results, of several for one pair the last one, and the data set's name on the command line, "" where that is not known.

    Raises BadInput for a folder that holds no results.
    """
    if not (folder / RESULTS).is_file():
        raise BadInput(f"{folder} holds no {RESULTS}. Give the folder that evaluate has written.")
    results = {result.pair.id: result for result in read_results(folder / RESULTS)}
    return list(results.values()), _data_set(folder / RUN)


def _data_set(path: Path) -> str:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    name = found.get("dataset") if isinstance(found, dict) else None
    return name if isinstance(name, str) else ""
