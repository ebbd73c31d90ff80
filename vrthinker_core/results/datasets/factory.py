"""Reading of a data set by name, and choice of pairs."""

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
"""Readers by their name on the command line."""


def read_dataset(kind: str, path: Path) -> list[EvaluationPair]:
    """Return the pairs and broken rows in row order; raises `BadInput`."""
    if kind not in DATASETS:
        raise BadInput(f"There is no data set {kind!r}. Choose one of {', '.join(DATASETS)}.")
    try:
        if not path.exists():
            raise BadInput(f"There is no file or folder {path}.")
        # Absolute, because results name their videos and may be read from any folder.
        pairs = DATASETS[kind](path.absolute())
    except OSError as error:
        raise BadInput(f"Cannot read {path}: {error.strerror or error}.") from None
    if not pairs:
        raise BadInput(f"{path} holds no pair.")
    return pairs


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
