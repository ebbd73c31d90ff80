"""A plain CSV of pairs with the columns `video1, video2, prompt`.

Optional columns: labels in `TA, MQ, VQ, OA`, generators in `model1, model2`.
"""

from functools import partial
from pathlib import Path

from vrthinker_core.results.datasets.layout import PairLayout, find_below, make_pairs
from vrthinker_core.results.datasets.table_file import read_table
from vrthinker_core.results.pair import EvaluationPair
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
    columns = [*CSV_LAYOUT.videos, CSV_LAYOUT.prompt]
    optional = [*CSV_LAYOUT.labels.values(), *CSV_LAYOUT.generators]
    return make_pairs(
        read_table(path, columns, optional),
        CSV_LAYOUT,
        partial(find_below, path.parent, absolute=True),
    )
