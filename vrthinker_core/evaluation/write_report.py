"""Writes reports: `report.html` and `report.json` of an evaluation, `comparison.html` and `comparison.json` of two judges."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import Metric
from vrthinker_core.evaluation.disagreements import MAX_SHOWN, disagreements
from vrthinker_core.evaluation.evaluation_page import evaluation_page, fact
from vrthinker_core.evaluation.figures import (
    points,
    points_with_interval,
    probability,
    share,
    share_cell,
    unchecked_sentence,
)
from vrthinker_core.evaluation.html import (
    Bar,
    Cell,
    Html,
    element,
    figure_table,
    interval_bars,
    join,
    number,
    paragraph,
    percent,
    plots,
    remark,
    render_page,
)
from vrthinker_core.evaluation.judge_comparison import (
    JudgeComparison,
    MetricComparison,
    SharedResults,
    compare_judges,
    shared_results,
)
from vrthinker_core.evaluation.pair_tables import one_right_section
from vrthinker_core.evaluation.summary import Summary, summarize
from vrthinker_core.results.result import RESULTS, PairResult, final_results
from vrthinker_core.results.run_file import RUN, read_run
from vrthinker_core.storage import write_atomically
from vrthinker_core.types import Dimension
from vrthinker_core.types.progress import count
from vrthinker_core.types.wording import DIMENSION_NAMES


def read_folder(folder: Path) -> tuple[list[PairResult], str]:
    """The results, and the data set's name on the command line, "" where nothing says which it was.

    Raises BadInput for a folder that holds no results.
    """
    if not (folder / RESULTS).is_file():
        raise BadInput(f"{folder} holds no {RESULTS}. Give the folder that evaluate has written.")
    data_set = read_run(folder).dataset if (folder / RUN).exists() else ""
    return final_results(folder / RESULTS), data_set


SMALL = 0.05  # A p below it is called clear
COSTS = (
    "frames a pair, mean",
    "turns a pair, mean",
    "new tokens a pair, mean",
    "seconds a pair, median",
)


def comparison_page(
    compared: JudgeComparison,
    shared: SharedResults,
    summaries: tuple[Summary, Summary],
    folders: tuple[str, str],
) -> str:
    """The whole file. `summaries` are of the shared pairs; `folders` is where each judge's traces lie, as a link says it."""
    dimension = summaries[0].dimension
    sections = [
        ("Difference", _difference_section(compared)),
        ("Side by side", _side_by_side(compared, summaries)),
        ("One judge right", one_right_section(shared, compared.judges, folders, dimension)),
    ]
    return render_page(
        f"{compared.judges[0]} and {compared.judges[1]}", _lead(compared, summaries), sections
    )


def difference_sentence(found: MetricComparison, judges: tuple[str, str]) -> str:
    """Which judge is better in that figure, and whether that is clear."""
    better = judges[0] if found.difference.value > 0 else judges[1]
    name = f"{DIMENSION_NAMES[found.dimension]}, {found.metric}"
    if found.difference.value == 0:
        return f"{name}: both judges score {share(found.first)}."
    low, high = found.difference.low, found.difference.high
    clear = low is not None and high is not None and (low > 0 or high < 0) and found.p < SMALL
    seen = "clearly better" if clear else "ahead, but not clearly"
    return f"{name}: {better} is {seen}, {share(found.first)} against {share(found.second)} on {count(found.pairs, 'pair')}."


def _lead(compared: JudgeComparison, summaries: tuple[Summary, Summary]) -> Html:
    dimension = summaries[0].dimension
    text = (
        f"{compared.shared:,} pairs were judged by both, {compared.only_first:,} by the first alone and {compared.only_second:,} "
        f"by the second alone. Everything here is about the shared pairs. {unchecked_sentence(*summaries)}"
    )
    main = [each for each in compared.metrics if each.dimension is dimension]
    facts = [
        fact(each.metric, f"{points(each.difference.value)}", f"points, p {probability(each.p)}")
        for each in main
    ]
    same = dict(compared.same).get(dimension)
    facts += (
        [fact("same label", share(same), DIMENSION_NAMES[dimension].lower())]
        if same is not None
        else []
    )
    sentences = (paragraph(difference_sentence(each, compared.judges)) for each in main)
    return join(paragraph(text.rstrip()), *sentences, element("dl", *facts, class_="facts"))


def _difference_section(compared: JudgeComparison) -> Html:
    if not compared.metrics:
        return paragraph("People gave no labels for these pairs, so neither judge is better here.")
    heads = (
        "figure",
        "pairs",
        *compared.judges,
        "difference, points",
        "only first right",
        "only second right",
        "McNemar p",
    )
    rows = (
        (f"{DIMENSION_NAMES[each.dimension]}, {each.metric}", _cells(each))
        for each in compared.metrics
    )
    metrics: tuple[Metric, ...] = ("tau", "diff")
    text = f"Difference in points, {compared.judges[0]} less {compared.judges[1]}, with its 95 % interval over prompts."
    return join(
        paragraph(text),
        plots(*(_difference_plot(compared, metric) for metric in metrics)),
        figure_table("Both judges on the same pairs", heads, rows),
        remark(
            "McNemar's exact test takes pairs of one prompt for independent: where prompts repeat, trust the interval."
        ),
    )


def _difference_plot(compared: JudgeComparison, metric: Metric) -> Html:
    found = [each for each in compared.metrics if each.metric == metric]
    bars = [
        Bar(
            DIMENSION_NAMES[each.dimension],
            each.difference.value,
            each.difference.low,
            each.difference.high,
        )
        for each in found
    ]
    ends = [abs(end) for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None]
    most = max([0.05, *ends])
    return interval_bars(f"{metric}, points", bars, span=(-most, most), unit="points")


def _cells(each: MetricComparison) -> list[Cell]:
    return [
        number(each.pairs),
        percent(each.first),
        percent(each.second),
        Cell(points_with_interval(each.difference), each.difference.value),
        number(each.first_alone),
        number(each.second_alone),
        Cell(probability(each.p), each.p),
    ]


def _side_by_side(compared: JudgeComparison, summaries: tuple[Summary, Summary]) -> Html:
    return figure_table(
        "What else differs", ("on the shared pairs", *compared.judges), _figures(summaries)
    )


def _figures(summaries: tuple[Summary, Summary]) -> list[tuple[str, list[Cell]]]:
    """Rows of names with a cell for each judge; those that neither has are left out."""
    name = DIMENSION_NAMES[summaries[0].dimension].lower()
    cells = list(
        zip(*(_judge_cells(summary, summaries[0].dimension) for summary in summaries), strict=True)
    )
    heads = (
        f"ties, {name}",
        f"prefers video 1, {name}",
        f"same label in both orders, {name}",
        f"calibration error, {name}",
        *COSTS,
    )
    return [
        (head, list(row))
        for head, row in zip(heads, cells, strict=True)
        if any(cell.value is not None for cell in row)
    ]


def _judge_cells(summary: Summary, dimension: Dimension) -> list[Cell]:
    costs = summary.costs
    ties = (each.tie_rate for each in summary.agreement if each.dimension is dimension)
    first = (each.first for each in summary.position if each.dimension is dimension)
    stable = (each.stable for each in summary.swap if each.dimension is dimension)
    errors = (each.error for each in summary.calibration if each.dimension is dimension)
    means = (
        [costs.frames.mean, costs.turns.mean, costs.new_tokens.mean, costs.seconds.median]
        if costs
        else [None] * len(COSTS)
    )
    shares = [
        share_cell(next(ties, None)),
        share_cell(next(first, None)),
        share_cell(next(stable, None)),
        percent(next(errors, None)),
    ]
    return [*shares, *(number(mean, 1) for mean in means)]


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
