"""A process that is killed at any moment loses nothing that it had ended, and what goes on repeats nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.support.scripted_runs import write_table
from vrthinker_core.results.result import RESULTS, TABLE, TRACES, read_results
from vrthinker_core.traces import load

ROOT = Path(__file__).resolve().parents[2]
ROWS = 24


def table_of(out: Path) -> list[dict[str, Any]]:
    """The final table, without the one column that differs between equal runs."""
    from pyarrow import parquet

    rows: list[dict[str, Any]] = parquet.read_table(out / TABLE).to_pylist()
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")
def test_killed_ten_times_the_table_is_that_of_a_run_without_a_break(tmp_path: Path) -> None:
    table = write_table(tmp_path, ROWS, broken=[7, 21])
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    module = [sys.executable, "-m", "tests.evaluation.support.killed_runs"]
    command = [*module, *map(str, (table, whole, killed))]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout)
    assert len(lines) == 10
    within = {count for count in lines if 2 < count < ROWS}
    assert len(within) >= 3, "it was killed in the middle of its work"
    assert table_of(killed) == table_of(whole)
    assert len(table_of(killed)) == ROWS
    assert sum(row["judged"] for row in table_of(killed)) == ROWS - 2
    results = list(read_results(killed / RESULTS))
    names = {result.pair.id for result in results}
    assert len(names) == len(results) == ROWS, "nothing was judged twice"
    assert all(load(killed / result.trace).finished for result in results if result.judged)
    assert len(list((killed / TRACES).glob("*.json"))) == ROWS - 2
