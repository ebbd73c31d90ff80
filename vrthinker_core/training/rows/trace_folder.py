"""Traces from files and folders, each once, with the pair that an evaluation or a teacher was given."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result import RESULTS, read_results
from vrthinker_core.results.trace_files import json_files
from vrthinker_core.traces import load
from vrthinker_core.training.rows.filters import Outcome
from vrthinker_core.training.rows.outcome_file import OUTCOMES, read_outcomes
from vrthinker_core.training.rows.teaching import TraceFile
from vrthinker_core.types import Preference, Verdict


def read_traces(
    places: Sequence[Path], but: Path | None = None
) -> Iterator[tuple[Path, TraceFile | TraceError]]:
    """Every trace, or why a file is none; a folder stands for every JSON file below it. `but` is not read.

    What else evaluations and trainings keep as JSON in their folders is no trace and is not named.
    """
    pairs: dict[Path, EvaluationPair] = {}
    folders: set[Path] = set()
    for path, named in _files(places, but):
        folder = path.absolute().parent.parent
        if folder not in folders:
            folders.add(folder)
            pairs |= _judged_pairs(folder) | _taught_pairs(folder)
        try:
            yield path, TraceFile(path, load(path), pairs.get(path.absolute()))
        except TraceError as error:
            if named:
                yield path, error


def _files(places: Sequence[Path], but: Path | None) -> Iterator[tuple[Path, bool]]:
    """The files to read, each once, and whether one that is no trace is named."""
    seen = {but.absolute()} if but else set()
    for place in places:
        for path, named in _traces_below(place):
            if path.absolute() not in seen:
                seen.add(path.absolute())
                yield path, named


def _traces_below(place: Path) -> list[tuple[Path, bool]]:
    """The JSON files of a folder; anything else is taken for a trace, and reading it says what it is."""
    try:
        return sorted(json_files(place)) if place.is_dir() else [(place, True)]
    except OSError:
        return [(place, True)]


def _judged_pairs(folder: Path) -> dict[Path, EvaluationPair]:
    """The pair of each trace of an evaluation in this folder; nothing where there is none."""
    try:
        results = list(read_results(folder / RESULTS)) if (folder / RESULTS).is_file() else []
    except BadInput:
        return {}
    return {folder / each.trace: each.pair for each in results if each.trace}


def _taught_pairs(folder: Path) -> dict[Path, EvaluationPair]:
    """The pair of each trace of a teacher in this folder; nothing where there is none."""
    try:
        outcomes = read_outcomes(folder) if (folder / OUTCOMES).is_file() else []
    except BadInput:
        return {}
    return {folder / outcome.file: _taught_pair(outcome) for outcome in outcomes if outcome.file}


def _taught_pair(outcome: Outcome) -> EvaluationPair:
    truth = Verdict(**{name: Preference(label) for name, label in outcome.truth.items()})
    return EvaluationPair(
        f"{outcome.pair}-{outcome.sample}",
        outcome.pair + 1,
        "",
        outcome.first,
        outcome.second,
        truth,
    )
