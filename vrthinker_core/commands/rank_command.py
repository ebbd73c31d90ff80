"""The command `rank`: a ranking as a table, JSON and HTML."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer import Argument, Exit, Option

from vrthinker_core.backends.factory import default_choice
from vrthinker_core.commands.arguments import (
    CONCURRENCY,
    INTERRUPTED,
    NOTHING_JUDGED,
    ConcurrencyOption,
    EngineOption,
    JudgeOption,
    ResultsOption,
    print_error,
    stop_on_signal,
    with_setting_options,
)
from vrthinker_core.commands.console import ProgressCounts, pair_progress
from vrthinker_core.evaluation.job import EvaluationJob
from vrthinker_core.evaluation.out_folder import open_out
from vrthinker_core.evaluation.run import results_so_far, write_final_table
from vrthinker_core.results.result import ROW_FAULT, MissingRule
from vrthinker_core.text import printable
from vrthinker_core.types import Dimension, Settings

if TYPE_CHECKING:
    from vrthinker_core.evaluation.video_table import VideoTable


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
    concurrency: ConcurrencyOption = CONCURRENCY,
    engine: EngineOption = "local",
    settings: Settings,
) -> None:
    """Rank video generators by comparing their videos of the same prompts."""
    from vrthinker_core.evaluation.schedule import all_pairs, planned_pairs
    from vrthinker_core.evaluation.video_table import read_videos

    table = replace(read_videos(videos), rule=missing)
    planned_pairs(table, budget)
    for line in table.left_out:
        print_error(line)
    job = EvaluationJob(judge or default_choice(), settings, out, concurrency, engine)
    run = job.describe("ranking", videos, all_pairs(table), budget)
    # Earlier versions made a run of these pairs alone.
    whole = all_pairs(replace(table, missing={}))
    with open_out(out, run, resume=resume, pairs=whole), stop_on_signal() as stopped:
        name = _judge(job, table, budget, stopped)
        raise Exit(INTERRUPTED if stopped() else _report(table, out, name))


def _judge(
    job: EvaluationJob, table: "VideoTable", budget: int | None, stopped: Callable[[], bool]
) -> str:
    """Judge the pairs without a result; return the judge's name."""
    from vrthinker_core.evaluation.schedule import all_pairs, judge_pairs, planned_pairs

    before = results_so_far(all_pairs(table), job.out).values()
    earlier = sum(result.fault != ROW_FAULT for result in before)
    name, engine = job.open_engine(stopped)
    with pair_progress(ProgressCounts(max(planned_pairs(table, budget), earlier), earlier)) as add:
        for result in judge_pairs(table, engine, name, job.out, budget, stopped):
            if result.fault != ROW_FAULT:  # missing videos are already named
                add(result)
    if stopped():
        print_error("Stopped; all results are kept. Go on with --resume.")
    return name


def _report(table: "VideoTable", out: Path, judge: str) -> int:
    """Write the ranking, and print it with at most five cycles."""
    from vrthinker_core.evaluation.ranking_page import write_report
    from vrthinker_core.evaluation.rankings import rank_generators
    from vrthinker_core.evaluation.schedule import all_pairs

    ranking = rank_generators(table, write_final_table(out, all_pairs(table)), judge)
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
            _or_dash(row.place),
            printable(row.generator),
            _or_dash(row.strength, "+z.2f"),
            f"{interval[0]:+z.2f} to {interval[1]:+z.2f}" if interval else "–",
            _or_dash(row.all_pairs.rate, ".0%"),
            str(row.without_video),
            *(_or_dash(places[each][row.generator]) for each in others),
        )
        rows.add_row(*map(Text, figures))
    console.print(rows)
    for line in ranking.summary(5):
        console.print(Text(printable(line)))
    console.print(Text(f"{out / 'ranking.html'} shows the win matrix and the best of each prompt."))
    return 0 if ranking.pairs else NOTHING_JUDGED


def _or_dash(figure: float | None, form: str = "") -> str:
    return "–" if figure is None else format(figure, form)
