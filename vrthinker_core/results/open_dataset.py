"""Layouts of published data sets, reading of their tables, and choice of pairs."""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.results.layout import (
    EvaluationPair,
    FindVideo,
    PairLayout,
    TableRow,
    check_columns,
    make_pairs,
    read_table,
    video_finder,
)
from vrthinker_core.storage import write_atomically
from vrthinker_core.types import Dimension

DATASETS = {
    "videogen-reward": PairLayout(
        ("path_A", "path_B"),
        "prompt",
        ("A_model", "B_model"),
        {"TA": "TA", "MQ": "MQ", "VQ": "VQ", "OA": "Overall"},
        (("a",), ("b",), ("same",)),
        needed=("A_model", "B_model", "TA", "MQ", "VQ", "Overall"),
        files="videogen-rewardbench.csv",
        source="KlingTeam/VideoGen-RewardBench, then unpack its videos.zip",
    ),
    "genai-bench": PairLayout(
        ("left_video", "right_video"),
        "prompt",
        ("left_model", "right_model"),
        {"OA": "vote_type"},
        (("leftvote",), ("rightvote",), ("tievote", "bothbad_vote")),
        needed=("left_model", "right_model", "vote_type"),
        files="*.parquet video_generation/*.parquet",
        source="TIGER-Lab/GenAI-Bench; videos: tianleliphoebe/genai-arena-video-mp4",
        by_name=True,
    ),
    "mj-bench-video": PairLayout(
        ("video_0_path", "video_1_path"),
        "caption",
        ("video_0_model", "video_1_model"),
        {
            "TA": "Alignment",
            "MQ": "Coherence & Consistency",
            "VQ": "Fineness",
            "OA": "overall_preference",
        },
        (("video 1 better",), ("video 2 better",), ("same",)),
        undecided="hard to judge",
        needed=("overall_preference",),
        files="test.json",
        source="MJ-Bench/MJ-BENCH-VIDEO",
    ),
    "csv": PairLayout(
        ("video1", "video2"),
        "prompt",
        ("model1", "model2"),
        {each: each.value for each in Dimension},
        (("1", "first", "a", "1.0"), ("2", "second", "b", "2.0"), ("0", "tie", "same", "0.0")),
    ),
}
"""Layouts that `evaluate` reads, by their name on the command line."""

_OWN = DATASETS["csv"]
FORMS = (
    # Rapidata; dimensions as in the paper's appendix D
    replace(_OWN, labels={"TA": "Alignment", "VQ": "Preference", "MQ": "Coherence"}),
    # datapointai
    replace(_OWN, labels={"TA": "Prompt_Adherence", "VQ": "Aesthetic", "MQ": "Coherence"}),
    *DATASETS.values(),
)
"""All known layouts."""

LABEL = re.compile(rf"\b({'|'.join(Dimension)})\s*[=:]\s*([\w.+-]*\w)", re.IGNORECASE)
VOTES = re.compile(r"weighted_results1_(\w+)")


def read_dataset(kind: str, path: Path) -> list[EvaluationPair]:
    """Return the pairs and broken rows in row order.

    Videos lie below the folder. A table that is named itself may hold full paths, as those of
    `export` do. Raises `BadInput`, with the way to download a published data set.
    """
    if kind not in DATASETS:
        raise BadInput(f"There is no data set {kind!r}. Choose one of {', '.join(DATASETS)}.")
    form = DATASETS[kind]
    with os_errors(f"Cannot read {path}"):
        # Absolute, because results name their videos and may be read from any folder.
        whole = path.absolute()
        tables = find_tables(whole, [form.files])
        folder = whole if whole.is_dir() else whole.parent
        if not tables or not tables[0].exists():
            at = shlex.quote(str(path.parent if path.suffix else path))
            get = f" Get it: hf download --repo-type dataset --local-dir {at} {form.source}."
            gone = f"{form.files or 'table'} in" if path.is_dir() else "file or folder"
            raise BadInput(f"There is no {gone} {path}.{get if form.source else ''}")
        root = data_root(folder) if form.by_name else None
        find = video_finder(folder, root, absolute=kind == "csv" or folder != whole)
        pairs = read_pairs(tables, [form], find, form.needed)
    if not pairs:
        raise BadInput(f"{path} holds no pair.")
    return pairs


def data_root(folder: Path) -> Path:
    """Return the folder of the whole data set that has its tables in `folder`."""
    return folder.parent if folder.name in ("video_generation", "data") else folder


def find_tables(path: Path, names: Sequence[str], split: str = "") -> list[Path]:
    """Return the tables in a folder by the first of `names` that has any; a file is its own.

    A name may be several patterns. Raises `BadInput` for several splits if none is `split`.
    """
    if not path.is_dir():
        return [path]
    each_name = (sorted(f for each in name.split() for f in path.glob(each)) for name in names)
    splits: dict[str, list[Path]] = {}
    for file in next(filter(None, each_name), []):
        splits.setdefault(file.stem.partition("-")[0], []).append(file)
    if len(splits) > 1 and split not in splits:
        raise BadInput(
            f"{path} holds {' and '.join(splits)}, which are different sets: give the path of one "
            "file."
        )
    return splits.get(split) or [file for files in splits.values() for file in files]


def read_pairs(
    tables: Sequence[Path], forms: Sequence[PairLayout], find: FindVideo, needed: Sequence[str] = ()
) -> list[EvaluationPair]:
    """Return the pairs of tables in the first of `forms` with most labels.

    Raises `BadInput` for a table that cannot be read, or whose columns are of no form.
    """
    named = dict.fromkeys(column for form in forms for column in form.columns)
    rows: list[TableRow] = []
    for table in tables:
        for row in read_table(table, optional=[*named]):
            found = _in_columns(row.values)
            found = {name: _unpacked(found[name], table.parent) for name in named if name in found}
            rows.append(TableRow(len(rows) + 1, found, row.fault))
    columns = {column for row in rows for column in row.values}
    fitting = [form for form in forms if columns >= {*form.columns[:3], *needed}]
    form = max(fitting, key=lambda form: len(columns & {*form.labels.values()}), default=forms[-1])
    if rows:
        check_columns([*columns], (*form.columns[:3], *needed), tables[0].name)
    return make_pairs(rows, form, find)


def _in_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a published row in the columns of a layout.

    Of two weighted results the larger side wins, however small the difference: the paper names no
    margin. Equal sides are a tie.
    """
    categories, videos = row.get("category_preference"), row.get("image")
    shown = videos if isinstance(videos, list) and len(videos) == 2 else []  # RL rows
    found = {**(categories if isinstance(categories, dict) else {}), **row}  # MJ-Bench-Video
    if isinstance(answer := row.get("answer"), str):
        labels = {name.upper(): label for name, label in LABEL.findall(answer)}
        found = found | (labels or {"OA": answer}) if shown else labels | found
    for side in (1, 2):
        name = f"video{side}"
        if shown:
            found[name] = shown[side - 1]
        elif (file := row.get(f"file_name{side}")) and "://" in str(row.get(name, "://")):
            found[name] = file  # Rapidata names its files beside their addresses
    for name in {match[1] for match in map(VOTES.fullmatch, row) if match}:
        with suppress(TypeError, ValueError, KeyError):  # A missing value is no label
            first, second = (float(row[f"weighted_results{side}_{name}"]) for side in (1, 2))
            if first == first and second == second:
                found[name] = "0" if first == second else "1" if first > second else "2"
    return found


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
