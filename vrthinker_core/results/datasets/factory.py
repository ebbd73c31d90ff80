"""Reads the data set that was chosen, and chooses some of its pairs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets.genai_bench import read_genai_bench
from vrthinker_core.results.datasets.mj_bench_video import read_mj_bench_video
from vrthinker_core.results.datasets.pair_csv import read_pair_csv
from vrthinker_core.results.datasets.videogen_reward import read_videogen_reward
from vrthinker_core.results.pair import EvaluationPair

DATASETS: dict[str, Callable[[Path], list[EvaluationPair]]] = {
    "videogen-reward": read_videogen_reward,
    "genai-bench": read_genai_bench,
    "mj-bench-video": read_mj_bench_video,
    "csv": read_pair_csv,
}
"""By the word that the command line has for them."""


def read_dataset(kind: str, path: Path) -> list[EvaluationPair]:
    """The pairs of a data set in the order of its rows, broken rows among them. Raises BadInput where nothing can be read."""
    if kind not in DATASETS:
        raise BadInput(f"There is no data set {kind!r}. Choose one of {', '.join(DATASETS)}.")
    try:
        if not path.exists():
            raise BadInput(f"There is no file or folder {path}.")
        pairs = DATASETS[kind](path.absolute())  # a result names its videos wherever it is read
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None
    if not pairs:
        raise BadInput(f"{path} holds no pair.")
    return pairs


def take_some(pairs: Sequence[EvaluationPair], limit: int | None) -> list[EvaluationPair]:
    """At most `limit` pairs: always the same of a data set, whatever the order of its rows, and all of a smaller limit's."""
    if limit is None:
        return list(pairs)
    if limit < 1:
        raise BadInput(f"--limit {limit} takes no pair: give a number from 1 up.")
    chosen = {pair.id for pair in sorted(pairs, key=lambda pair: pair.id)[:limit]}
    return [pair for pair in pairs if pair.id in chosen]
