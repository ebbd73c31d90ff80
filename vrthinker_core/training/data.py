"""Opens what `--data` names: drawn pairs, a data set, published RL rows, or a folder of traces."""

import glob
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vrthinker_core.drawn.photographs import photo_paths
from vrthinker_core.drawn.world import FULL, draw_pair
from vrthinker_core.errors import BadInput, TraceError
from vrthinker_core.results.layout import (
    MISSING,
    EvaluationPair,
    TableRow,
    existing_file,
    find_below,
    make_pairs,
)
from vrthinker_core.results.open_dataset import CSV_LAYOUT, DATASETS, MJ_FILE, VIDEOGEN_FILE
from vrthinker_core.results.result import RESULTS
from vrthinker_core.results.run_file import RUN
from vrthinker_core.training.export import trace_videos
from vrthinker_core.training.pair_set import DrawnPairSet, Layouts, PairSet, VideoPairSet
from vrthinker_core.training.teaching import (
    KnownLabel,
    NotForTraining,
    TraceFile,
    known_labels,
)
from vrthinker_core.training.trace_folder import read_traces
from vrthinker_core.types import Dimension

LABEL = re.compile(rf"\b({'|'.join(Dimension)})\s*[=:]\s*([\w.+-]*\w)", re.IGNORECASE)


def read_rl_rows(path: Path) -> list[EvaluationPair]:
    """The pairs of a file; videos are full paths, or relative to its folder. Raises BadInput for a file that holds no rows."""
    rows = [_table_row(number, row) for number, row in enumerate(_load(path), start=1)]
    return make_pairs(rows, CSV_LAYOUT, partial(find_below, path.parent, absolute=True))


def _load(path: Path) -> list[dict[str, Any]]:
    """The rows by column, None where a row lacks one. No network is asked, and no copy stays in the cache."""
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
            rows: list[dict[str, Any]] = read(
                glob.escape(str(path)), cache_dir=cache, keep_in_memory=True
            ).to_list()
    except (
        DatasetsError,
        OSError,
        StopIteration,
        ValueError,
    ) as error:  # It stops the iteration for an empty file
        said = str(error.__cause__ or error).partition("\n")[0].rstrip(".") or "it is empty"
        raise BadInput(
            f"Cannot read the rows of {path}: {said}. Give JSON, JSON lines or Parquet."
        ) from None
    return rows


def _table_row(number: int, row: Mapping[str, Any]) -> TableRow:
    """The row in the columns of a plain table of pairs."""
    videos, prompt, answer = row.get("image"), row.get("prompt"), row.get("answer")
    if not isinstance(videos, list) or len(videos) != 2 or row.get("is_video") is False:
        return TableRow(
            number,
            {},
            'The row does not name two videos: give a list of two paths in "image", with "is_video" true.',
        )
    if not isinstance(prompt, str):
        return TableRow(
            number,
            {},
            'The row has no "prompt": add a column of that name with the text the videos were made from.',
        )
    labels = (
        {name.upper(): label for name, label in LABEL.findall(answer)}
        if isinstance(answer, str)
        else {}
    )
    if not labels and str(answer).strip().lower() not in MISSING:
        return TableRow(
            number,
            {},
            'The "answer" states no label: write it as text, such as TA=1, VQ=0, MQ=2, OA=1.',
        )
    return TableRow(
        number, {"video1": str(videos[0]), "video2": str(videos[1]), "prompt": prompt} | labels
    )


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
        _traced_row(number, key, known)
        for number, (key, known) in enumerate(found.items(), start=1)
    ]
    return make_pairs(rows, CSV_LAYOUT, lambda name: existing_file(Path(), name))


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


def _traced_row(number: int, key: tuple[str, str, str], known: Sequence[Known]) -> TableRow:
    prompt, first, second = key
    labels = {dimension.value: str(label) for dimension, label in agreed_labels(known).items()}
    return TableRow(number, {"prompt": prompt, "video1": first, "video2": second} | labels)


CHOICES = "drawn:SEED, drawn2:SEED[:PHOTOS], KIND:PATH, or a path whose kind is seen from it"
READERS: dict[str, Callable[[Path], list[EvaluationPair]]] = {
    **DATASETS,
    "rows": read_rl_rows,
    "traces": read_traced_pairs,
}
"""By the word for KIND."""


def open_pairs(data: str, layouts: Layouts) -> PairSet:
    """The pair set of `data`, one of `CHOICES`; `layouts`: of the protocols that are trained, which pairs take in turn.

    Raises BadInput where nothing can be read, a video is missing, a label is none, or no pair has one.
    """
    kind, _, rest = data.partition(":")
    if kind in ("drawn", "drawn2"):
        return replace(
            _drawn_pairs(kind, rest),
            grids=tuple((protocol, layout.grid) for protocol, layout in layouts.items()),
        )
    return VideoPairSet(read_pairs(data), layouts)


def _drawn_pairs(kind: str, rest: str) -> DrawnPairSet:
    """`drawn:SEED`: simple scenes; `drawn2:SEED` or `drawn2:SEED:PHOTOS`: all there is, with a folder of photographs.

    Raises BadInput, also for a folder without one.
    """
    seed, _, photos = rest.partition(":")
    if not seed.isascii() or not seed.isdecimal() or (photos and kind == "drawn"):
        raise BadInput(
            f"{kind}:{rest} names no seed: give a whole number from 0 on, as in {kind}:1."
        )
    if kind == "drawn":
        return DrawnPairSet(int(seed))
    if photos:
        photo_paths(Path(photos))
    world = replace(FULL, photos=Path(photos) if photos else None)
    return DrawnPairSet(int(seed), draw=partial(draw_pair, world=world))


def path_of(data: str) -> Path | None:
    """The file or folder that `data` names; None for drawn pairs, but for their photographs."""
    path = _divided(data)[1]
    return Path(path) if path else None


def absolute_data(data: str, before: str | None = None) -> str:
    """`data` with its whole path, so that it is found from any working directory.

    Where `before` names the same place, it is that: what a folder of an earlier version was begun with, as it was typed.
    """
    kind, path = _divided(data)
    if not path:
        return data
    if (
        before
        and _divided(before)[0] == kind
        and Path(_divided(before)[1]).resolve() == Path(path).resolve()
    ):
        return before
    return f"{kind}{Path(path).absolute()}"


def _divided(data: str) -> tuple[str, str]:
    """What stands before a path with its colon, and the path, "" where there is none."""
    kind, _, rest = data.partition(":")
    if kind in ("drawn", "drawn2"):
        seed, colon, photos = rest.partition(":")
        return f"{kind}:{seed}{colon}", photos
    return (f"{kind}:", rest) if kind in READERS and rest else ("", data)


def read_pairs(data: str) -> list[EvaluationPair]:
    """The rows of a data set, broken ones among them. Raises BadInput where nothing can be read."""
    kind, path = find_data(data)
    rows = READERS[kind](path.absolute())
    if not rows:
        raise BadInput(f"{path} holds no pair.")
    return rows


def find_data(data: str) -> tuple[str, Path]:
    """Which reader `data`, which is not drawn, is for, and where it lies. Raises BadInput where nothing is there."""
    kind, _, rest = data.partition(":")
    if kind not in READERS or not rest:
        kind, rest = kind_of(Path(data)), data
    path = Path(rest)
    if not path.exists():
        raise BadInput(f"There is no file or folder {path}: name the training data as {CHOICES}.")
    return kind, path


def kind_of(path: Path) -> str:
    """Which reader a path is for."""
    if path.is_dir():
        if (path / RUN).exists() and (
            path / RESULTS
        ).exists():  # An evaluation or a ranking, whose table is a parquet file too
            return "traces"
        if (path / VIDEOGEN_FILE).exists():
            return "videogen-reward"
        if (path / MJ_FILE).exists():
            return "mj-bench-video"
        return (
            "genai-bench"
            if any(path.glob("*.parquet")) or any(path.glob("*/*.parquet"))
            else "traces"
        )
    if path.suffix == ".parquet":
        return "genai-bench"
    if path.suffix in (".jsonl", ".json"):
        return "mj-bench-video" if path.name == MJ_FILE else "rows"
    return "videogen-reward" if "path_A" in _head(path) else "csv"


def _head(path: Path) -> str:
    """The beginning of a file; "" for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(1000).decode("utf-8", "replace").lstrip("\ufeff")
    except OSError:
        return ""
