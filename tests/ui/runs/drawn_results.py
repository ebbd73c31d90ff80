"""Folders of results and traces, as `evaluate` leaves them."""

from __future__ import annotations

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
from vrthinker_core.ui.listed_runs import ListedRuns

TIE, FIRST, SECOND = Preference
PROMPT = "A ball pans steadily."


def result(row: int, **changes: object) -> PairResult:
    """A judged pair whose people agree with the judge."""
    pair = EvaluationPair(
        f"{row:016x}", row, PROMPT, f"{row}-a.mp4", f"{row}-b.mp4", WHOLE, "Left", "Right"
    )
    pair = replace(
        pair,
        **{
            name: changes.pop(name)
            for name in ("id", "prompt", "labels", "first", "second")
            if name in changes
        },
    )
    base = result_of(pair, three_turns(), f"{TRACES}/{pair.id}.json")
    return replace(base, **changes)


def outside(**changes: object) -> Trace:
    """A run that was answered, over videos that its judge cannot judge."""
    trace = three_turns(**changes)
    return replace(trace, finished=replace(trace.finished, verdict=None, outside_scope=True))


def kinds() -> list[PairResult]:
    """One row of each kind; WHOLE is 1 in text alignment, a tie in motion quality, 2 in visual quality, 1 overall."""
    swapped = Verdict(TA=FIRST, MQ=TIE, VQ=SECOND, OA=SECOND)
    return [
        result(1, confidence=5, swapped=WHOLE),
        result(2, confidence=5, labels=Verdict(TA=FIRST, MQ=TIE, VQ=SECOND, OA=SECOND)),
        result(3, confidence=4, labels=Verdict(MQ=FIRST, OA=FIRST)),
        result(4, confidence=2),
        result(5, confidence=5, probabilities={Dimension.OA: (0.2, 0.55, 0.25)}),
        result(
            6,
            confidence=5,
            probabilities={Dimension.OA: (0.1, 0.8, 0.1)},
            swapped=swapped,
            labels=Verdict(),
        ),
        broken_row(
            EvaluationPair(
                f"{7:016x}", 7, "It rains.", "a.mp4", "b.mp4", fault="There is no file a.mp4."
            ),
            "by hand",
        ),
    ]


def write_results(folder: Path, results: Iterable[PairResult]) -> Path:
    """Append the results to the evaluation in `folder`, with a trace of each pair that was judged."""
    (folder / TRACES).mkdir(parents=True, exist_ok=True)
    for each in results:
        if each.trace:
            (folder / each.trace).write_bytes(to_json(three_turns(prompt=each.pair.prompt)))
        append_result(folder, each)
    return folder


def append_result(folder: Path, one: PairResult) -> None:
    """Append one line."""
    with (folder / RESULTS).open("ab") as file:
        file.write(to_line(one))


def read_all(folder: Path) -> ListedRuns:
    """The folder, read to its end."""
    runs = ListedRuns(folder)
    assert runs.refresh(patience=60)
    return runs
