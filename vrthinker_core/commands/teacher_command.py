"""The command `teacher`: runs of a judge over labelled pairs, for training."""

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
from vrthinker_core.commands.train_command import SCRIPTED, open_teacher
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Settings

if TYPE_CHECKING:
    from vrthinker_core.backends import Backend
    from vrthinker_core.training.pair_set import PairSet
    from vrthinker_core.training.teacher import BackendOfPair


@with_setting_options
def teacher(
    *,
    data: Annotated[
        str,
        typer.Option(help="Pairs: drawn:SEED, a data set, a table, rows, or a folder of traces."),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the runs: a new one, or one to continue.")],
    judge: JudgeOption = None,
    pairs: Annotated[
        int | None, typer.Option(help="Number of pairs, from the first on. (default: all)")
    ] = None,
    samples: Annotated[int, typer.Option(help="Runs per pair.")] = 1,
    settings: Settings,
) -> None:
    """Run a judge over labelled pairs; report runs fit for training.

    Every run is saved as a trace when it ends. The same command continues after a stop. The judge
    scripted works on drawn pairs only.
    """
    from vrthinker_core.backends.factory import default_choice
    from vrthinker_core.training.filters import report_outcomes
    from vrthinker_core.training.outcome_file import read_outcomes
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
    """Return the name of the data with an absolute path.

    Keeps the spelling of a folder that an earlier version began. Raises `BadInput`.
    """
    from vrthinker_core.training.data import absolute_data
    from vrthinker_core.training.outcome_file import OUTCOMES, read_job

    return absolute_data(
        data, str(read_job(out).get("data", "")) if (out / OUTCOMES).is_file() else None
    )


def _open(choice: str, data: str, settings: Settings) -> "tuple[PairSet, Backend | BackendOfPair]":
    """Open judge and its protocol's pairs; raises `BadInput`, `CheckpointError`."""
    from vrthinker_core.backends.factory import open_backend
    from vrthinker_core.protocols.factory import chosen_protocol, frame_layouts
    from vrthinker_core.training.data import open_pairs

    if choice == SCRIPTED:
        layouts = frame_layouts(settings, (chosen_protocol(settings, ()),))
        pairs = open_pairs(data, layouts)
        return pairs, open_teacher(choice, pairs, layouts).open()
    backend = open_backend(choice)
    return open_pairs(
        data, frame_layouts(settings, (chosen_protocol(settings, backend.protocols),))
    ), backend


def _how_many(pair_set: "PairSet", wanted: int | None) -> int:
    if wanted is not None and wanted < 1:
        raise BadInput(f"--pairs {wanted} takes no pair: give a number from 1 up.")
    if wanted is None and pair_set.size is None:
        raise BadInput("Drawn pairs never end: say how many with --pairs.")
    if wanted is None or pair_set.size is None:
        return wanted or pair_set.size or 0
    return min(wanted, pair_set.size)
