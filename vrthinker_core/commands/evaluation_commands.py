"""The commands `evaluate` and `report`."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from rich.console import Console
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
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.job import EvaluationJob, take_sample
from vrthinker_core.evaluation.job import estimate as estimate_whole
from vrthinker_core.evaluation.out_folder import open_out
from vrthinker_core.evaluation.run import evaluate as run_evaluation
from vrthinker_core.evaluation.run import results_so_far, write_final_table
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.open_dataset import read_dataset, take_some
from vrthinker_core.results.result import PairResult
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings
from vrthinker_core.types.progress import count

SAMPLE = 24  # default number of pairs in an estimate


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
    concurrency: ConcurrencyOption = CONCURRENCY,
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
    job = EvaluationJob(judge or default_choice(), settings, out, concurrency, engine)
    whole = read_dataset(dataset, path)
    run = job.describe(dataset, path, whole, limit)
    pairs = take_some(whole, limit)
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
        ids = {pair.id for pair in chosen}
        _print_estimate(
            [result for result in results if result.pair.id in ids], pairs, counts, concurrency
        )
    else:
        left_out = sum(result.left_out for result in results)
        judged = sum(result.judged for result in results)
        told, failed = (
            sum(result.has_verdict for result in results),
            len(results) - judged - left_out,
        )
        others = f"{judged - told:,} without, {failed:,} failed, {left_out:,} left out"
        print(f"{count(told, 'pair')} with a verdict, {others}. Results: {encodable(str(out))}")
        if judged:
            _report(results, out, run.dataset)
    raise Exit(0 if any(result.has_verdict for result in results) else NOTHING_JUDGED)


def _judge(
    job: EvaluationJob, pairs: Sequence[EvaluationPair], stopped: Callable[[], bool]
) -> ProgressCounts:
    done = results_so_far(pairs, job.out)
    before = [done[pair.id] for pair in pairs if pair.id in done]
    failed = sum(not (result.judged or result.left_out) for result in before)
    if len(before) == len(pairs):
        return ProgressCounts(len(pairs), len(pairs))
    name, engine = job.open_engine(stopped)
    counts = ProgressCounts(len(pairs), len(before), failed)
    with pair_progress(counts) as add:
        for result in run_evaluation(pairs, engine, name, job.out, done, stopped):
            add(result)
    counts.seconds = time.monotonic() - counts.begun
    return counts


def _print_estimate(
    sample: Sequence[PairResult],
    pairs: Sequence[EvaluationPair],
    counts: ProgressCounts,
    concurrency: int,
) -> None:
    if not sample:
        raise BadInput("No row can be judged: there is nothing to estimate.")
    if counts.judged:
        took = counts.seconds / counts.judged * len(sample)
    else:
        took = sum(result.seconds for result in sample) / min(concurrency, len(sample))
    whole = sum(not (pair.fault or pair.left_out) for pair in pairs)
    print("\n".join(estimate_whole(sample, whole, took).lines()))
    print("These results count: go on with --resume, without --estimate.")


def report(
    folder: Annotated[Path, Argument(help="Folder of an evaluation.")],
    other: Annotated[
        Path | None, Argument(help="Folder of another judge's evaluation of the same data set.")
    ] = None,
) -> None:
    """Sum up an evaluation, or compare two judges on the same pairs.

    The HTML page and its JSON are written into the first folder.
    """
    from vrthinker_core.evaluation.console_summary import print_comparison
    from vrthinker_core.evaluation.write_report import read_folder, write_comparison

    results, data_set = read_folder(folder)
    if other is None:
        _report(results, folder, data_set)
        return
    page, compared = write_comparison((folder, other), results, read_folder(other)[0])
    print_comparison(compared, Console())
    print(f"Report: {encodable(str(page))}")


def _report(results: Sequence[PairResult], folder: Path, data_set: str) -> None:
    from vrthinker_core.evaluation.console_summary import print_summary
    from vrthinker_core.evaluation.summary import summarize
    from vrthinker_core.evaluation.write_report import write_report

    summary = summarize(results, data_set=data_set)
    print_summary(summary, Console())
    print(f"Report: {encodable(str(write_report(folder, summary, results)))}")
