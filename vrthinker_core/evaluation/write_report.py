"""Reports of an evaluation or of two judges, as HTML and JSON."""

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import JudgeComparison, compare_judges, shared_results
from vrthinker_core.evaluation.evaluation_page import (
    MAX_SHOWN,
    METRICS,
    disagreements,
    evaluation_page,
    fact,
    one_right_section,
)
from vrthinker_core.evaluation.figures import (
    estimate_bars,
    points_with_interval,
    share_cell,
    unchecked_sentence,
)
from vrthinker_core.evaluation.html import (
    Cell,
    Html,
    HtmlRow,
    element,
    interval_bars,
    join,
    number,
    paragraph,
    percent,
    plots,
    remark,
    render_page,
    sortable_table,
    write_page,
)
from vrthinker_core.evaluation.summary import Summary, summarize
from vrthinker_core.results.result import (
    RESULTS,
    RUN,
    EvaluationRun,
    PairResult,
    final_results,
    read_run,
)
from vrthinker_core.types.wording import DIMENSION_NAMES
from vrthinker_core.words import count, p_value, points, share


def read_folder(folder: Path) -> tuple[list[PairResult], EvaluationRun | None]:
    """Read the results, and what the run is if known. Raises BadInput without results."""
    if not (folder / RESULTS).is_file():
        raise BadInput(f"{folder} holds no {RESULTS}. Give the folder that evaluate has written.")
    run = read_run(folder) if (folder / RUN).exists() else None
    return final_results(folder / RESULTS), run


def write_report(out: Path, summary: Summary, results: Sequence[PairResult]) -> Path:
    """Write the report of one evaluation into its folder; gives the page. Raises BadInput."""
    worst = disagreements(results, summary.dimension)
    shown = {"pairs": len(worst), "worst": [asdict(each) for each in worst[:MAX_SHOWN]]}
    values = {"format": "vr-thinker-report/1", "summary": asdict(summary), "disagreements": shown}
    failed = f"Cannot write {out / 'report'}"
    return write_page(out / "report.html", evaluation_page(summary, results), values, failed)


def write_comparison(
    folders: tuple[Path, Path], first: Sequence[PairResult], second: Sequence[PairResult]
) -> tuple[Path, JudgeComparison]:
    """Compare two judges; writes into the first one's folder, gives the page.

    `folders`: the two evaluations. Raises BadInput if they share no pair, or if the page cannot be
    written.
    """
    shared, compared = shared_results(first, second), compare_judges(first, second)
    judge, other_judge = compared.judges
    home, other = (folder.resolve() for folder in folders)
    if judge == other_judge:
        names = f"{judge} in {home.name}", f"{judge} in {other.name}"
        if names[0] == names[1]:
            names = f"{judge}, first", f"{judge}, second"
        compared = replace(compared, judges=names)
    try:
        way = Path(os.path.relpath(other, home))
    except ValueError:  # another drive
        way = other
    summaries = summarize(shared[0]), summarize(shared[1])
    dimension, links = summaries[0].dimension, ("", f"{way.as_posix()}/")
    sections = [
        ("Difference", _difference_section(compared)),
        ("Side by side", _side_by_side(compared, summaries)),
        ("One judge right", one_right_section(shared, compared.judges, links, dimension)),
    ]
    page = render_page(" and ".join(compared.judges), _lead(compared, summaries), sections)
    values = {
        "format": "vr-thinker-comparison/1",
        "comparison": asdict(compared),
        "summaries": [asdict(each) for each in summaries],
    }
    path = folders[0] / "comparison.html"
    return write_page(path, page, values, f"Cannot write {path.with_suffix('')}"), compared


def _lead(compared: JudgeComparison, summaries: tuple[Summary, Summary]) -> Html:
    dimension = summaries[0].dimension
    text = (
        f"{compared.shared:,} pairs were judged by both, {compared.only_first:,} by the first "
        f"alone and {compared.only_second:,} by the second alone. Everything here is about the "
        f"shared pairs. {unchecked_sentence(*summaries)}"
    )
    sentences, facts = [paragraph(text.rstrip())], []
    for each in compared.metrics:
        if each.dimension is not dimension:
            continue
        lead, low, high = each.difference.value, each.difference.low, each.difference.high
        first, second = share(each.first), share(each.second)
        told = f"{DIMENSION_NAMES[dimension]}, {each.metric}:"
        if lead == 0:
            told += f" both judges score {first}."
        else:
            sure = low is not None and high is not None and (low > 0 or high < 0) and each.p < 0.05
            told += (
                f" {compared.judges[0 if lead > 0 else 1]} is "
                f"{'clearly better' if sure else 'ahead, but not clearly'}, {first} against "
                f"{second} on {count(each.pairs, 'pair')}."
            )
        sentences.append(paragraph(told))
        facts.append(fact(each.metric, points(lead), f"points, p {p_value(each.p)}"))
    same = dict(compared.same).get(dimension)
    if same is not None:
        facts.append(fact("same label", share(same), DIMENSION_NAMES[dimension].lower()))
    return join(*sentences, element("dl", *facts, class_="facts"))


def _difference_section(compared: JudgeComparison) -> Html:
    if not compared.metrics:
        return paragraph("People gave no labels for these pairs, so neither judge is better here.")
    rows: list[HtmlRow] = [
        [
            f"{DIMENSION_NAMES[each.dimension]}, {each.metric}",
            number(each.pairs),
            percent(each.first),
            percent(each.second),
            Cell(points_with_interval(each.difference), each.difference.value),
            number(each.first_alone),
            number(each.second_alone),
            Cell(p_value(each.p), each.p),
        ]
        for each in compared.metrics
    ]
    alone = ("only first right", "only second right", "McNemar p")
    heads = ("figure", "pairs", *compared.judges, "difference, points", *alone)
    differences = []
    for metric in METRICS:
        bars = estimate_bars(
            (DIMENSION_NAMES[each.dimension], each.difference)
            for each in compared.metrics
            if each.metric == metric
        )
        ends = (end for bar in bars for end in (bar.value, bar.low, bar.high) if end is not None)
        most = max([0.05, *map(abs, ends)])
        title = f"{metric}, points"
        differences.append(interval_bars(title, bars, span=(-most, most), unit="points"))
    return join(
        paragraph(
            f"Difference in points, {' less '.join(compared.judges)}, with its 95 % interval over "
            "prompts."
        ),
        plots(*differences),
        sortable_table("Both judges on the same pairs", heads, rows),
        remark(
            "McNemar's exact test takes pairs of one prompt for independent: where prompts repeat, "
            "trust the interval."
        ),
    )


def _side_by_side(compared: JudgeComparison, summaries: tuple[Summary, Summary]) -> Html:
    """Show figures of both judges; those that neither has are left out."""
    dimension = summaries[0].dimension
    name = DIMENSION_NAMES[dimension].lower()
    columns = []
    for summary in summaries:
        ties = (each.tie_rate for each in summary.agreement if each.dimension is dimension)
        first = (each.first for each in summary.position if each.dimension is dimension)
        stable = (each.stable for each in summary.swap if each.dimension is dimension)
        errors = (each.error for each in summary.calibration if each.dimension is dimension)
        costs = summary.costs
        columns.append(
            {
                f"ties, {name}": share_cell(next(ties, None)),
                f"prefers video 1, {name}": share_cell(next(first, None)),
                f"same label in both orders, {name}": share_cell(next(stable, None)),
                f"calibration error, {name}": percent(next(errors, None)),
                "frames a pair, mean": number(costs.frames.mean if costs else None, 1),
                "turns a pair, mean": number(costs.turns.mean if costs else None, 1),
                "new tokens a pair, mean": number(costs.new_tokens.mean if costs else None, 1),
                "seconds a pair, median": number(costs.seconds.median if costs else None, 1),
            }
        )
    rows: list[HtmlRow] = [
        [head, *(column[head] for column in columns)]
        for head in columns[0]
        if any(column[head].value is not None for column in columns)
    ]
    return sortable_table("What else differs", ("on the shared pairs", *compared.judges), rows)
