"""Reading of a data set by name, and choice of pairs."""

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.results.layout import (
    EvaluationPair,
    FindVideo,
    PairLayout,
    TableRow,
    as_text,
    check_columns,
    find_below,
    make_pairs,
    read_table,
)
from vrthinker_core.types import Dimension, Preference

WORDS = {
    **dict.fromkeys(("1", "first", "a", "1.0"), Preference.FIRST),
    **dict.fromkeys(("2", "second", "b", "2.0"), Preference.SECOND),
    **dict.fromkeys(("0", "tie", "same", "0.0"), Preference.TIE),
}
CSV_LAYOUT = PairLayout(
    ("video1", "video2"),
    "prompt",
    {each: each.value for each in Dimension},
    ("model1", "model2"),
    WORDS,
)


def read_pair_csv(path: Path) -> list[EvaluationPair]:
    """Return the pairs of a CSV file.

    Paths are full, or relative to the folder of the file. Raises `BadInput` if one of the three
    columns is missing.
    """
    layout = CSV_LAYOUT
    optional = (*layout.labels.values(), *layout.generators)
    rows = read_table(path, (*layout.videos, layout.prompt), optional)
    return make_pairs(rows, layout, partial(find_below, path.parent, absolute=True))


VIDEOGEN_FILE = "videogen-rewardbench.csv"
VIDEOGEN_LAYOUT = PairLayout(
    ("path_A", "path_B"),
    "prompt",
    {Dimension.TA: "TA", Dimension.MQ: "MQ", Dimension.VQ: "VQ", Dimension.OA: "Overall"},
    ("A_model", "B_model"),
    {"a": Preference.FIRST, "b": Preference.SECOND, "same": Preference.TIE},
)


def read_videogen_reward(path: Path) -> list[EvaluationPair]:
    """Return the pairs of a data set's folder, or of one table.

    Videos of a table may lie anywhere, because `export` writes full paths. Raises `BadInput` if the
    table does not have this layout.
    """
    table, layout = path / VIDEOGEN_FILE if path.is_dir() else path, VIDEOGEN_LAYOUT
    columns = (*layout.videos, *layout.generators, layout.prompt, *layout.labels.values())
    find = partial(find_below, table.parent, absolute=table is path)
    return make_pairs(read_table(table, columns), layout, find)


MJ_FILE = "test.json"
OVERALL = "overall_preference"
MJ_LAYOUT = PairLayout(
    ("video_0_path", "video_1_path"),
    "caption",
    {
        Dimension.TA: "Alignment",
        Dimension.MQ: "Coherence & Consistency",
        Dimension.VQ: "Fineness",
        Dimension.OA: OVERALL,
    },
    ("video_0_model", "video_1_model"),
    {
        "video 1 better": Preference.FIRST,
        "video 2 better": Preference.SECOND,
        "same": Preference.TIE,
    },
    frozenset(("hard to judge",)),
)


def read_mj_bench_video(path: Path) -> list[EvaluationPair]:
    """Return the pairs of a folder or file; raises `BadInput`."""
    file = path / MJ_FILE if path.is_dir() else path
    try:
        with os_errors(f"Cannot read {file}"):
            items = json.loads(file.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise BadInput(f"{file.name} is no JSON in UTF-8.") from None
    if not isinstance(items, list) or not items:
        raise BadInput(f"{file.name} is no JSON list of pairs.")
    needed = (*MJ_LAYOUT.videos, MJ_LAYOUT.prompt, OVERALL)
    for column in needed:
        if not any(isinstance(item, dict) and column in item for item in items):
            raise BadInput(
                f"{file.name} has no {column}. Each of its pairs needs {', '.join(needed)}."
            )
    return make_pairs(map(_mj_row, count(1), items), MJ_LAYOUT, partial(find_below, file.parent))


def _mj_row(number: int, item: object) -> TableRow:
    if not isinstance(item, dict):
        return TableRow(number, {}, "The row is no JSON object.")
    categories = item.get("category_preference")
    values = {**(categories if isinstance(categories, dict) else {}), **item}
    return TableRow(number, {name: as_text(value) for name, value in values.items()})


SUBFOLDER = "video_generation"


def video_finder(folder: Path, root: Path | None = None, *, absolute: bool = False) -> FindVideo:
    """Return how a table in `folder` finds its videos: as `find_below`, or by name in `root`.

    By name, if the table gives a name or an address alone. `root`: by default the folder of the
    whole data set.
    """
    root = root or (folder.parent if folder.name in (SUBFOLDER, "data") else folder)

    @cache
    def by_name() -> dict[str, Path]:
        return {each.name.lower(): each for each in sorted(root.rglob("*.*"), reverse=True)}

    def find(name: str) -> Path:
        try:
            return find_below(folder, name, absolute=absolute)
        except BadInput:
            address, own = "://" in name, name.rpartition("/")[2]
            found = by_name().get(own.lower()) if address or own == name else None
            if found is not None and found.is_file():
                return found
            if address:
                raise BadInput(
                    f"There is no file {own[:120]} below {root}: put the videos of the data set "
                    "there."
                ) from None
            raise

    return find


GENAI_LAYOUT = PairLayout(
    ("left_video", "right_video"),
    "prompt",
    {Dimension.OA: "vote_type"},
    ("left_model", "right_model"),
    {
        "leftvote": Preference.FIRST,
        "rightvote": Preference.SECOND,
        "tievote": Preference.TIE,
        "bothbad_vote": Preference.TIE,
    },
)


def read_genai_bench(path: Path) -> list[EvaluationPair]:
    """Return the pairs of a Parquet file, or a folder's only split: `test-*`, or `test_v1-*`.

    Raises `BadInput` if the folder has several splits or none.
    """
    files = [path]
    if path.is_dir():
        folders = (path, path / SUBFOLDER)
        files = [file for folder in folders for file in sorted(folder.glob("*.parquet"))]
        if not files:
            told = f"{path} holds no Parquet file, nor does its folder {SUBFOLDER}."
            raise BadInput(told + _source("genai-bench", path))
        splits = sorted({file.name.partition("-")[0] for file in files})
        if len(splits) > 1:
            names = ", ".join(file.name for file in files)
            raise BadInput(
                f"{path} holds {' and '.join(splits)}, which are different sets of votes. Give the path of one: {names}."
            )
    folder = path if path.is_dir() else path.parent
    return make_pairs(_genai_rows(files), GENAI_LAYOUT, video_finder(folder))


def _genai_rows(files: list[Path]) -> Iterator[TableRow]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise BadInput("Reading Parquet takes pyarrow: run pip install -e '.[evaluate]'.") from None
    layout, numbers = GENAI_LAYOUT, count(1)
    columns = [*layout.videos, layout.prompt, *layout.generators, *layout.labels.values()]
    for file in files:
        try:
            check_columns(parquet.read_schema(file).names, columns, file.name)
            rows: list[dict[str, Any]] = parquet.read_table(file, columns=columns).to_pylist()
        except (OSError, ArrowException) as error:
            reason = getattr(error, "strerror", None) or "it is no Parquet file, or a damaged one"
            raise BadInput(f"Cannot read {file}: {reason}.") from None
        for row in rows:
            yield TableRow(next(numbers), {name: as_text(value) for name, value in row.items()})


DATASETS: dict[str, Callable[[Path], list[EvaluationPair]]] = {
    "videogen-reward": read_videogen_reward,
    "genai-bench": read_genai_bench,
    "mj-bench-video": read_mj_bench_video,
    "csv": read_pair_csv,
}
"""Readers by their name on the command line."""

TABLES = {"videogen-reward": VIDEOGEN_FILE, "mj-bench-video": MJ_FILE}  # In folders
SOURCES = {  # On the Hub, and what else is to do
    "videogen-reward": ("KlingTeam/VideoGen-RewardBench", ", then unpack its videos.zip"),
    "genai-bench": ("TIGER-Lab/GenAI-Bench", "; videos: tianleliphoebe/genai-arena-video-mp4"),
    "mj-bench-video": ("MJ-Bench/MJ-BENCH-VIDEO", ""),
}


def _source(kind: str, path: Path) -> str:
    """Say how to download a published data set; "" for a CSV."""
    if kind not in SOURCES:
        return ""
    (hub, more), folder = SOURCES[kind], shlex.quote(str(path.parent if path.suffix else path))
    return f" Get it: hf download {hub} --local-dir {folder} --repo-type dataset{more}."


def read_dataset(kind: str, path: Path) -> list[EvaluationPair]:
    """Return the pairs and broken rows in row order; raises `BadInput`."""
    if kind not in DATASETS:
        raise BadInput(f"There is no data set {kind!r}. Choose one of {', '.join(DATASETS)}.")
    with os_errors(f"Cannot read {path}"):
        table = path / TABLES.get(kind, "") if path.is_dir() else path
        if not table.exists():
            raise BadInput(f"There is no file or folder {table}.{_source(kind, path)}")
        # Absolute, because results name their videos and may be read from any folder.
        pairs = DATASETS[kind](path.absolute())
    if not pairs:
        raise BadInput(f"{path} holds no pair.")
    return pairs


def take_some(pairs: Sequence[EvaluationPair], limit: int | None) -> list[EvaluationPair]:
    """Return at most `limit` pairs, the same for every row order.

    A larger limit includes all pairs of a smaller one. Raises `BadInput` if `limit` is below 1.
    """
    if limit is None:
        return list(pairs)
    if limit < 1:
        raise BadInput(f"--limit {limit} takes no pair: give a number from 1 up.")
    chosen = {pair.id for pair in sorted(pairs, key=lambda pair: pair.id)[:limit]}
    return [pair for pair in pairs if pair.id in chosen]
