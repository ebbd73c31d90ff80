"""`results.parquet`: the results as one flat table for pandas, DuckDB and others.

One row per pair.
"""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import atomic_path
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension, Verdict

TABLE = "results.parquet"  # beside `results.jsonl`

PAIR_TEXTS = ("id", "prompt", "first", "second", "first_generator", "second_generator")
TEXTS = ("judge", "stop", "error", "fault", "trace")
FLAGS = ("judged", "left_out", "provisional", "forced", "outside_scope")
COUNTS = ("confidence", "turns", "frames", "prompt_tokens", "new_tokens")
# Labels of people, of the judge, and of the judge in the swapped order: a column per dimension.
VERDICTS = ("label", "verdict", "swapped")
OUTCOMES = ("tie", "1", "2")  # with a probability from the judge


def check_pyarrow() -> None:
    """Raise `BadInput` if pyarrow is missing, before any pair is judged."""
    if find_spec("pyarrow") is None:
        raise BadInput(
            "An evaluation writes its table with pyarrow: run pip install -e '.[evaluate]'."
        )


def write_table(results: Iterable[PairResult], path: Path) -> None:
    """Write the whole table; raises `OSError`."""
    import pyarrow
    from pyarrow import parquet

    columns = _columns()
    rows = [table_row(result) for result in results]
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in columns.items()])
    arrays = {name: [row[name] for row in rows] for name in columns}
    # An open file, because pyarrow itself opens only UTF-8 names.
    with atomic_path(path) as part, part.open("wb") as file:
        parquet.write_table(pyarrow.table(arrays, schema=schema), file)


def table_row(result: PairResult) -> dict[str, Any]:
    """Return a table row; labels are 1, 2, 0 (tie) or None."""
    pair, (first, second) = result.pair, result.clip_seconds or (None, None)
    verdicts = zip(VERDICTS, (pair.labels, result.verdict, result.swapped), strict=True)
    row: dict[str, Any] = {
        "row": pair.row,
        "seconds": result.seconds,
        "first_seconds": first,
        "second_seconds": second,
    }
    row |= {name: getattr(pair, name) for name in PAIR_TEXTS}
    row |= {name: str(getattr(result, name)) for name in TEXTS}
    row |= {name: getattr(result, name) for name in (*FLAGS, *COUNTS)}
    for name, verdict in verdicts:
        row |= {
            f"{name}_{dimension.value}": label and int(label)
            for dimension, label in verdict or Verdict()
        }
    for dimension in Dimension:
        told = (result.probabilities or {}).get(dimension, (None, None, None))
        row |= {
            f"p_{dimension.value}_{outcome}": value
            for outcome, value in zip(OUTCOMES, told, strict=True)
        }
    return row


def _columns() -> dict[str, str]:
    labels = [f"{name}_{dimension.value}" for name in VERDICTS for dimension in Dimension]
    shares = [f"p_{dimension.value}_{outcome}" for dimension in Dimension for outcome in OUTCOMES]
    return {
        "row": "int64",
        **dict.fromkeys((*PAIR_TEXTS, *TEXTS), "string"),
        **dict.fromkeys(FLAGS, "bool_"),
        **dict.fromkeys(labels, "int8"),
        **dict.fromkeys(shares, "float64"),
        **dict.fromkeys(COUNTS, "int64"),
        **dict.fromkeys(("seconds", "first_seconds", "second_seconds"), "float64"),
    }
