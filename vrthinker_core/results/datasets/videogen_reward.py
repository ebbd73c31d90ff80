"""VideoGen-RewardBench: `videogen-rewardbench.csv` beside its `videos/`.

Labels are A, B or same.
"""

from functools import partial
from pathlib import Path

from vrthinker_core.results.datasets.layout import PairLayout, find_below, make_pairs
from vrthinker_core.results.datasets.table_file import read_table
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.types import Dimension, Preference

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
    table = path / VIDEOGEN_FILE if path.is_dir() else path
    columns = [
        *VIDEOGEN_LAYOUT.videos,
        *VIDEOGEN_LAYOUT.generators,
        VIDEOGEN_LAYOUT.prompt,
        *VIDEOGEN_LAYOUT.labels.values(),
    ]
    return make_pairs(
        read_table(table, columns),
        VIDEOGEN_LAYOUT,
        partial(find_below, table.parent, absolute=table is path),
    )
