"""An evaluation: judges pairs without a result, and keeps each result."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
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
    latest_results,
    write_table,
)

Engine = Callable[[Iterable[EvaluationPair]], Iterator[PairResult]]
"""Judges pairs and gives results as they come, in any order; one for each pair."""


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

    def results() -> Iterator[PairResult]:
        for pair in left:
            if pair.fault or pair.left_out:
                yield broken_row(pair, judge)
        to_judge = [pair for pair in left if not (pair.fault or pair.left_out)]
        for result in engine(takewhile(lambda _: not stopped(), to_judge)):
            if result.judged or not (result.is_transient and stopped()):
                yield result

    with writing_to(out):
        file = ResultFile(out / RESULTS)
    try:
        for result in results():
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
