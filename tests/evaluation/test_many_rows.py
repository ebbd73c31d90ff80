"""A whole public data set is read, scheduled and summed up in the time its rows take, not in their square."""

from __future__ import annotations

import time
from pathlib import Path

from tests.evaluation.support.many_rows import evaluate_many, write_many

ROWS = 2000
SECONDS_A_ROW = 60 / 26_500  # What the largest set has, in processor time


def test_two_thousand_rows_take_their_share_of_a_minute(tmp_path: Path) -> None:
    table = write_many(tmp_path, ROWS)
    evaluate_many(write_many(tmp_path / "warm", 10), tmp_path / "warm" / "out")
    began = time.process_time()
    results = evaluate_many(table, tmp_path / "out")
    taken = time.process_time() - began
    assert len(results) == ROWS
    assert sum(result.judged for result in results) == ROWS - ROWS // 100, (
        "one row in a hundred is broken"
    )
    assert taken < SECONDS_A_ROW * ROWS
