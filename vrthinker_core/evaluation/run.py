"""An evaluation: holds its folder, judges pairs without a result, and keeps each result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain, takewhile
from pathlib import Path

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput, VideoError, out_of_files
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import (
    RESULTS,
    ROW_FAULT,
    RUN,
    TABLE,
    TRACES,
    EvaluationRun,
    PairResult,
    ResultFile,
    broken_row,
    final_results,
    latest_results,
    pairs_digest,
    read_run,
    write_run,
    write_table,
)
from vrthinker_core.storage import hold_folder, remove_parts

Engine = Callable[[Iterable[EvaluationPair]], Iterator[PairResult]]
"""Judges pairs and gives results as they come, in any order; one for each pair."""


@contextmanager
def open_out(
    out: Path, run: EvaluationRun, *, resume: bool, pairs: Iterable[EvaluationPair] = ()
) -> Iterator[Path]:
    """Prepare the folder `out` and hold it until the block ends.

    If the process dies, the folder is free again. `resume` continues the same run, or begins one in
    an empty folder. The run counts as the same if only broken rows of the data set have changed;
    `pairs` holds the whole data set. Raises BadInput for a folder that another process writes,
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


def results_so_far(pairs: Iterable[EvaluationPair], out: Path) -> dict[str, PairResult]:
    """Read the results that count, by the ids of their pairs.

    A transient failure does not count, nor does a broken row that has been mended: these are judged
    again. So is a video that cannot be read, if an earlier version kept the result and did not say
    which one it is. Raises BadInput for a file that holds anything else.
    """
    mended = {pair.id for pair in pairs if not pair.fault}
    return {
        name: result
        for name, result in latest_results(out / RESULTS).items()
        if not (result.is_transient or (result.fault == ROW_FAULT and name in mended))
        and (result.unreadable or result.fault != VideoError.__name__)
    }


def evaluate(
    pairs: Sequence[EvaluationPair],
    engine: Engine,
    judge: str,
    out: Path,
    done: Mapping[str, PairResult],
    stopped: Callable[[], bool] = not_cancelled,
) -> Iterator[PairResult]:
    """Judge what is not `done`; gives each result once `out` keeps it.

    A broken row, or one that is left out, has a result at once, in the name of `judge`. Once
    `stopped`, no pair is begun any more, and pairs in hand are kept only if they have a result.
    Raises BadInput if the folder cannot be written.
    """
    left = [pair for pair in pairs if pair.id not in done]
    broken = [broken_row(pair, judge) for pair in left if pair.fault or pair.left_out]
    sound = [pair for pair in left if not (pair.fault or pair.left_out)]
    judged = engine(takewhile(lambda _: not stopped(), sound))
    with writing_to(out):
        file = ResultFile(out / RESULTS)
    try:
        for result in chain(broken, judged):
            if result.is_transient and not result.judged and stopped():
                continue
            with writing_to(out):
                file.append(result)
            yield result
    finally:
        with writing_to(out):
            file.close()


def write_final_table(out: Path, pairs: Iterable[EvaluationPair]) -> list[PairResult]:
    """Write the table of these pairs' results, and give them by row. Raises BadInput."""
    chosen = {pair.id for pair in pairs}
    results = [result for result in final_results(out / RESULTS) if result.pair.id in chosen]
    with writing_to(out):
        write_table(results, out / TABLE)
    return results
