"""The folder of an evaluation: one run at a time writes it, and no run ever writes into that of another."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import BadInput, out_of_files
from vrthinker_core.files.atomic_file import hold_folder, remove_parts
from vrthinker_core.results.result_file import RESULTS, TRACES
from vrthinker_core.results.run_file import RUN, EvaluationRun, read_run, write_run


@contextmanager
def open_out(out: Path, run: EvaluationRun, *, resume: bool) -> Iterator[Path]:
    """The folder `out`, made ready for the run and held until the block ends, or the process dies.

    `resume` goes on with the same run where it was left, and begins it where nothing is there yet. Raises BadInput for a folder
    that another process writes, that holds anything else, or that holds a run and is not to be resumed.
    """
    with ExitStack() as held:
        with writing_to(out):
            out.mkdir(parents=True, exist_ok=True)
            held.enter_context(hold_folder(out))
            remove_parts(out)
            before = _run_there(out, run, resume)
            write_run(out, replace(run, starts=(*(before.starts if before else ()), *run.starts)))
            (out / TRACES).mkdir(exist_ok=True)
        yield out


@contextmanager
def writing_to(out: Path) -> Iterator[None]:
    """A block in which the folder `out` is written, and nothing else is done: an OSError of it becomes one sentence, a BadInput."""
    try:
        yield
    except OSError as error:
        raise BadInput(out_of_files(error) or f"Cannot write to {out}: {error.strerror or error}.") from None


def _run_there(out: Path, run: EvaluationRun, resume: bool) -> EvaluationRun | None:
    """The run that is in the folder; None for an empty one, and where nothing was judged. Raises BadInput."""
    if not any(out.iterdir()):
        return None
    if not (out / RUN).exists():
        raise BadInput(f"{out} holds other files and no evaluation: name a new folder with --out.")
    before = read_run(out)
    difference = before.difference(run)
    if (difference or not resume) and not (out / RESULTS).exists():
        return None  # a start that was refused before its first pair
    if difference:
        raise BadInput(f"{out} holds another evaluation, with {difference}: name a new folder with --out.")
    if not resume:
        raise BadInput(f"{out} holds this evaluation already: go on with --resume, or name a new folder with --out.")
    return before
