"""The commands `evaluate`, `report` and `rank`."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Exit, Option

from vrthinker_core.backends import default_choice
from vrthinker_core.commands.terminal import (
    INTERRUPTED,
    NO_VERDICT,
    JudgeOption,
    ProgressCounts,
    pair_progress,
    print_error,
    stop_on_signal,
    with_setting_options,
)
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.figures import (
    agreement_sentence,
    cost_cells,
    interval_text,
    outcome_sentences,
    points_with_interval,
    share_with_interval,
    value_of,
)
from vrthinker_core.evaluation.job import (
    EvaluationJob,
    estimate as estimate_whole,
    open_out,
    read_pairs,
    results_so_far,
    take_sample,
    write_final_table,
)
from vrthinker_core.evaluation.video_table import VideoTable, read_videos
from vrthinker_core.protocols.factory import for_data_set
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import (
    ROW_FAULT,
    EvaluationRun,
    MissingRule,
    PairResult,
    read_run,
)
from vrthinker_core.runner import PAIRS_IN_HAND
from vrthinker_core.types import Dimension, Settings
from vrthinker_core.words import DASH, count, encodable, or_dash, p_value, printable, share

if TYPE_CHECKING:
    from vrthinker_core.evaluation.agreement import IntervalEstimate, JudgeComparison
    from vrthinker_core.evaluation.summary import Summary


def print_summary(summary: "Summary", console: Console) -> None:
    """Print a summary as plain text, narrow enough for a terminal."""
    rows = [
        [
            each.dimension.value,
            f"{each.answered:,} of {each.labelled:,}",
            _bare_interval(each.tau),
            _bare_interval(each.diff),
            f"{_bare(value_of(each.tie_rate))} ({_bare(each.people_tie_rate.value)})",
            _bare(each.best.tau),
        ]
        for each in summary.agreement
    ]
    judge = f"{summary.judge}, frames drawn at random" if summary.is_control else summary.judge
    title = f"{printable(judge)}, in per cent with 95 % intervals"
    heads = ("", "judged", "tau", "diff", "ties (people's)", "baseline")
    _print_table(console, title, heads, rows)
    main = summary.dimension
    lines = outcome_sentences(summary)
    lines += [agreement_sentence(each) for each in summary.agreement if each.dimension is main]
    lines += [
        f"In both orders {share_with_interval(swap.stable)} of {swap.pairs:,} pairs have the same "
        f"label, {share(swap.flips)} flip."
        for swap in summary.swap
        if swap.dimension is main
    ]
    lines += [
        f"Published for {tau.model}: tau {share(tau.value)}, diff {share(diff.value)}."
        for tau, diff in zip(summary.published_tau, summary.published_diff, strict=True)
    ]
    if summary.published_remark:
        lines.append(summary.published_remark)
    lines += [
        f"{each.name}, {count(each.pairs, 'pair')}: tau {share_with_interval(each.tau)}, diff "
        f"{share_with_interval(each.diff)}."
        for each in summary.subsets
    ]
    if costs := summary.costs:
        cells = {name: cell.content for name, cell in cost_cells(costs).items() if cell.value}
        lines.append(f"{'; '.join(f'{name}: {value}' for name, value in cells.items())}.")
    for line in lines:
        console.print(printable(line), markup=False, highlight=False)


def print_comparison(compared: "JudgeComparison", console: Console) -> None:
    """Print what two judges score on the same pairs."""
    heads = ("", "pairs", "first, %", "second, %", "difference, points", "McNemar p")
    rows = [
        [
            f"{each.dimension.value} {each.metric}",
            f"{each.pairs:,}",
            _bare(each.first),
            _bare(each.second),
            points_with_interval(each.difference),
            p_value(each.p),
        ]
        for each in compared.metrics
    ]
    first, second = map(printable, compared.judges)
    _print_table(console, f"first: {first}; second: {second}", heads, rows)
    told = (
        f"{compared.shared:,} pairs were judged by both, {compared.only_first:,} by the first "
        f"alone, {compared.only_second:,} by the second alone."
    )
    console.print(told, markup=False, highlight=False)


def _print_table(
    console: Console, title: str, heads: Sequence[str], rows: Sequence[Iterable[str]]
) -> None:
    if not rows:
        return
    table = Table(title=Text(title), box=None, pad_edge=False)
    for position, head in enumerate(heads):
        table.add_column(Text(head), justify="right" if position else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _bare(value: float | None) -> str:
    """Format per cent without the sign, as in `72.7`."""
    return share(value).removesuffix(" %")


def _bare_interval(estimate: "IntervalEstimate | None") -> str:
    """Format as in `72.7 (61.9–81.8)`."""
    return _bare(value_of(estimate)) + interval_text(estimate, around=" ({}–{})")


ResultsOption = Annotated[
    Path, Option(help="Folder for the results: new, or of the run to --resume.")
]
ConcurrencyOption = Annotated[
    int | None,
    Option(help="Pairs judged at the same time. (default: 8, or as many as a server takes)"),
]
EngineOption = Annotated[str, Option(help="local, or ray[:ADDRESS] for a cluster.")]
SAMPLE = 24  # default number of pairs in an estimate
CLIENT_LIMIT = 0.8
"""Share of one processor from which on this process, whose threads share one, slows a server down."""


@with_setting_options
def evaluate(
    dataset: Annotated[
        str, Argument(help="Layout: videogen-reward, genai-bench, mj-bench-video or csv.")
    ],
    path: Annotated[Path, Argument(help="Folder of the data set, or its table.")],
    *,
    judge: JudgeOption = None,
    out: ResultsOption = Path("evaluation"),
    limit: Annotated[
        int | None, Option(help="Judge only this many pairs, the same for any order of the rows.")
    ] = None,
    concurrency: ConcurrencyOption = None,
    engine: EngineOption = "local",
    resume: Annotated[
        bool, Option("--resume", help="Continue the run in --out; retry transient failures.")
    ] = False,
    estimate: Annotated[
        bool,
        Option(
            "--estimate", help="Judge and keep a random sample, and estimate the whole data set."
        ),
    ] = False,
    sample: Annotated[
        int | None, Option(help=f"Pairs in the sample of --estimate. (default: {SAMPLE})")
    ] = None,
    settings: Settings,
) -> None:
    """Judge a labelled data set, and report the agreement with people.

    Every result is saved at once. --resume continues a stopped or killed run.
    """
    if sample is not None and not estimate:
        raise BadInput(
            f"--sample {sample} needs --estimate: add --estimate, or judge fewer pairs with --limit."
        )
    size = SAMPLE if sample is None else sample
    if size < 1:
        raise BadInput(f"--sample {size} judges nothing: give a number from 1 up.")
    whole, pairs = read_pairs(dataset, path, limit)
    settings = for_data_set(settings, dataset)
    job = EvaluationJob(judge or default_choice(), settings, out, concurrency, engine)
    run = job.describe(dataset, path, whole, limit)
    chosen = take_sample(pairs, size) if estimate else pairs
    with open_out(out, run, resume=resume, pairs=whole), stop_on_signal() as stopped:
        counts = _judge(job, chosen, stopped)
        results = write_final_table(out, pairs)
    if stopped():
        print_error(
            f"Stopped; {len(results):,} of {count(len(pairs), 'pair')} have a result. Go on with --resume."
        )
        raise Exit(INTERRUPTED)
    if estimate:
        _print_estimate(results, chosen, pairs, counts, job)
    else:
        left_out = sum(result.left_out for result in results)
        judged = sum(result.judged for result in results)
        told = sum(result.has_verdict for result in results)
        failed = len(results) - judged - left_out
        others = f"{judged - told:,} without, {failed:,} failed, {left_out:,} left out"
        print(f"{count(told, 'pair')} with a verdict, {others}. Results: {encodable(str(out))}")
        if judged:
            _report(results, out, read_run(out))
    raise Exit(0 if any(result.has_verdict for result in results) else NO_VERDICT)


def _judge(
    job: EvaluationJob, pairs: Sequence[EvaluationPair], stopped: Callable[[], bool]
) -> ProgressCounts:
    used = time.process_time()
    before, results = job.start(pairs, stopped)
    failed = sum(not (result.judged or result.left_out) for result in before)
    counts = ProgressCounts(len(pairs), len(before), failed)
    with pair_progress(counts) as add:
        for result in results:
            add(result)
    counts.seconds = time.monotonic() - counts.begun
    counts.busy = (time.process_time() - used) / counts.seconds
    return counts


def _print_estimate(
    results: Sequence[PairResult],
    chosen: Sequence[EvaluationPair],
    pairs: Sequence[EvaluationPair],
    counts: ProgressCounts,
    job: EvaluationJob,
) -> None:
    ids = {pair.id for pair in chosen}
    sample = [result for result in results if result.pair.id in ids]
    if counts.judged:
        took = counts.seconds / counts.judged * len(sample)
    else:
        live = job.concurrency or PAIRS_IN_HAND
        took = sum(result.seconds for result in sample) / min(live, len(sample))
    whole = sum(not (pair.fault or pair.left_out) for pair in pairs)
    print("\n".join(estimate_whole(sample, whole, took).lines()))
    if job.served and counts.busy > CLIENT_LIMIT:
        print(
            f"This process was busy {counts.busy:.0%} of the time, so it is the limit, not the server: "
            "add --engine ray, which asks from several processes."
        )
    print("These results count: go on with --resume, without --estimate.")


def report(
    folders: Annotated[
        list[Path], Argument(help="Folder of an evaluation, or several of the same data set.")
    ],
) -> None:
    """Sum up an evaluation, or compare several on the same pairs.

    The HTML page and its JSON are written into the first folder.
    """
    from vrthinker_core.evaluation.write_report import read_folder, write_comparison

    found, console = [read_folder(folder) for folder in folders], Console()
    if len(found) == 1:
        _report(found[0].results, found[0].folder, found[0].run)
        return
    page, rows, compared = write_comparison(found)
    names = [compared[0].judges[0], *(each.judges[1] for each in compared)]
    cells = [[name, *(cell.content for cell in row)] for name, row in rows.items()]
    _print_table(console, "", ("on shared pairs", *map(printable, names)), cells)
    for each in compared:
        print_comparison(each, console)
    print(f"Report: {encodable(str(page))}")


def _report(results: Sequence[PairResult], folder: Path, run: EvaluationRun | None) -> None:
    from vrthinker_core.evaluation.summary import summarize
    from vrthinker_core.evaluation.write_report import write_report

    summary = summarize(results, run)
    print_summary(summary, Console())
    print(f"Report: {encodable(str(write_report(folder, summary, results)))}")


@with_setting_options
def rank(
    videos: Annotated[
        Path,
        Argument(
            help="Folder of generators with prompts.csv, or a CSV with generator, prompt, video."
        ),
    ],
    *,
    judge: JudgeOption = None,
    budget: Annotated[
        int | None, Option(help="Judge at most this many pairs, the most telling. (default: all)")
    ] = None,
    missing: Annotated[
        MissingRule, Option(help="How a missing or undecodable video counts.")
    ] = "loses",
    out: ResultsOption = Path("ranking"),
    resume: Annotated[bool, Option("--resume", help="Continue with the results in --out.")] = False,
    concurrency: ConcurrencyOption = None,
    engine: EngineOption = "local",
    settings: Settings,
) -> None:
    """Rank video generators by comparing their videos of the same prompts."""
    from vrthinker_core.evaluation.rankings import all_pairs, judge_pairs, planned_pairs

    if settings.frames == "random":
        raise BadInput("--frames random is a control and ranks nothing: use it with evaluate.")
    table = replace(read_videos(videos), rule=missing)
    pairs, planned = all_pairs(table), planned_pairs(table, budget)
    for line in table.left_out:
        print_error(line)
    job = EvaluationJob(judge or default_choice(), settings, out, concurrency, engine)
    run = job.describe("ranking", videos, pairs, budget)
    # Earlier versions made a run of these pairs alone.
    whole = all_pairs(replace(table, missing={}))
    with open_out(out, run, resume=resume, pairs=whole), stop_on_signal() as stopped:
        before = results_so_far(pairs, out).values()
        earlier = sum(result.fault != ROW_FAULT for result in before)
        name, ask = job.open_engine(stopped)
        with pair_progress(ProgressCounts(max(planned, earlier), earlier)) as add:
            for result in judge_pairs(table, ask, name, out, budget, stopped):
                if result.fault != ROW_FAULT:  # missing videos are already named
                    add(result)
        if stopped():
            print_error("Stopped; all results are kept. Go on with --resume.")
            raise Exit(INTERRUPTED)
        raise Exit(_report_ranking(table, write_final_table(out, pairs), out, name))


def _report_ranking(table: VideoTable, results: Sequence[PairResult], out: Path, judge: str) -> int:
    """Write the ranking, and print it with at most five cycles."""
    from vrthinker_core.evaluation.ranking_page import write_report
    from vrthinker_core.evaluation.rankings import rank_generators

    ranking = rank_generators(table, results, judge)
    write_report(ranking, out)
    console = Console(highlight=False)
    others = [each for each in Dimension if each is not Dimension.OA]
    rows = Table("", "generator", "strength", "95 %", "win rate", "no video", *others, box=None)
    places = {
        each: {row.generator: row.place for row in of.strengths}
        for each, of in ranking.dimensions.items()
    }
    for row in ranking.dimensions[Dimension.OA].strengths:
        interval = row.interval
        figures = (
            or_dash(row.place),
            printable(row.generator),
            or_dash(row.strength, "+z.2f"),
            f"{interval[0]:+z.2f} to {interval[1]:+z.2f}" if interval else DASH,
            or_dash(row.all_pairs.rate, ".0%"),
            str(row.without_video),
            *(or_dash(places[each][row.generator]) for each in others),
        )
        rows.add_row(*map(Text, figures))
    console.print(rows)
    for line in ranking.summary(5):
        console.print(Text(printable(line)))
    console.print(Text(f"{out / 'ranking.html'} shows the win matrix and the best of each prompt."))
    return 0 if ranking.pairs else NO_VERDICT
