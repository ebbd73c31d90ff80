"""The folder of an evaluation, which one run at a time writes."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from vrthinker_core.errors import BadInput, out_of_files
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import RESULTS, ROW_FAULT, TRACES, latest_results
from vrthinker_core.results.run_file import RUN, EvaluationRun, pairs_digest, read_run, write_run
from vrthinker_core.storage import hold_folder, remove_parts


@contextmanager
def open_out(
    out: Path, run: EvaluationRun, *, resume: bool, pairs: Iterable[EvaluationPair] = ()
) -> Iterator[Path]:
    """Prepare the folder `out` and hold it until the block ends.

    A process that dies frees it, too. `resume` goes on with the same run, or begins it in an empty
    folder. A run is the same, too, if rows of its data set that were broken have other labels now;
    `pairs` are those of the whole set. Raises BadInput for a folder that another process writes,
    that holds anything else, or that holds a run and is not to be resumed.
    """
    with ExitStack() as held:
        with writing_to(out):
            out.mkdir(parents=True, exist_ok=True)
            held.enter_context(hold_folder(out))
            remove_parts(out)
            before = _run_there(out, run, resume, pairs)
            write_run(out, replace(run, starts=(*(before.starts if before else ()), *run.starts)))
            (out / TRACES).mkdir(exist_ok=True)
        yield out


@contextmanager
def writing_to(out: Path) -> Iterator[None]:
    """Turn an OSError of writing the folder into a BadInput."""
    try:
        yield
    except OSError as error:
        raise BadInput(
            out_of_files(error) or f"Cannot write to {out}: {error.strerror or error}."
        ) from None


def _run_there(
    out: Path, run: EvaluationRun, resume: bool, pairs: Iterable[EvaluationPair]
) -> EvaluationRun | None:
    """Read the run in the folder; None if nothing was judged. Raises BadInput."""
    if not any(out.iterdir()):
        return None
    if not (out / RUN).exists():
        raise BadInput(f"{out} holds other files and no evaluation: name a new folder with --out.")
    before, judged = read_run(out), (out / RESULTS).exists()
    if before.digest != run.digest:
        # The data set with its broken rows as they were when they got their results
        last = latest_results(out / RESULTS).items()
        broken = {name: result.pair for name, result in last if result.fault == ROW_FAULT}
        if pairs_digest(broken.get(pair.id, pair) for pair in pairs) == before.digest:
            before = replace(before, digest=run.digest)
    difference = before.difference(run)
    if (difference or not resume) and not judged:
        return None  # a start that was refused before its first pair
    if difference:
        raise BadInput(
            f"{out} holds another evaluation, with {difference}: name a new folder with --out."
        )
    if not resume:
        raise BadInput(
            f"{out} holds this evaluation already: go on with --resume, or name a new folder with "
            "--out."
        )
    return before
