"""The command `teacher`: runs of any judge over pairs with known labels, to be learnt from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vrthinker_core.commands.arguments import (
    INTERRUPTED,
    NOTHING_JUDGED,
    JudgeOption,
    print_error,
    progress,
    stop_on_signal,
    with_setting_options,
)
from vrthinker_core.commands.training.training_data import SCRIPTED, open_teacher
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Settings

if TYPE_CHECKING:
    from vrthinker_core.backends import Backend
    from vrthinker_core.training.labelled_pairs.pair_set import PairSet
    from vrthinker_core.training.teacher import BackendOfPair


@with_setting_options
def teacher(
    *,
    data: Annotated[
        str, typer.Option(help="drawn:SEED, a data set, a table, rows, or a folder of traces.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the runs: a new one, or one to go on with.")],
    judge: JudgeOption = None,
    pairs: Annotated[
        int | None,
        typer.Option(help="How many pairs, from the first on. (default: all of the data)"),
    ] = None,
    samples: Annotated[int, typer.Option(help="Runs of each pair.")] = 1,
    settings: Settings,
) -> None:
    """Run a judge over pairs with known labels, and say which of its runs can be learnt from; scripted knows drawn pairs.

    Every run is kept as a trace as it ends. Calling the command again goes on where it stopped.
    """
    from vrthinker_core.backends.factory import default_choice
    from vrthinker_core.training.rows.filters import report_outcomes
    from vrthinker_core.training.rows.outcome_file import read_outcomes
    from vrthinker_core.training.teacher import TeacherJob, run_teacher

    if samples < 1:
        raise BadInput(f"--samples {samples} makes no run: give a number from 1 up.")
    choice = judge or default_choice()
    pair_set, backend = _open(choice, data, settings)
    numbers = range(_how_many(pair_set, pairs))
    job = TeacherJob(choice, _named_data(data, out), settings, samples)
    with stop_on_signal() as stopped, progress("runs") as advance:
        for made, _ in enumerate(
            run_teacher(pair_set, numbers, backend, job, out, stopped), start=1
        ):
            advance(made, len(numbers) * samples)
    report = report_outcomes(read_outcomes(out))
    for line in report.lines:
        print(line)
    if stopped():
        print_error("Stopped; call the command again to go on.")
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if report.kept else NOTHING_JUDGED)


def _named_data(data: str, out: Path) -> str:
    """What the folder says its pairs are: with their whole path, or as an earlier version began it. Raises BadInput."""
    from vrthinker_core.training.labelled_pairs.open_pairs import absolute_data
    from vrthinker_core.training.rows.outcome_file import OUTCOMES, read_job

    return absolute_data(
        data, str(read_job(out).get("data", "")) if (out / OUTCOMES).is_file() else None
    )


def _open(choice: str, data: str, settings: Settings) -> "tuple[PairSet, Backend | BackendOfPair]":
    """The judge, and the pairs with the frames of the protocol that it was trained for. Raises BadInput and CheckpointError."""
    from vrthinker_core.backends.factory import open_backend
    from vrthinker_core.dialects.factory import chosen_protocol, frame_layouts
    from vrthinker_core.training.labelled_pairs.open_pairs import open_pairs

    if choice == SCRIPTED:
        layouts = frame_layouts(settings, (chosen_protocol(settings, ()),))
        pairs = open_pairs(data, layouts)
        return pairs, open_teacher(choice, pairs, layouts).open()
    backend = open_backend(choice)
    return open_pairs(
        data, frame_layouts(settings, (chosen_protocol(settings, backend.protocols),))
    ), backend


def _how_many(pair_set: "PairSet", wanted: int | None) -> int:
    """How many pairs are judged. Raises BadInput."""
    if wanted is not None and wanted < 1:
        raise BadInput(f"--pairs {wanted} takes no pair: give a number from 1 up.")
    if wanted is None and pair_set.size is None:
        raise BadInput("Drawn pairs never end: say how many with --pairs.")
    if wanted is None or pair_set.size is None:
        return wanted or pair_set.size or 0
    return min(wanted, pair_set.size)
