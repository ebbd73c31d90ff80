"""Reads the data set that was chosen."""

from collections.abc import Callable
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.datasets.pair_csv import read_pair_csv
from vrthinker_core.results.pair import EvaluationPair

DATASETS: dict[str, Callable[[Path], list[EvaluationPair]]] = {"csv": read_pair_csv}
"""By the word that the command line has for them."""


def read_dataset(kind: str, path: Path) -> list[EvaluationPair]:
    """The pairs of a data set in the order of its rows, broken rows among them. Raises BadInput where nothing can be read."""
    if kind not in DATASETS:
        raise BadInput(f"There is no data set {kind!r}. Choose one of {', '.join(DATASETS)}.")
    return DATASETS[kind](path)
