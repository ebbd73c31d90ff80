"""A plain CSV of pairs: `video1, video2, prompt`, and labels in `TA, MQ, VQ, OA` where there are any (1, 2, or 0 for a tie)."""

import csv
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.pair import EvaluationPair, pair_id
from vrthinker_core.types import Dimension, Preference, Verdict

COLUMNS = ("video1", "video2", "prompt")


def read_pair_csv(path: Path) -> list[EvaluationPair]:
    """The pairs; paths are relative to the folder of the file. Raises BadInput for a file without the three columns."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"Cannot read {path}: {error}.") from None
    missing = [column for column in COLUMNS if rows and column not in rows[0]]
    if missing:
        raise BadInput(f"{path.name} has no column {missing[0]}. A table of pairs has {', '.join(COLUMNS)}.")
    return [_pair(row, number, path.parent) for number, row in enumerate(rows, start=1)]


def _pair(row: dict[str, str], number: int, folder: Path) -> EvaluationPair:
    first, second = (str(folder / row[column]) for column in COLUMNS[:2])
    fault = next((f"There is no file {name}." for name in (first, second) if not Path(name).is_file()), "")
    known = {each.value: Preference(int(row[each.value])) for each in Dimension if row.get(each.value)}
    name = pair_id(row["prompt"], row["video1"], row["video2"])
    return EvaluationPair(name, number, row["prompt"], first, second, Verdict(**known), fault=fault)
