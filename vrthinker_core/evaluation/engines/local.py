"""The engine of this process: many pairs side by side with one judge."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from vrthinker_core.backends.base import Backend
from vrthinker_core.batch import judge_many
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result import PairResult, result_of
from vrthinker_core.results.result_file import TRACES
from vrthinker_core.types import Settings, Trace
from vrthinker_core.types.events import Finished, JudgeEvent, Started, Swapped


def judge_locally(
    pairs: Iterable[EvaluationPair], backend: Backend, settings: Settings, out: Path, concurrency: int
) -> Iterator[PairResult]:
    """Judge pairs, `concurrency` at a time, each with a trace below `out`; results come in the order in which they end."""
    taken: list[EvaluationPair] = []

    def videos() -> Iterator[EvaluationPair]:
        for pair in pairs:
            taken.append(pair)
            yield pair

    traces: dict[int, Trace] = {}
    events = judge_many(
        (pair.videos for pair in videos()),
        backend,
        settings,
        live=concurrency,
        trace_of=lambda position: out / trace_file(taken[position]),
    )
    for position, event in events:
        if isinstance(event, Started):
            traces[position] = Trace(event)
        elif position in traces:
            traces[position] = traces[position].with_event(event)
        if is_last(event, settings):
            pair = taken[position]
            yield result_of(pair, traces.pop(position), trace_file(pair))


def trace_file(pair: EvaluationPair) -> str:
    """Where the trace of a pair is kept, relative to the folder of the results."""
    return f"{TRACES}/{pair.id}.json"


def is_last(event: JudgeEvent, settings: Settings) -> bool:
    """Nothing of this pair comes after the event."""
    if isinstance(event, Swapped):
        return isinstance(event.event, Finished)
    return isinstance(event, Finished) and (settings.swap == "off" or event.verdict is None)
