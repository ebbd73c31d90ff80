"""Folders of results and traces, as `evaluate` leaves them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.ui.support.handmade_runs import WHOLE, three_turns
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import (
    RESULTS,
    TRACES,
    PairResult,
    broken_row,
    result_of,
    to_line,
)
from vrthinker_core.traces import to_json
from vrthinker_core.types import Dimension, Preference, Trace, Verdict
from vrthinker_core.ui.runs_tab import ListedRuns

TIE, FIRST, SECOND = Preference
PROMPT = "A ball pans steadily."


def result(row: int, **changes: object) -> PairResult:
    """A judged pair whose people agree with the judge."""
    videos = f"{row}-a.mp4", f"{row}-b.mp4"
    pair = EvaluationPair(f"{row:016x}", row, PROMPT, *videos, WHOLE, "Left", "Right")
    own = {"id", "prompt", "labels", "first", "second"} & changes.keys()
    pair = replace(pair, **{name: changes.pop(name) for name in own})
    return replace(result_of(pair, three_turns(), f"{TRACES}/{pair.id}.json"), **changes)


def outside(**changes: object) -> Trace:
    """A run that was answered, over videos that its judge cannot judge."""
    trace = three_turns(**changes)
    return replace(trace, finished=replace(trace.finished, verdict=None, outside_scope=True))


def kinds() -> list[PairResult]:
    """One row of each kind; WHOLE is 1, a tie, 2, and 1 overall."""
    other, nobody = replace(WHOLE, OA=SECOND), Verdict()
    unsure, sure = ({Dimension.OA: shares} for shares in ((0.2, 0.55, 0.25), (0.1, 0.8, 0.1)))
    fault = "There is no file a.mp4."
    unjudged = EvaluationPair(f"{7:016x}", 7, "It rains.", "a.mp4", "b.mp4", fault=fault)
    return [
        result(1, confidence=5, swapped=WHOLE),
        result(2, confidence=5, labels=other),
        result(3, confidence=4, labels=Verdict(MQ=FIRST, OA=FIRST)),
        result(4, confidence=2),
        result(5, confidence=5, probabilities=unsure),
        result(6, confidence=5, probabilities=sure, swapped=other, labels=nobody),
        broken_row(unjudged, "by hand"),
    ]


def write_results(folder: Path, results: Iterable[PairResult]) -> Path:
    """Append the results to an evaluation, with a trace of each pair that was judged."""
    (folder / TRACES).mkdir(parents=True, exist_ok=True)
    for each in results:
        if each.trace:
            (folder / each.trace).write_bytes(to_json(three_turns(prompt=each.pair.prompt)))
        with (folder / RESULTS).open("ab") as file:
            file.write(to_line(each))
    return folder


def read_all(folder: Path) -> ListedRuns:
    """The folder, read to its end."""
    runs = ListedRuns(folder)
    assert runs.refresh(patience=60)
    return runs
