"""Opens what `--data` names: drawn pairs, published tables, a folder of traces, or a mixture."""

import glob
import hashlib
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.results.layout import (
    EvaluationPair,
    PairLayout,
    TableRow,
    as_text,
    check_columns,
    existing_file,
    make_pairs,
    read_table,
)
from vrthinker_core.results.open_dataset import (
    CSV_LAYOUT,
    DATASETS,
    GENAI_LAYOUT,
    MJ_FILE,
    MJ_LAYOUT,
    VIDEOGEN_FILE,
    VIDEOGEN_LAYOUT,
    video_finder,
)
from vrthinker_core.results.result import RESULTS, RUN
from vrthinker_core.storage import write_atomically
from vrthinker_core.training.pair_set import FramePlans, PairSet
from vrthinker_core.training.traces import (
    KnownLabel,
    NotForTraining,
    known_labels,
    read_traces,
    trace_videos,
)
from vrthinker_core.types import Dimension

KINDS = ("traces", "rows", *DATASETS)
TABLES = ("train.csv", VIDEOGEN_FILE, "train.json", MJ_FILE)  # Of a folder, the first counts
ROW_FILES = (".json", ".jsonl", ".parquet")
VOTES = re.compile(r"weighted_results1_(\w+)")
LABEL = re.compile(rf"\b({'|'.join(Dimension)})\s*[=:]\s*([\w.+-]*\w)", re.IGNORECASE)


def _votes(alignment: str, preference: str) -> PairLayout:
    labels = {Dimension.TA: alignment, Dimension.VQ: preference, Dimension.MQ: "Coherence"}
    videos, generators = ("video1", "video2"), ("model1", "model2")
    return PairLayout(videos, "prompt", labels, generators, CSV_LAYOUT.words)


FORMS = (
    VIDEOGEN_LAYOUT,  # Its part for training names no generators and no overall label
    MJ_LAYOUT,
    GENAI_LAYOUT,
    _votes("Alignment", "Preference"),  # Rapidata; dimensions as in the paper's appendix D
    _votes("Prompt_Adherence", "Aesthetic"),  # datapointai
    CSV_LAYOUT,  # A table of your own, and published RL rows
)
"""The published forms of tables; of those whose videos and prompt a table has, most labels win."""


def read_rows(path: Path) -> list[EvaluationPair]:
    """Return the pairs of a table, or of the training part of a data set's folder.

    A video is a full path, a path relative to the table, or the name of a file anywhere in the
    folder of the data set. Raises BadInput for a table that cannot be read or has unknown columns.
    """
    tables = find_tables(path)
    if not tables:
        raise BadInput(f"{path} holds no table of pairs.")
    rows = [row for table in tables for row in _read(table)]
    columns = {column for row in rows for column in row.values}
    fitting = [form for form in FORMS if columns >= {*form.videos, form.prompt}]
    if rows and not fitting:
        check_columns([*columns], (*CSV_LAYOUT.videos, CSV_LAYOUT.prompt), tables[0].name)
    form = max(fitting, key=lambda form: len(columns & {*form.labels.values()}), default=CSV_LAYOUT)
    numbered = (replace(row, number=number) for number, row in enumerate(rows, start=1))
    root = path if path.is_dir() else None
    return make_pairs(numbered, form, video_finder(tables[0].parent, root, absolute=True))


def find_tables(path: Path) -> list[Path]:
    """Return the tables of one split of a data set, [] for a folder of traces; a file is its own.

    Raises BadInput for a folder of several splits and no train.
    """
    if not path.is_dir():
        return [path]
    if (path / RUN).exists() and (path / RESULTS).exists():
        return []  # An evaluation or a ranking, whose table is a parquet file, too
    if named := [path / name for name in TABLES if (path / name).exists()]:
        return named[:1]
    splits: dict[str, list[Path]] = {}
    for file in sorted((*path.glob("*.parquet"), *path.glob("*/*.parquet"))):
        splits.setdefault(file.stem.partition("-")[0], []).append(file)
    if len(splits) > 1 and "train" not in splits:
        raise BadInput(
            f"{path} holds {' and '.join(splits)}, which are different sets: give the path of one "
            "file."
        )
    return splits.get("train") or [file for files in splits.values() for file in files]


def kind_of(path: Path) -> str:
    """Return what a path holds, traces or rows. Raises BadInput."""
    return "rows" if find_tables(path) else "traces"


def _read(table: Path) -> list[TableRow]:
    """Return the rows of a table, nested values as columns of their own. Raises BadInput."""
    if table.suffix not in ROW_FILES:
        named = [(*form.videos, form.prompt, *form.labels.values()) for form in FORMS]
        columns = [column for names in named for column in names]
        return [replace(row, values=_flat(row.values)) for row in read_table(table, (), columns)]
    try:
        from datasets import Dataset, disable_progress_bars
        from datasets.exceptions import DatasetsError
    except ImportError:
        raise BadInput(
            "Files of rows take Hugging Face datasets: run pip install -e '.[train]'."
        ) from None
    disable_progress_bars()
    read = Dataset.from_parquet if table.suffix == ".parquet" else Dataset.from_json
    try:
        with TemporaryDirectory() as cache:  # No copy stays, and no network is asked
            found = read(glob.escape(str(table)), cache_dir=cache, keep_in_memory=True).to_list()
    except (DatasetsError, OSError, StopIteration, ValueError) as error:
        # It stops the iteration for an empty file
        cause = error.__cause__ or error
        said = getattr(cause, "strerror", None) or str(cause).partition("\n")[0].rstrip(".")
        said = said or "it is empty"
        raise BadInput(
            f"Cannot read the rows of {table}: {said}. Give JSON, JSON lines or Parquet."
        ) from None
    for row in found:
        row |= {name: _unpacked(value, table.parent) for name, value in row.items()}
    return [TableRow(0, _flat(row)) for row in found]


def _unpacked(value: Any, folder: Path) -> Any:
    """Return a cell; a video that it holds itself is written to `folder` once, as datapointai's."""
    data = value.get("bytes") if isinstance(value, dict) else None
    if not isinstance(data, bytes):
        return value
    suffix = Path(value.get("path") or "").suffix or ".mp4"
    file = folder / "videos" / f"{hashlib.sha256(data).hexdigest()[:16]}{suffix}"
    with os_errors(f"Cannot unpack a video to {file}"):
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            write_atomically(file, data)
    return str(file)


def _flat(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the values as text in the columns of a form.

    Of two weighted results the larger side wins, however small the difference: the paper names no
    margin. Equal sides are a tie.
    """
    texts = {name: as_text(value) for name, value in row.items() if value is not None}
    for name, value in (row.get("category_preference") or {}).items():  # MJ-Bench-Video
        texts.setdefault(name, as_text(value))
    videos = row.get("image")  # Of RL rows; Rapidata names its files beside their addresses
    for number, side in enumerate("12"):
        if isinstance(videos, list) and len(videos) == 2:
            texts[f"video{side}"] = as_text(videos[number])
        elif file := row.get(f"file_name{side}"):
            texts[f"video{side}"] = as_text(file)
    if answer := texts.get("answer"):
        found = {name.upper(): label for name, label in LABEL.findall(answer)}
        texts |= found or {Dimension.OA.value: answer}
    for name in {match[1] for match in map(VOTES.fullmatch, row) if match}:
        shares = [texts.get(f"weighted_results{side}_{name}", "") for side in "12"]
        with suppress(ValueError):  # A missing value is no label
            first, second = map(float, shares)
            texts[name] = "0" if first == second else "1" if first > second else "2"
    return texts


def read_traced_pairs(folder: Path) -> list[EvaluationPair]:
    """Return the pairs of all traces below a folder. Runs of one pair count together.

    A dimension has no label if the runs of a judge contradict one another and no person says
    anything. A file that is no trace is left out.
    """
    found: dict[tuple[str, ...], list[dict[Dimension, KnownLabel]]] = {}
    for file in read_traces([folder]):
        try:
            videos = [str(video["path"]) for video in trace_videos(file, file.trace)]
        except NotForTraining:
            continue  # A run without its videos says nothing of them
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


@dataclass(frozen=True, slots=True)
class NamedSet:
    """One set of pairs, as `--data` names it."""

    kind: str  # Of `KINDS`, drawn, or "" to be seen from the path
    place: str  # A seed, or a path
    weight: float = 1.0

    def __str__(self) -> str:
        """Spell it as `--data` takes it."""
        kind = f"{self.kind}:" if self.kind else ""
        return f"{kind}{self.place}{'' if self.weight == 1 else f'={self.weight:g}'}"

    @property
    def path(self) -> Path | None:
        """The file or folder, None for drawn pairs."""
        return None if self.kind == "drawn" else Path(self.place)

    def pairs(self) -> list[EvaluationPair]:
        """Read the rows of files, broken ones among them. Raises BadInput."""
        path = Path(self.place).absolute()
        traced = (self.kind or kind_of(path)) == "traces"
        rows = read_traced_pairs(path) if traced else read_rows(path)
        if not rows:
            raise BadInput(f"{path} holds no pair.")
        return rows

    def open(self, plans: FramePlans, name: str = "") -> PairSet:
        """Open the pairs; `name` stands in errors. Raises BadInput."""
        if self.kind != "drawn":
            return PairSet.of_rows(self.pairs(), plans, name)
        if not self.place.isascii() or not self.place.isdecimal():
            raise BadInput(f"{self} names no seed: give a whole number from 0 on, as in drawn:1.")
        return PairSet.drawn(int(self.place), plans)


def named_sets(data: str) -> list[NamedSet]:
    """Return the sets that `data` names, one a line, each as `[KIND:]PLACE[=WEIGHT]`.

    A path that exists may have "=" in its name. Raises BadInput for a weight that is none.
    """
    found = []
    for name in data.split("\n"):
        kind, _, place = name.partition(":")
        if kind not in ("drawn", *KINDS) or not place:
            kind, place = "", name
        weight, (before, _, text) = 1.0, place.rpartition("=")
        with suppress(ValueError):  # An "=" before no number belongs to the name
            if before and not Path(place).exists():
                weight, place = float(text), before
        if not 0 < weight < math.inf:
            raise BadInput(f"{name}: the weight of a data set is a number above 0, as in =0.5.")
        found.append(NamedSet(kind, place, weight))
    return found


def absolute_data(data: str) -> str:
    """Return `data` with whole paths, found from any folder. Raises BadInput if one is missing."""
    names = []
    for each in named_sets(data):
        if each.path is not None and not each.path.exists():
            raise BadInput(
                f"There is no file or folder {each.path}: name the training data as drawn:SEED, "
                "KIND:PATH, or a path whose kind is seen from it."
            )
        place = each.place if each.path is None else str(each.path.absolute())
        names.append(str(replace(each, place=place)))
    return "\n".join(names)


def is_drawn(data: str) -> bool:
    """Return whether all pairs of `data` are drawn."""
    return all(each.path is None for each in named_sets(data))


def open_pairs(data: str, plans: FramePlans, seed: int = 0) -> PairSet:
    """Open the pairs of `data`; several sets are mixed by their weights and `seed`.

    `plans`: of the trained protocols, which pairs take in turn. Raises BadInput if nothing can be
    read, a video is missing, a label is none, or no pair of a set has one.
    """
    sets = named_sets(data)
    if len(sets) == 1:
        return sets[0].open(plans)
    return PairSet.mixed([(each.open(plans, each.place), each.weight) for each in sets], seed)
