"""The commands that judge many pairs: `evaluate`. Their arguments are read here; what they do stands in `evaluation`."""

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
