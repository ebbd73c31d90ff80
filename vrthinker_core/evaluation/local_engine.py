"""The engine of this process: many pairs side by side, one judge."""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path

from vrthinker_core.backends.base import Backend, RemoteBackend, not_cancelled
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import TRACES, PairResult, result_of
from vrthinker_core.runner import judge_many, whole_traces
from vrthinker_core.traces import NOT_SAVED
from vrthinker_core.types import Settings, StopReason, Trace, VideoPair
from vrthinker_core.types.messages import Cancelled


def judge_locally(
    pairs: Iterable[EvaluationPair],
    backend: Backend,
    settings: Settings,
    out: Path,
    concurrency: int,
    cancelled: Cancelled = not_cancelled,
) -> Iterator[PairResult]:
    """Judge pairs, `concurrency` at a time; give results as they end.

    Each pair has a trace below `out`. Pairs are taken as they are needed. Once `cancelled`, those
    in hand end as cancelled.
    """
    if isinstance(backend, RemoteBackend):
        backend = copy(backend)
        backend.streams = False
    taken: dict[int, EvaluationPair] = {}

    def videos() -> Iterator[VideoPair]:
        for position, pair in enumerate(pairs):
            taken[position] = pair
            yield pair.videos

    events = judge_many(
        videos(),
        backend,
        settings,
        live=concurrency,
        cancelled=cancelled,
        trace_of=lambda position: out / trace_file(taken[position]),
    )
    for position, trace in whole_traces(events):
        yield _result(taken.pop(position), trace)


def trace_file(pair: EvaluationPair) -> str:
    """Name the file of a pair's trace, relative to the results."""
    return f"{TRACES}/{pair.id}.json"


def _result(pair: EvaluationPair, trace: Trace) -> PairResult:
    """Make the result of a run.

    If its second order may succeed another time, it ends as that did, so that both are judged
    again. If the run could not be saved in full, no trace is named.
    """
    result = result_of(pair, trace, trace_file(pair))
    second = trace.swapped.finished if trace.swapped else None
    notes = [note for end in (trace.finished, second) if end is not None for note in end.notes]
    if unsaved := next((note for note in notes if note.startswith(NOT_SAVED)), ""):
        result = replace(result, trace="", error=result.error or unsaved)
    if second is None or not (second.fault or second.stop is StopReason.CANCELLED):
        return result
    error = f"In the second order: {second.error}"
    sides = tuple(side.other for side in second.unreadable)
    ended = replace(result, stop=second.stop, error=error, fault=second.fault, unreadable=sides)
    return ended if ended.is_transient else replace(result, error=error)
