"""The folder of an evaluation: one run at a time writes it, and no run ever writes into that of another."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.files.atomic_file import hold_folder, remove_parts
from vrthinker_core.results.result_file import RESULTS, TRACES
from vrthinker_core.results.run_file import RUN, EvaluationRun, read_run, write_run


@contextmanager
def open_out(out: Path, run: EvaluationRun, *, resume: bool) -> Iterator[Path]:
    """The folder `out`, made ready for the run and held until the block ends, or the process dies.

    `resume` goes on with the same run where it was left, and begins it where nothing is there yet. Raises BadInput for a folder
    that another process writes, that holds anything else, or that holds a run and is not to be resumed.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with hold_folder(out):
            remove_parts(out)
            before = _run_there(out, run, resume)
            write_run(out, replace(run, starts=(*(before.starts if before else ()), *run.starts)))
            (out / TRACES).mkdir(exist_ok=True)
            yield out
    except BrokenPipeError:  # of whoever reads what is printed, not of the folder
        raise
    except OSError as error:
        raise BadInput(f"Cannot write to {out}: {error.strerror or error}.") from None


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
