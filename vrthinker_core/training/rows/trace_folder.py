"""Traces from files and folders, each once, with the pair that an evaluation read."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result_file import RESULTS, TRACES, read_results
from vrthinker_core.results.run_file import RUN
from vrthinker_core.traces import load
from vrthinker_core.training.rows.teaching import TraceFile
from vrthinker_core.training.run.run_folder import CHECKPOINTS, RESULT, STATE


def read_traces(places: Sequence[Path], but: Path | None = None) -> Iterator[tuple[Path, TraceFile | TraceError]]:
    """Every trace, or why a file is none; a folder stands for every JSON file below it. `but` is not read.

    Of the folders that evaluations and trainings made, what else these keep as JSON is no trace and is not named.
    """
    pairs: dict[Path, EvaluationPair] = {}
    folders: set[Path] = set()
    for path in _files(places, but):
        folder = path.absolute().parent.parent
        if folder not in folders:
            folders.add(folder)
            pairs |= _judged_pairs(folder)
        try:
            yield path, TraceFile(path, load(path), pairs.get(path.absolute()))
        except TraceError as error:
            yield path, error


def _files(places: Sequence[Path], but: Path | None) -> Iterator[Path]:
    """The files to read, each once."""
    seen = {but.absolute()} if but else set()
    for place in places:
        for path in _traces_below(place):
            if path.absolute() not in seen:
                seen.add(path.absolute())
                yield path


def _traces_below(place: Path) -> list[Path]:
    """The JSON files of a folder; anything else is taken for a trace, and reading it says what it is."""
    try:
        return sorted(_json_files(place)) if place.is_dir() else [place]
    except OSError:
        return [place]


def _json_files(place: Path) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(place):
        if RUN in names and TRACES in subfolders:  # An evaluation, or a ranking
            subfolders[:], names = [TRACES], []
        elif STATE in names:  # A training
            subfolders[:], names = [name for name in subfolders if name not in (RESULT, CHECKPOINTS)], []
        yield from (path for path in map(Path(folder).joinpath, names) if path.suffix == ".json" and path.is_file())


def _judged_pairs(folder: Path) -> dict[Path, EvaluationPair]:
    """The pair of each trace of an evaluation in this folder; nothing where there is none."""
    try:
        results = list(read_results(folder / RESULTS)) if (folder / RESULTS).is_file() else []
    except BadInput:
        return {}
    return {folder / each.trace: each.pair for each in results if each.trace}
