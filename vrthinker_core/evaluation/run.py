"""An evaluation: pairs that have no result yet are judged, and each result is on the disk before the next one comes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result import PairResult, broken_row
from vrthinker_core.results.result_file import RESULTS, TRACES, ResultFile, read_results

Engine = Callable[[Iterable[EvaluationPair]], Iterator[PairResult]]
"""Judges pairs and gives their results as they come, in any order. No pair is given twice, and none is lost."""


def evaluate(pairs: Sequence[EvaluationPair], engine: Engine, judge: str, out: Path) -> Iterator[PairResult]:
    """Judge what is not judged yet in the folder `out`; gives each new result once it is kept."""
    (out / TRACES).mkdir(parents=True, exist_ok=True)
    done = {result.pair.id for result in read_results(out / RESULTS)} if (out / RESULTS).exists() else set()
    left = [pair for pair in pairs if pair.id not in done]
    with ResultFile(out / RESULTS) as file:
        for pair in left:
            if pair.fault:
                file.append(result := broken_row(pair, judge))
                yield result
        for result in engine(pair for pair in left if not pair.fault):
            file.append(result)
            yield result
