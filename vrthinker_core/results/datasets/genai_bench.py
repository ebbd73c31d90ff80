"""GenAI-Bench, video: Parquet files of votes.

They name videos by addresses that end in `<md5>.mp4`; here these are files below the folder.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets.layout import (
    PairLayout,
    TableRow,
    as_text,
    check_columns,
    make_pairs,
)
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.types import Dimension, Preference

SUBFOLDER = "video_generation"
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
VIDEO_NAME = re.compile(r"(?:^|/)([0-9a-fA-F]{32}\.mp4)$")


def read_genai_bench(path: Path) -> list[EvaluationPair]:
    """Return the pairs of a Parquet file, or a folder's only split.

    Raises `BadInput` if the folder has several splits or none.
    """
    files = _files(path)
    folder = path if path.is_dir() else path.parent
    root = folder.parent if folder.name == SUBFOLDER else folder
    videos = _Videos(root)
    return make_pairs(_genai_rows(files), GENAI_LAYOUT, videos.find)


def _files(path: Path) -> list[Path]:
    """Return the Parquet files of one split: `test-*`, or `test_v1-*`."""
    if not path.is_dir():
        return [path]
    found = [
        file for folder in (path, path / SUBFOLDER) for file in sorted(folder.glob("*.parquet"))
    ]
    splits = sorted({file.name.partition("-")[0] for file in found})
    if not found:
        raise BadInput(f"{path} holds no Parquet file, nor does its folder {SUBFOLDER}.")
    if len(splits) > 1:
        names = ", ".join(file.name for file in found)
        raise BadInput(
            f"{path} holds {' and '.join(splits)}, which are different sets of votes. Give the path of one: {names}."
        )
    return found


def _genai_rows(files: list[Path]) -> Iterator[TableRow]:
    columns = [
        *GENAI_LAYOUT.videos,
        GENAI_LAYOUT.prompt,
        *GENAI_LAYOUT.generators,
        *GENAI_LAYOUT.labels.values(),
    ]
    number = 0
    for file in files:
        for values in _read_parquet(file, columns):
            number += 1
            yield TableRow(number, {name: as_text(value) for name, value in values.items()})


def _read_parquet(file: Path, columns: list[str]) -> list[dict[str, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise BadInput("Reading Parquet takes pyarrow: run pip install -e '.[evaluate]'.") from None
    try:
        check_columns(parquet.read_schema(file).names, columns, file.name)
        rows: list[dict[str, Any]] = parquet.read_table(file, columns=columns).to_pylist()
    except (OSError, ArrowException) as error:
        reason = getattr(error, "strerror", None) or "it is no Parquet file, or a damaged one"
        raise BadInput(f"Cannot read {file}: {reason}.") from None
    return rows


class _Videos:
    """The videos below a folder by name; the folder is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found = {
            path.name.lower(): path for path in sorted(root.rglob("*.mp4"), reverse=True)
        }

    def find(self, address: str) -> Path:
        match = VIDEO_NAME.search(address)
        if match is None:
            raise BadInput(
                f"{address[:120] or 'A video'} does not end in the name of a video, <md5>.mp4."
            )
        found = self._found.get(match[1].lower())
        if found is None or not found.is_file():
            raise BadInput(
                f"There is no file {match[1]} below {self._root}: put the videos of the data set there."
            )
        return found
