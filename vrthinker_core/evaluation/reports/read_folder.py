"""Reads the folder of an evaluation for its report."""

from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.result import PairResult
from vrthinker_core.results.result_file import RESULTS, final_results
from vrthinker_core.results.run_file import RUN, read_run


def read_folder(folder: Path) -> tuple[list[PairResult], str]:
    """The results, and the data set's name on the command line, "" where nothing says which it was.

    Raises BadInput for a folder that holds no results.
    """
    if not (folder / RESULTS).is_file():
        raise BadInput(f"{folder} holds no {RESULTS}. Give the folder that evaluate has written.")
    data_set = read_run(folder).dataset if (folder / RUN).exists() else ""
    return final_results(folder / RESULTS), data_set
