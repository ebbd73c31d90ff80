"""The commands about many pairs: `evaluate`, `report`. Their arguments are read here; what they do stands in `evaluation`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from vrthinker_core.commands.arguments import print_error, progress
from vrthinker_core.commands.setting_options import with_setting_options
from vrthinker_core.types import Settings

CONCURRENCY = 8  # Pairs in hand at a time, where nobody chose


@with_setting_options
def evaluate(
    dataset: Annotated[str, typer.Argument(help="csv")],
    path: Annotated[Path, typer.Argument(help="The table of pairs.")],
    *,
    judge: Annotated[str | None, typer.Option(help="nano, hf:ID_OR_PATH or scripted:FILE. [default: the best one here]")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("evaluation"),
    concurrency: Annotated[int, typer.Option(help="Pairs in hand at a time.")] = CONCURRENCY,
    settings: Settings,
) -> None:
    """Judge the pairs of a data set, and say how far the judge agrees with people."""
    from vrthinker_core.backends import open_backend
    from vrthinker_core.evaluation.datasets import read_dataset
    from vrthinker_core.evaluation.engines.local import judge_locally
    from vrthinker_core.evaluation.run import evaluate as run_evaluation

    pairs = read_dataset(dataset, path)
    backend = open_backend(judge)
    engine = partial(judge_locally, backend=backend, settings=settings, out=out, concurrency=concurrency)
    with progress("pairs") as advance:
        for done, result in enumerate(run_evaluation(pairs, engine, backend.name, out), start=1):
            print_error(f"Row {result.pair.row}: {result.error}" if result.error else "")
            advance(done, len(pairs))


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of an evaluation.")],
    other: Annotated[Path | None, typer.Argument(help="Folder of another judge's evaluation of the same data set.")] = None,
) -> None:
    """Sum up an evaluation, or compare two judges on the same pairs; the page and its JSON are written into the first folder."""
    from rich.console import Console

    from vrthinker_core.evaluation.reports.console_summary import print_comparison, print_summary
    from vrthinker_core.evaluation.reports.read_folder import read_folder
    from vrthinker_core.evaluation.reports.write import write_comparison, write_report
    from vrthinker_core.evaluation.scores import summarize

    results, data_set = read_folder(folder)
    if other is None:
        summary = summarize(results, data_set=data_set)
        print_summary(summary, Console())
        print(write_report(folder, summary, results))
        return
    page, compared = write_comparison((folder, other), results, read_folder(other)[0])
    print_comparison(compared, Console())
    print(page)
