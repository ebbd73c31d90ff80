"""python -m tests.evaluation.support.killed_runs TABLE WHOLE KILLED

Judges the pairs of a table twice with a script: into WHOLE without a break, into KILLED by processes that get SIGKILL at random
moments, and one at last that may end. Prints as JSON how many lines of results stood there after each kill.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

from tests.evaluation.support.scripted_runs import run_description, scripted_judge
from vrthinker_core.evaluation.job import judge_rows, open_out, results_so_far, write_final_table
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.results.result import RESULTS
from vrthinker_core.types import Settings

KILLS = 10
LATEST_SECONDS = 0.1
"""Between the first result of a process and its end, or between its beginning and its end."""


def main(table: Path, whole: Path, killed: Path) -> None:
    """Run, kill, and run again. This process must have no threads: it forks."""
    pairs = read_dataset("csv", table)
    moments, lines = random.Random(5), []
    _wait_for(_start(pairs, whole, batch=False))
    for number in range(KILLS):
        before = _lines(killed)
        process = _start(pairs, killed, batch=number % 2 == 0)
        if number % 5:  # else within opening the folder, or anywhere
            while _lines(killed) == before and not os.waitid(
                os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT
            ):
                time.sleep(0.005)
        time.sleep(moments.uniform(0, LATEST_SECONDS))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        after = _lines(killed)
        assert after[: len(before)] == before, "a line that was there is there for ever"
        lines.append(len(after))
    _wait_for(_start(pairs, killed, batch=True))
    print(json.dumps(lines))


def _start(pairs: list[EvaluationPair], out: Path, *, batch: bool) -> int:
    """A process that judges what is left; gives its number."""
    if process := os.fork():
        return process
    try:
        how = {"backend": scripted_judge(batch=batch), "settings": Settings(), "concurrency": 2}
        engine = partial(judge_locally, out=out, **how)  # type: ignore[arg-type]
        with open_out(out, run_description(pairs), resume=True):
            for _ in judge_rows(pairs, engine, "scripted", out, results_so_far(pairs, out)):
                pass
            write_final_table(out, pairs)
        os._exit(0)
    finally:
        os._exit(1)


def _wait_for(process: int) -> None:
    _, status = os.waitpid(process, 0)
    assert status == 0, "the process that was left alone came to its end"


def _lines(out: Path) -> list[bytes]:
    try:
        return (out / RESULTS).read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
