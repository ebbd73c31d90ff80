"""A data set of the size and shape of VideoGen-RewardBench over a few files, and an evaluation of it that opens none of them."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation.support import made_results as made
from tests.evaluation.support.public_files import VIDEOGEN_ROW, write_videogen
from tests.evaluation.support.scripted_runs import made_results, run_description
from vrthinker_core.evaluation.job import judge_rows, open_out, results_so_far, write_final_table
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.evaluation.write_report import write_report
from vrthinker_core.results.open_dataset import read_dataset
from vrthinker_core.results.result import PairResult

GENERATORS = ("CogVideoX", "qingying", "Kling", "Sora", "LaVie")


def write_many(folder: Path, rows: int) -> Path:
    """A table of so many rows, each with a prompt of its own; one in a hundred names a video that is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"videos/{generator}/1.mp4" for generator in GENERATORS]
    labels = [("A", "same", "B", "A"), ("B", "B", "same", "same"), ("same", "A", "A", "B")]
    made = []
    for number in range(rows):
        first, second = number % len(names), (number + 1) % len(names)
        path = "gone.mp4" if number % 100 == 99 else names[second]
        prompt = f"{VIDEOGEN_ROW[4]} Take {number}, with the light of another hour of the day."
        generators = GENERATORS[first], GENERATORS[second]
        size = VIDEOGEN_ROW[-4:]
        made.append((names[first], path, *generators, prompt, *labels[number % 3], *size))
    return write_videogen(folder, made)


def evaluate_many(table: Path, out: Path) -> list[PairResult]:
    """Read the table, judge its rows with an engine that opens nothing, sum them up, and write all there is to write."""
    pairs = read_dataset("videogen-reward", table)
    with open_out(out, run_description(pairs), resume=True):
        for _ in judge_rows(pairs, made_results, "scripted", out, results_so_far(pairs, out)):
            pass
        results = write_final_table(out, pairs)
    write_report(out, summarize(results, made.run_of("videogen-reward")), results)
    return results
