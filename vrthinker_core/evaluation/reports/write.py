"""Writes reports: `report.html` and `report.json` of an evaluation, `comparison.html` and `comparison.json` of two judges."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.reports.comparison_page import comparison_page
from vrthinker_core.evaluation.reports.disagreements import MAX_SHOWN, disagreements
from vrthinker_core.evaluation.reports.evaluation_page import evaluation_page
from vrthinker_core.evaluation.scores.judge_comparison import (
    JudgeComparison,
    compare_judges,
    shared_results,
)
from vrthinker_core.evaluation.scores.summary import Summary, summarize
from vrthinker_core.files.atomic_file import write_atomically
from vrthinker_core.results.result import PairResult

REPORT, COMPARISON = "report", "comparison"  # Names of the files, before .html and .json


def write_report(out: Path, summary: Summary, results: Sequence[PairResult]) -> Path:
    """Write the report of one evaluation into its folder; gives the page. Raises BadInput where nothing can be written."""
    worst = disagreements(results, summary.dimension)
    values = {
        "format": "vr-thinker-report/1",
        "summary": asdict(summary),
        "disagreements": {
            "pairs": len(worst),
            "worst": [asdict(each) for each in worst[:MAX_SHOWN]],
        },
    }
    return _write(out / REPORT, evaluation_page(summary, results), values)


def write_comparison(
    folders: tuple[Path, Path], first: Sequence[PairResult], second: Sequence[PairResult]
) -> tuple[Path, JudgeComparison]:
    """Write the comparison of two judges into the first one's folder; gives the page, and what it says.

    `folders` are those of the two evaluations. Raises BadInput where they share no pair, or nothing can be written.
    """
    shared = shared_results(first, second)
    compared = compare_judges(first, second)
    if compared.judges[0] == compared.judges[1]:
        compared = replace(compared, judges=_by_folder(compared.judges[0], folders))
    summaries = summarize(shared.first), summarize(shared.second)
    page = comparison_page(compared, shared, summaries, ("", _way(*folders)))
    values = {
        "format": "vr-thinker-comparison/1",
        "comparison": asdict(compared),
        "summaries": [asdict(each) for each in summaries],
    }
    return _write(folders[0] / COMPARISON, page, values), compared


def _by_folder(judge: str, folders: tuple[Path, Path]) -> tuple[str, str]:
    """Names for one judge in two evaluations."""
    first, second = (f"{judge} in {folder.resolve().name}" for folder in folders)
    return (first, second) if first != second else (f"{judge}, first", f"{judge}, second")


def _way(start: Path, other: Path) -> str:
    """From the one folder to the other, as a link goes; the full path where no relative one leads there."""
    try:
        return Path(os.path.relpath(other.resolve(), start.resolve())).as_posix() + "/"
    except ValueError:  # another drive
        return other.resolve().as_posix() + "/"


def _write(path: Path, page: str, values: dict[str, Any]) -> Path:
    """Both files beside each other; gives the page."""
    text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        for file, content in (
            (path.with_suffix(".json"), text + "\n"),
            (path.with_suffix(".html"), page),
        ):
            write_atomically(file, content.encode(errors="replace"))
    except OSError as error:
        raise BadInput(f"Cannot write {path}: {error.strerror or error}.") from None
    return path.with_suffix(".html")
