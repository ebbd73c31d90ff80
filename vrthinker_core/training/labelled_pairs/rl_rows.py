"""Labelled pairs from a file of RL rows, which Hugging Face `datasets` reads: JSON, JSON lines or Parquet.

A row has the two videos as paths in `image`, the labels as text in `answer`, and the videos' prompt in `prompt`: `question` holds a
whole card, and no prompt is guessed out of that.
"""

import glob
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets.layout import MISSING, TableRow, find_below, make_pairs
from vrthinker_core.results.datasets.pair_csv import LAYOUT
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.types import Dimension

LABEL = re.compile(rf"\b({'|'.join(Dimension)})\s*[=:]\s*([\w.+-]*\w)", re.IGNORECASE)


def read_rl_rows(path: Path) -> list[EvaluationPair]:
    """The pairs of a file; videos are full paths, or relative to its folder. Raises BadInput for a file that holds no rows."""
    rows = [_table_row(number, row) for number, row in enumerate(_load(path), start=1)]
    return make_pairs(rows, LAYOUT, partial(find_below, path.parent, absolute=True))


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
