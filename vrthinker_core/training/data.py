"""Opens what `--data` names: drawn pairs, a data set, published RL rows, or a folder of traces."""

import glob
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import (
    MISSING,
    EvaluationPair,
    TableRow,
    existing_file,
    find_below,
    make_pairs,
)
from vrthinker_core.results.open_dataset import CSV_LAYOUT, DATASETS, MJ_FILE, VIDEOGEN_FILE
from vrthinker_core.results.result import RESULTS, RUN
from vrthinker_core.training.pair_set import DrawnPairSet, FramePlans, PairSet, VideoPairSet
from vrthinker_core.training.traces import (
    KnownLabel,
    NotForTraining,
    known_labels,
    read_traces,
    trace_videos,
)
from vrthinker_core.types import Dimension

LABEL = re.compile(rf"\b({'|'.join(Dimension)})\s*[=:]\s*([\w.+-]*\w)", re.IGNORECASE)


def read_rl_rows(path: Path) -> list[EvaluationPair]:
    """The pairs of a file; videos are full paths, or relative to its folder.

    No network is asked, and no copy stays in the cache. Raises BadInput for a file without rows.
    """
    try:
        from datasets import Dataset, disable_progress_bars
        from datasets.exceptions import DatasetsError
    except ImportError:
        raise BadInput(
            "Files of rows take Hugging Face datasets: run pip install -e '.[train]'."
        ) from None
    disable_progress_bars()
    read = Dataset.from_parquet if path.suffix == ".parquet" else Dataset.from_json
    try:
        with TemporaryDirectory() as cache:
            found = read(glob.escape(str(path)), cache_dir=cache, keep_in_memory=True).to_list()
    except (DatasetsError, OSError, StopIteration, ValueError) as error:
        # It stops the iteration for an empty file
        cause = error.__cause__ or error
        said = getattr(cause, "strerror", None) or str(cause).partition("\n")[0].rstrip(".")
        said = said or "it is empty"
        raise BadInput(
            f"Cannot read the rows of {path}: {said}. Give JSON, JSON lines or Parquet."
        ) from None
    rows = [_table_row(number, row) for number, row in enumerate(found, start=1)]
    return make_pairs(rows, CSV_LAYOUT, partial(find_below, path.parent, absolute=True))


def _table_row(number: int, row: Mapping[str, Any]) -> TableRow:
    """The row in the columns of a plain table of pairs."""
    videos, prompt, answer = row.get("image"), row.get("prompt"), row.get("answer")
    labels = LABEL.findall(answer) if isinstance(answer, str) else []
    if not isinstance(videos, list) or len(videos) != 2 or row.get("is_video") is False:
        fault = (
            'The row does not name two videos: give a list of two paths in "image", with '
            '"is_video" true.'
        )
    elif not isinstance(prompt, str):
        fault = (
            'The row has no "prompt": add a column of that name with the text the videos were '
            "made from."
        )
    elif not labels and str(answer).strip().lower() not in MISSING:
        fault = 'The "answer" states no label: write it as text, such as TA=1, VQ=0, MQ=2, OA=1.'
    else:
        values = {"video1": str(videos[0]), "video2": str(videos[1]), "prompt": prompt}
        return TableRow(number, values | {name.upper(): label for name, label in labels})
    return TableRow(number, {}, fault)


def read_traced_pairs(folder: Path) -> list[EvaluationPair]:
    """The pairs of all traces below a folder. Runs of one pair count together.

    A dimension has no label if the runs of a judge contradict one another and no person says
    anything. A file that is no trace is left out.
    """
    found: dict[tuple[str, ...], list[dict[Dimension, KnownLabel]]] = {}
    for file in read_traces([folder]):
        try:
            videos = [str(video["path"]) for video in trace_videos(file, file.trace)]
        except NotForTraining:
            continue  # a run without its videos says nothing of them
        found.setdefault((file.trace.started.prompt, *videos), []).append(known_labels(file))
    rows = []
    for number, (key, known) in enumerate(found.items(), start=1):
        values = dict(zip(("prompt", "video1", "video2"), key, strict=True))
        for dimension in Dimension:
            told = [each[dimension] for each in known if dimension in each]
            counted = [label for label in told if label.source == "person"] or told
            if len({label.label for label in counted}) == 1:
                values[dimension.value] = str(int(counted[0].label))
        rows.append(TableRow(number, values))
    return make_pairs(rows, CSV_LAYOUT, lambda name: existing_file(Path(), name))


READERS: dict[str, Callable[[Path], list[EvaluationPair]]] = {
    **DATASETS,
    "rows": read_rl_rows,
    "traces": read_traced_pairs,
}


def open_pairs(data: str, plans: FramePlans) -> PairSet:
    """The pair set of `data`; `plans`: of the trained protocols, which pairs take in turn.

    `drawn:SEED` gives drawn pairs without end. Raises BadInput if nothing can be read, a video is
    missing, a label is none, or no pair has one.
    """
    kind, _, seed = data.partition(":")
    if kind != "drawn":
        return VideoPairSet(read_pairs(data), plans)
    if not seed.isascii() or not seed.isdecimal():
        raise BadInput(f"{data} names no seed: give a whole number from 0 on, as in drawn:1.")
    grids = tuple((protocol, plan.grid) for protocol, plan in plans.items())
    return DrawnPairSet(int(seed), grids)


def path_of(data: str) -> Path | None:
    """The file or folder that `data` names, None for drawn pairs."""
    path = _divided(data)[1]
    return Path(path) if path else None


def absolute_data(data: str, before: str | None = None) -> str:
    """`data` with its whole path, so that it is found from any working directory.

    If `before`, as a folder of an earlier version has it, names the same place, it is that.
    """
    kind, path = _divided(data)
    if not path:
        return data
    kind_before, path_before = _divided(before or "")
    if before and kind_before == kind and Path(path_before).resolve() == Path(path).resolve():
        return before
    return f"{kind}{Path(path).absolute()}"


def _divided(data: str) -> tuple[str, str]:
    """What stands before a path with its colon, and the path, or ""."""
    kind, _, rest = data.partition(":")
    if kind == "drawn":
        return data, ""
    if kind == "drawn2":  # In folders that earlier versions made
        raise BadInput(f"{data} names a drawn world that is gone: name the pairs as drawn:SEED.")
    return (f"{kind}:", rest) if kind in READERS and rest else ("", data)


def read_pairs(data: str) -> list[EvaluationPair]:
    """The rows of a data set, broken ones among them. Raises BadInput if nothing can be read."""
    kind, path = find_data(data)
    rows = READERS[kind](path.absolute())
    if not rows:
        raise BadInput(f"{path} holds no pair.")
    return rows


def find_data(data: str) -> tuple[str, Path]:
    """Which reader `data` (not drawn) is for, and its path. Raises BadInput if nothing is there."""
    kind, place = _divided(data)
    path = Path(place)
    if not path.exists():
        raise BadInput(
            f"There is no file or folder {path}: name the training data as drawn:SEED, "
            "KIND:PATH, or a path whose kind is seen from it."
        )
    return kind.removesuffix(":") or kind_of(path), path


def kind_of(path: Path) -> str:
    """Which reader a path is for."""
    if path.is_dir():
        # An evaluation or a ranking, whose table is a parquet file too
        if (path / RUN).exists() and (path / RESULTS).exists():
            return "traces"
        if (path / VIDEOGEN_FILE).exists():
            return "videogen-reward"
        if (path / MJ_FILE).exists():
            return "mj-bench-video"
        tables = any(path.glob("*.parquet")) or any(path.glob("*/*.parquet"))
        return "genai-bench" if tables else "traces"
    if path.suffix == ".parquet":
        return "genai-bench"
    if path.suffix in (".jsonl", ".json"):
        return "mj-bench-video" if path.name == MJ_FILE else "rows"
    try:
        with path.open("rb") as file:
            return "videogen-reward" if b"path_A" in file.read(1000) else "csv"
    except OSError:
        return "csv"
