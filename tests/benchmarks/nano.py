"""python -m tests.benchmarks.nano [--quick]

The built-in judge's labels against the truth of drawn pairs, through the whole product.

Draws 60 pairs that no training run has seen (6 with --quick), writes them as video files, and judges them: decoding, prompts, image
sizes, positions, tool calls and parsing are those of the product. Prints how often all four labels are right, and how often each
is. The last line is JSON.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from tests.benchmarks.tools import benchmark_parser
from vrthinker_core import Dimension, judge, open_backend
from vrthinker_core.drawn.video_files import write_pairs
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.types.events import add_event

UNSEEN = 2_000_000_000
"""First seed of the pairs that no training run draws from."""


def main() -> None:
    """Run the benchmark."""
    count = 6 if benchmark_parser(__doc__, "6 pairs").parse_args().quick else 60
    with tempfile.TemporaryDirectory() as folder:
        table = write_pairs(count, UNSEEN, Path(folder), 224)
        print(json.dumps(measure(read_dataset("csv", table))))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    pairs, chance = result["pairs"], result["right_by_chance"]
    each = ", ".join(f"{name} for {count}" for name, count in result["right"].items())
    return (
        f"all four labels right for {result['all_four_right']} of {pairs} pairs (by chance {chance['all_four']:.1f}); "
        f"each alone: {each} (by chance {chance['each']:.1f})"
    )


def measure(rows: Sequence[EvaluationPair]) -> dict[str, object]:
    """Judge every row; returns counts of right labels and of stop reasons."""
    backend, stops = open_backend("nano"), Counter[str]()
    right, all_right = dict.fromkeys((dimension.value for dimension in Dimension), 0), 0
    for row in rows:
        truth = {name: int(label) for name, label in row.labels.labels.items()}
        end = reduce(add_event, judge(row.videos, backend), None).finished
        labels = end.verdict.labels if end.verdict else {}
        all_right += labels == truth
        stops[end.stop] += 1
        for name, label in truth.items():
            right[name] += labels.get(name) == label
        if labels != truth:
            told = f"labels {labels}, truth {truth} ({row.prompt}) {end.error}"
            print(f"{Path(row.first).name}: {told}", flush=True)
    by_chance = {"each": round(len(rows) / 3, 1), "all_four": round(len(rows) / 81, 1)}
    counts = {"pairs": len(rows), "all_four_right": all_right, "right": right, "stops": stops}
    return {**counts, "right_by_chance": by_chance}


if __name__ == "__main__":
    main()
