"""python -m tests.benchmarks.evaluate [--quick]

26,500 rows read, scheduled, kept, summed up and reported, with a script as the judge; some of them over real clips.

The rows have the shape of VideoGen-RewardBench over a handful of files. For all of them the engine is a script that opens no video:
this is what an evaluation itself takes. Then a share of them is judged by a scripted judge over real small clips, each opened and
decoded in processes of its own: this is what the videos add. `--quick` takes a tenth. The last line is JSON; the exit status is 1
when the rows take more than a minute or 500 MB.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.tools import benchmark_parser
from tests.evaluation.support.many_rows import evaluate_many, write_many
from tests.evaluation.support.scripted_runs import run_description, scripted_judge, write_table
from vrthinker_core.evaluation.job import judge_rows, open_out
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.types import Settings

ROWS, CLIP_ROWS = 26_500, 200
MOST_SECONDS, MOST_MB = 60, 500


def main() -> None:
    """Measure both."""
    parser = benchmark_parser(__doc__, "a tenth of the rows")
    share = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory() as name:
        rows = measure_rows(Path(name) / "rows", ROWS // share)
        print(f"rows   {rows}", flush=True)
        clips = measure_clips(Path(name) / "clips", CLIP_ROWS // share)
        print(f"clips  {clips}")
    print(json.dumps({"rows": rows, "clips": clips}))
    sys.exit(rows["seconds"] > MOST_SECONDS or rows["peak_mb"] > MOST_MB)


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    rows, clips = result["rows"], result["clips"]
    return (
        f"{rows['rows']:,} rows in {rows['seconds']:.1f} s ({rows['processor_seconds']:.1f} s of one processor) and "
        f"{rows['peak_mb']:.0f} MB without their videos; with small clips {clips['pairs_a_second']:.1f} pairs a second"
    )


def measure_rows(folder: Path, rows: int) -> dict[str, float]:
    """From the table to the report, with an engine that opens nothing."""
    table = write_many(folder, rows)
    began, processor = time.perf_counter(), time.process_time()
    done = len(evaluate_many(table, folder / "out"))
    unit = 2**10 if sys.platform == "linux" else 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    seconds, own = time.perf_counter() - began, time.process_time() - processor
    figures = {"seconds": round(seconds, 2), "processor_seconds": round(own, 2)}
    return {"rows": done, **figures, "peak_mb": round(peak)}


def measure_clips(folder: Path, rows: int) -> dict[str, float]:
    """Pairs of real clips, judged by a script."""
    pairs, out = read_dataset("csv", write_table(folder, rows)), folder / "out"
    engine = partial(
        judge_locally, backend=scripted_judge(pause=0), settings=Settings(), out=out, concurrency=8
    )
    began = time.perf_counter()
    with open_out(out, run_description(pairs), resume=False):
        judged = sum(result.judged for result in judge_rows(pairs, engine, "scripted", out, {}))
    return {"pairs": judged, "pairs_a_second": round(judged / (time.perf_counter() - began), 2)}


if __name__ == "__main__":
    main()
