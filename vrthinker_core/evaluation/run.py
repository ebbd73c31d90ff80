"""An evaluation: pairs that have no result yet are judged, and each result is kept before the next one comes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import VideoError
from vrthinker_core.evaluation.out_folder import writing_to
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import (
    RESULTS,
    ROW_FAULT,
    TABLE,
    PairResult,
    ResultFile,
    broken_row,
    final_results,
    read_results,
    write_table,
)

Engine = Callable[[Iterable[EvaluationPair]], Iterator[PairResult]]
"""Judges pairs and gives their results as they come, in any order. No pair is given twice, and none is lost."""


def results_so_far(pairs: Iterable[EvaluationPair], out: Path) -> dict[str, PairResult]:
    """The results in the folder that count, by the ids of their pairs. Raises BadInput for a file that holds anything else.

    A transient failure does not count, nor does a broken row that has been mended: these are judged again. So is a video that
    cannot be read, if an earlier version kept the result and did not say which one it is.
    """
    if not (out / RESULTS).exists():
        return {}
    mended = {pair.id for pair in pairs if not pair.fault}
    found = {result.pair.id: result for result in read_results(out / RESULTS)}
    return {
        name: result
        for name, result in found.items()
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
    """Judge what is not `done` in the folder `out`; gives each new result once it is kept.

    A broken row, or one that is left out, has a result at once, in the name of `judge`. Once `stopped`, no pair is begun any more,
    and what becomes of those in hand is kept only where it is a result.
    """
    left = [pair for pair in pairs if pair.id not in done]
    to_judge = [pair for pair in left if not (pair.fault or pair.left_out)]
    with _result_file(out) as keep:
        for pair in left:
            if pair.fault or pair.left_out:
                yield keep(broken_row(pair, judge))
        for result in engine(_until(stopped, to_judge)):
            if result.judged or not (result.is_transient and stopped()):
                yield keep(result)


@contextmanager
def _result_file(out: Path) -> Iterator[Callable[[PairResult], PairResult]]:
    """The file of results, open; gives the function that keeps a result and gives it back. Both raise BadInput."""
    with writing_to(out):
        file = ResultFile(out / RESULTS)

    def keep(result: PairResult) -> PairResult:
        with writing_to(out):
            file.append(result)
        return result

    try:
        yield keep
    finally:
        with writing_to(out):
            file.close()


def write_final_table(out: Path, pairs: Iterable[EvaluationPair]) -> list[PairResult]:
    """Write the table of these pairs' results, and give them, in the order of the rows. Raises BadInput."""
    chosen = {pair.id for pair in pairs}
    results = (
        [result for result in final_results(out / RESULTS) if result.pair.id in chosen]
        if (out / RESULTS).exists()
        else []
    )
    with writing_to(out):
        write_table(results, out / TABLE)
    return results


def _until(
    stopped: Callable[[], bool], pairs: Iterable[EvaluationPair]
) -> Iterator[EvaluationPair]:
    for pair in pairs:
        if stopped():
            return
        yield pair
