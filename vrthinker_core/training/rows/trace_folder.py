"""Traces from files and folders, each once, with the videos that an evaluation found for them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.result_file import RESULTS, read_results
from vrthinker_core.traces import load
from vrthinker_core.training.rows.teaching import TraceFile


def read_traces(places: Sequence[Path], but: Path | None = None) -> Iterator[tuple[Path, TraceFile | TraceError]]:
    """Every trace, or why a file is none; a folder stands for every JSON file below it. `but` is not read."""
    videos: dict[Path, tuple[Path, Path]] = {}
    folders: set[Path] = set()
    for path in _files(places, but):
        folder = path.absolute().parent.parent
        if folder not in folders:
            folders.add(folder)
            videos |= _judged_videos(folder)
        try:
            yield path, TraceFile(path, load(path), videos.get(path.absolute()))
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
        return sorted(path for path in place.rglob("*.json") if path.is_file()) if place.is_dir() else [place]
    except OSError:
        return [place]


def _judged_videos(folder: Path) -> dict[Path, tuple[Path, Path]]:
    """The videos of each trace of an evaluation in this folder, where it found them; nothing where there is none."""
    try:
        results = list(read_results(folder / RESULTS)) if (folder / RESULTS).is_file() else []
    except BadInput:
        return {}
    return {folder / each.trace: (Path(each.pair.first), Path(each.pair.second)) for each in results if each.trace}
