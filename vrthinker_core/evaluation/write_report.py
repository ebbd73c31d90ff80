"""Reports of one evaluation, or of several side by side, as HTML and JSON."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import JudgeComparison, compare_judges, shared_results
from vrthinker_core.evaluation.evaluation_page import (
    MAX_SHOWN,
    disagreements,
    evaluation_page,
    one_right_section,
)
from vrthinker_core.evaluation.figures import (
    cost_cells,
    points_with_interval,
    share_cell,
    unchecked_sentence,
)
from vrthinker_core.evaluation.html import (
    Cell,
    Html,
    HtmlRow,
    join,
    number,
    paragraph,
    percent,
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
from vrthinker_core.types import Dimension
from vrthinker_core.types.wording import CONTROL, DIMENSION_NAMES
from vrthinker_core.words import DASH, count, p_value, share


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a folder holds; `run` is None if unknown."""

    folder: Path
    results: Sequence[PairResult]
    run: EvaluationRun | None = None


def read_folder(folder: Path) -> Evaluation:
    """Read an evaluation. Raises BadInput without results."""
    if not (folder / RESULTS).is_file():
        raise BadInput(f"{folder} holds no {RESULTS}. Give the folder that evaluate has written.")
    run = read_run(folder) if (folder / RUN).exists() else None
    return Evaluation(folder, final_results(folder / RESULTS), run)


def write_report(out: Path, summary: Summary, results: Sequence[PairResult]) -> Path:
    """Write the report of one evaluation into its folder; gives the page. Raises BadInput."""
    worst = disagreements(results, summary.dimension)
    shown = {"pairs": len(worst), "worst": [asdict(each) for each in worst[:MAX_SHOWN]]}
    values = {"format": "vr-thinker-report/1", "summary": asdict(summary), "disagreements": shown}
    failed = f"Cannot write {out / 'report'}"
    return write_page(out / "report.html", evaluation_page(summary, results), values, failed)


SideBySide = dict[str, list[Cell]]  # a figure of each evaluation by its name


def write_comparison(
    evaluations: Sequence[Evaluation],
) -> tuple[Path, SideBySide, list[JudgeComparison]]:
    """Compare evaluations; writes into the first one's folder.

    Gives the page, the figures side by side, on the pairs that all have judged, and each other one
    against the first. Raises BadInput if they share no pair, or if the page cannot be written.
    """
    first, *others = evaluations
    shared, names = shared_results(*(each.results for each in evaluations)), _names(evaluations)
    compared = [
        replace(compare_judges(first.results, other.results), judges=(names[0], name))
        for other, name in zip(others, names[1:], strict=True)
    ]
    summaries = [
        summarize(results, each.run) for results, each in zip(shared, evaluations, strict=True)
    ]
    rows, dimension = _side_by_side(summaries), summaries[0].dimension
    heads = (f"on {count(len(shared[0]), 'shared pair')}", *names)
    beside = sortable_table("Side by side", heads, [[name, *row] for name, row in rows.items()])
    sections = [
        (f"Difference from {each.judges[1]}", _difference_section(each)) for each in compared
    ]
    sections.insert(0, ("Side by side", beside))
    if len(evaluations) == 2:
        links = "", f"{_way(others[0].folder.resolve(), first.folder.resolve())}/"
        alone = one_right_section(shared, compared[0].judges, links, dimension)
        sections.append(("One judge right", alone))
    page = render_page(" and ".join(names), _lead(names, compared, summaries), sections)
    values = {
        "format": "vr-thinker-comparison/2",
        "comparisons": [asdict(each) for each in compared],
        "summaries": [asdict(each) for each in summaries],
    }
    path = first.folder / "comparison.html"
    failed = f"Cannot write {path.with_suffix('')}"
    return write_page(path, page, values, failed), rows, compared


def _way(folder: Path, home: Path) -> str:
    try:
        return Path(os.path.relpath(folder, home)).as_posix()
    except ValueError:  # another drive
        return folder.as_posix()


def _names(evaluations: Sequence[Evaluation]) -> list[str]:
    """Name each evaluation by its judge and the settings that differ, else by its folder."""
    chosen = [asdict(each.run.settings) if each.run else {} for each in evaluations]
    known = chosen[0] if all(chosen) else {}
    differ = [name for name in known if len({settings[name] for settings in chosen}) > 1]
    names = []
    for each, settings in zip(evaluations, chosen, strict=True):
        judge = ", ".join(sorted({result.judge for result in each.results}))
        words = (
            f"{name.replace('_', ' ')} {'own' if settings[name] is None else settings[name]}"
            for name in differ
        )
        names.append(", ".join([judge, *words]))
    if len(set(names)) < len(names):
        folders = (each.folder.resolve().name for each in evaluations)
        names = [f"{name} in {folder}" for name, folder in zip(names, folders, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name}, number {place}" for place, name in enumerate(names, start=1)]
    return names


def _lead(
    names: Sequence[str], compared: Sequence[JudgeComparison], summaries: Sequence[Summary]
) -> Html:
    told = [
        f"{each.shared:,} pairs were judged by both {' and '.join(each.judges)}, "
        f"{each.only_first:,} by the first alone and {each.only_second:,} by the second alone."
        for each in compared
    ]
    controls = zip(names, summaries, strict=True)
    told += [f"{name}: {CONTROL}" for name, each in controls if each.is_control]
    text = " ".join([*told, unchecked_sentence(*summaries)]).rstrip()
    sentences = [_lead_of(each, summaries[0].dimension) for each in compared]
    return join(paragraph(text), *sentences)


def _lead_of(compared: JudgeComparison, dimension: Dimension) -> Html:
    sentences = []
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
    same = dict(compared.same).get(dimension)
    if same is not None:
        sentences.append(paragraph(f"Both give the same label to {share(same)} of the pairs."))
    return join(*sentences)


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
    return join(
        paragraph(
            f"Difference in points, {' less '.join(compared.judges)}, with its 95 % interval over "
            "prompts."
        ),
        sortable_table("Both judges on the same pairs", heads, rows),
        remark(
            "McNemar's exact test takes pairs of one prompt for independent: where prompts repeat, "
            "trust the interval."
        ),
    )


def _side_by_side(summaries: Sequence[Summary]) -> SideBySide:
    """Give the figures of each evaluation; those that none has are left out."""
    dimension = summaries[0].dimension
    name = DIMENSION_NAMES[dimension].lower()
    columns = []
    for summary in summaries:
        scores = [each for each in summary.agreement if each.dimension is dimension]
        first = (each.first for each in summary.position if each.dimension is dimension)
        stable = (each.stable for each in summary.swap if each.dimension is dimension)
        errors = (each.error for each in summary.calibration if each.dimension is dimension)
        columns.append(
            {
                f"tau, {name}": share_cell(scores[0].tau if scores else None),
                f"diff, {name}": share_cell(scores[0].diff if scores else None),
                f"ties, {name}": share_cell(scores[0].tie_rate if scores else None),
                f"prefers video 1, {name}": share_cell(next(first, None)),
                f"same label in both orders, {name}": share_cell(next(stable, None)),
                f"calibration error, {name}": percent(next(errors, None)),
                **(cost_cells(summary.costs) if summary.costs else {}),
            }
        )
    rows = {
        head: [each.get(head, Cell(DASH)) for each in columns] for head in max(columns, key=len)
    }
    return {head: row for head, row in rows.items() if any(cell.value is not None for cell in row)}
