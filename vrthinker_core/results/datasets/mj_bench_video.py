"""MJ-Bench-Video: `test.json` beside its `videos/`.

Alignment is TA, Fineness is VQ, Coherence & Consistency is MQ.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets.layout import (
    PairLayout,
    TableRow,
    as_text,
    find_below,
    make_pairs,
)
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.types import Dimension, Preference

MJ_FILE = "test.json"
OVERALL, CATEGORIES = "overall_preference", "category_preference"
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
    return make_pairs(_mj_rows(_read_list(file), file), MJ_LAYOUT, partial(find_below, file.parent))


def _read_list(file: Path) -> list[Any]:
    try:
        found = json.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise BadInput(f"Cannot read {file}: {error.strerror or error}.") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{file.name} is no JSON in UTF-8.") from None
    if not isinstance(found, list) or not found:
        raise BadInput(f"{file.name} is no JSON list of pairs.")
    return found


def _mj_rows(items: list[Any], file: Path) -> Iterator[TableRow]:
    needed = (*MJ_LAYOUT.videos, MJ_LAYOUT.prompt, OVERALL)
    for column in needed:
        if not any(isinstance(item, dict) and column in item for item in items):
            raise BadInput(
                f"{file.name} has no {column}. Each of its pairs needs {', '.join(needed)}."
            )
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict):
            yield TableRow(number, {}, "The row is no JSON object.")
            continue
        categories = item.get(CATEGORIES)
        values = {**(categories if isinstance(categories, dict) else {}), **item}
        yield TableRow(number, {name: as_text(value) for name, value in values.items()})
