"""The command `teacher`: runs of a judge over labelled pairs, for training."""

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from vrthinker_core.backends.factory import default_choice, open_backend
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
from vrthinker_core.protocols.factory import chosen_protocol, frame_layouts
from vrthinker_core.types import Settings


@with_setting_options
def teacher(
    *,
    data: Annotated[
        str, Option(help="Pairs: drawn:SEED, a data set, a table, rows, or a folder of traces.")
    ],
    out: Annotated[Path, Option(help="Folder for the runs: a new one, or one to continue.")],
    judge: JudgeOption = None,
    pairs: Annotated[
        int | None, Option(help="Number of pairs, from the first on. (default: all)")
    ] = None,
    samples: Annotated[int, Option(help="Runs per pair.")] = 1,
    settings: Settings,
) -> None:
    """Run a judge over labelled pairs; report runs fit for training.

    Every run is saved as a trace when it ends. The same command continues after a stop. The judge
    scripted works on drawn pairs only.
    """
    from vrthinker_core.training.data import absolute_data, open_pairs
    from vrthinker_core.training.filters import report_outcomes
    from vrthinker_core.training.outcome_file import OUTCOMES, read_job, read_outcomes
    from vrthinker_core.training.teacher import TeacherJob, run_teacher

    if samples < 1:
        raise BadInput(f"--samples {samples} makes no run: give a number from 1 up.")
    choice = judge or default_choice()
    opened = None if choice == SCRIPTED else open_backend(choice)
    trained = () if opened is None else opened.protocols
    layouts = frame_layouts(settings, (chosen_protocol(settings, trained),))
    pair_set = open_pairs(data, layouts)
    backend = opened or open_teacher(choice, pair_set, layouts).open()
    if pairs is not None and pairs < 1:
        raise BadInput(f"--pairs {pairs} takes no pair: give a number from 1 up.")
    sizes = [size for size in (pairs, pair_set.size) if size is not None]
    if not sizes:
        raise BadInput("Drawn pairs never end: say how many with --pairs.")
    # A folder keeps the spelling of the data with which an earlier version began it
    earlier = str(read_job(out).get("data", "")) if (out / OUTCOMES).is_file() else None
    job = TeacherJob(choice, absolute_data(data, earlier), settings, samples)
    numbers = range(min(sizes))
    with stop_on_signal() as stopped, progress("runs") as advance:
        runs = run_teacher(pair_set, numbers, backend, job, out, stopped)
        for made, _ in enumerate(runs, start=1):
            advance(made, len(numbers) * samples)
    report = report_outcomes(read_outcomes(out))
    for line in report.lines:
        print(line)
    if stopped():
        print_error("Stopped; call the command again to go on.")
        raise Exit(INTERRUPTED)
    raise Exit(0 if report.kept else NOTHING_JUDGED)
