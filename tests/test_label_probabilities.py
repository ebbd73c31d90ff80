"""From a completion to what is kept and printed: trace, result and terminal have each label's probability, and the reasoning."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.test_cli import Clips
from tests.test_traces import changed
from tests.ui.support import handmade_runs
from tests.ui.support.handmade_runs import ANSWER, SHARES
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.commands.terminal import ConsoleRenderer
from vrthinker_core.errors import TraceError
from vrthinker_core.protocols.parser import verdict_probabilities
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import ResultFile, read_results, result_of
from vrthinker_core.runner import judge
from vrthinker_core.traces import from_json, load, to_json
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.events import Event, Trace
from vrthinker_core.types.messages import Completion
from vrthinker_core.words import percent

TOLD = Completion(
    ANSWER, reasoning="<b>First</b> I look.\n" * 3, label_tokens=handmade_runs.label_tokens()
)
PAIR = EvaluationPair("id", 1, "p", "one.mp4", "two.mp4")


def printed(events: Iterable[Event]) -> str:
    console = Console(width=120, file=io.StringIO())
    ConsoleRenderer(console).render(events)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def judged(clips: Clips, path: Path, reply: Completion, swap: str = "off") -> Trace:
    settings = Settings(swap=swap)  # type: ignore[arg-type]
    list(judge(VideoPair("p", *clips), ScriptedBackend([reply]), settings, trace=path))
    return load(path)


def test_each_label_has_its_probability(clips: Clips, tmp_path: Path) -> None:
    trace = judged(clips, tmp_path / "run.json", TOLD, "on")
    assert trace.finished is not None
    assert trace.swapped is not None
    assert from_json(to_json(trace)) == trace
    assert trace.turns[0].completion.reasoning == TOLD.reasoning
    assert trace.turns[0].completion.label_tokens == TOLD.label_tokens
    with ResultFile(tmp_path / "results.jsonl") as file:
        file.add(result_of(PAIR, trace))
    (result,) = read_results(tmp_path / "results.jsonl")
    assert result.probabilities == SHARES
    lines = printed(trace.events()).splitlines()
    text = next(line for line in lines if line.startswith("  Text al"))
    assert text.split() == ["Text", "alignment", "video", "1"]
    aside = f"aside     {len(TOLD.reasoning)} characters of reasoning, kept in the trace"
    assert lines.count(aside) == 2
    assert "First" not in "".join(lines), "a terminal shows how long it was, not the whole"
    row = next(line for line in reversed(lines) if line.strip().startswith("Motion"))
    assert row.split() == ["Motion", "quality", "tie", "50", "%", "tie", "50", "%", "stable"]


def test_nothing_is_said_where_nothing_is_known(clips: Clips, tmp_path: Path) -> None:
    trace = judged(clips, tmp_path / "run.json", Completion(ANSWER))
    assert result_of(PAIR, trace).probabilities is None
    assert not {"%", "aside"} & set(printed(trace.events()).split())


def test_the_probabilities_of_a_run_are_those_of_the_turn_that_gave_its_verdict() -> None:
    trace = handmade_runs.telling_probabilities()
    assert verdict_probabilities(trace.turns, trace.finished.verdict) == SHARES
    again = replace(trace.turns[-1], completion=Completion(ANSWER), number=4)
    assert verdict_probabilities([*trace.turns, again], trace.finished.verdict) == {}
    assert verdict_probabilities(trace.turns, None) == {}
    assert verdict_probabilities([], trace.finished.verdict) == {}


HOSTILE: list[tuple[list[Any], Any]] = [
    *((["offset"], offset) for offset in (-1, len(ANSWER), 10**400, 1.5)),
    *((["probabilities"], shares) for shares in ([0.5, 0.5], [0.1] * 4, [0.5, 0.5, 0.5])),
    *((["probabilities", 1], share) for share in (-0.1, 1.1, float("nan"), float("inf"))),
]


@pytest.mark.parametrize(("where", "value"), HOSTILE, ids=str)
def test_a_trace_with_probabilities_that_cannot_be_is_refused(where: list[Any], value: Any) -> None:
    told = to_json(handmade_runs.telling_probabilities())
    place = ["turns", -1, "completion", "label_tokens", 1, *where]
    with pytest.raises(TraceError, match=r"trace[^\n]*\.$"):
        from_json(changed(told, place, value))


def test_labels_and_reasoning_of_a_trace_have_bounds() -> None:
    told = to_json(handmade_runs.telling_probabilities())
    for name, value in (("label_tokens", [7] * 70_000), ("reasoning", "x" * 13_000_000)):
        with pytest.raises(TraceError):
            from_json(changed(told, ["turns", -1, "completion", name], value))


def test_a_percentage_is_never_rounded_to_never_or_always() -> None:
    shares = (0, 0.004, 0.006, 0.934, 0.994, 0.9999, 1)
    assert "; ".join(map(percent, shares)) == "<1 %; <1 %; 1 %; 93 %; 99 %; >99 %; >99 %"
