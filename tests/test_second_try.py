"""A judge that fails once in a turn is asked once more, and the run goes on as if it had not failed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tests.support.decoders import halting_decoders
from tests.support.engines import CALL, ENGINES, Engine, Stream, end_of, few_ways
from tests.test_judge import ANSWER
from vrthinker_core import errors
from vrthinker_core.commands.terminal import ConsoleRenderer
from vrthinker_core.errors import BackendFailed, ContextFull, RequestRefused
from vrthinker_core.types import StopReason, VideoPair
from vrthinker_core.types.events import FramesShown, TextArrived, add_event
from vrthinker_core.types.messages import Completion
from vrthinker_core.ui.words import turn_remarks


def failing(error: Exception, *text: str) -> Stream:
    def stream() -> Iterator[str | Completion]:
        yield from text
        raise error

    return stream


def saying(text: str) -> Stream:
    told = Completion(text, pieces=(len(text),), prompt_tokens=70, new_tokens=9)
    return lambda: iter([text, told])


def calling(slots: str = "11, 31") -> Stream:
    return saying(CALL.replace("10, 30", slots))


answering = saying(ANSWER)


GONE = BackendFailed("The machine is gone.")
FIRST_TRIES = {
    "before any text": failing(GONE),
    "with an error of its own": failing(ConnectionResetError("/secret/folder/it is gone"), "half "),
    "after more pieces than a list of a trace may hold": failing(GONE, *["x "] * 2000),
    "without a completion": lambda: iter(["half a re"]),
}


@pytest.mark.parametrize("first", FIRST_TRIES.values(), ids=FIRST_TRIES)
def test_a_judge_that_fails_once_answers_as_if_it_had_not(engine: Engine, first: Stream) -> None:
    """The trace says why, and keeps what came the first time."""
    smooth = reduce(add_event, engine.run(answering), None)
    backend = engine.backend(first, answering)
    events = list(engine.start(backend))
    state, trace = reduce(add_event, events, None), engine.trace
    assert replace(end_of(events), seconds=0) == replace(smooth.finished, seconds=0)
    tried = [replace(turn, note="", abandoned=()) for turn in state.turns]
    assert tried == list(smooth.turns), "tokens, frames and reply are those of the second try"
    assert len(backend.calls) == 2 * engine.pairs
    assert all(call == backend.calls[0] for call in backend.calls), "messages and seed"
    assert list(trace.events()) == events
    kept = trace.turns[1]
    assert kept.note.startswith("The judge failed in turn 2, which was tried once more. Cause: ")
    assert "secret" not in kept.note
    (again,) = (n for n, e in enumerate(events) if isinstance(e, FramesShown) and e.note)
    pieces = [e.text for e in events[:again] if isinstance(e, TextArrived) and e.turn == 2]
    assert list(kept.abandoned) == pieces
    assert trace.turns[0].note == ""


def test_page_and_console_say_that_a_turn_was_tried_twice(pair: VideoPair, tmp_path: Path) -> None:
    engine = Engine(pair, tmp_path / "run.json", *ENGINES["judge"])
    events = engine.run(failing(GONE, "half ", "a re"), answering)
    turn = engine.trace.turns[1]
    assert turn.note in turn_remarks(turn)
    printed = StringIO()
    ConsoleRenderer(Console(file=printed, width=300)).render(events)
    assert turn.note in printed.getvalue()
    assert "The machine is gone." in printed.getvalue()
    assert printed.getvalue().count("Turn 2 of ") == 1


def test_a_judge_that_fails_twice_in_a_turn_ends_the_run(engine: Engine) -> None:
    last = failing(BackendFailed("It is gone for good."), "ha")
    events = engine.run(failing(GONE, "half "), last, answering)
    end = end_of(events)
    assert (end.stop, end.fault) == (StopReason.FAILED, "BackendFailed")
    assert end.error == "It is gone for good."
    trace = engine.trace
    assert (trace.turns[1].completion.text, trace.turns[1].abandoned) == ("ha", ("half ",))
    assert list(trace.events()) == events


@pytest.mark.parametrize("error", [ContextFull("Too long."), RequestRefused("Only 12.")], ids=repr)
def test_where_the_judge_says_too_late_that_its_context_is_full_the_oldest_frames_leave(
    engine: Engine, error: Exception
) -> None:
    backend = engine.backend(calling(), failing(error), answering)
    events = list(engine.start(backend))
    assert end_of(events).stop is StopReason.ANSWERED
    in_view = [sum(len(message.frames) for message in messages) for messages, _ in backend.calls]
    assert Counter(in_view) == {12: 2 * len(in_view) // 3, 16: len(in_view) // 3}
    trace = engine.trace
    assert list(trace.events()) == events
    assert [len(turn.in_view) for turn in trace.turns] == [8, 12, 12]
    assert "without the oldest frames" in trace.turns[2].note


def waited(since: float) -> bool:
    """Half a second: what comes next has begun by then."""
    return time.monotonic() > since + 0.5


@few_ways
@pytest.mark.parametrize("stopped", [False, True], ids=["its decoder dies", "the run is stopped"])
def test_a_run_ends_in_order_where_the_frames_it_needs_again_cannot_be_had(
    engine: Engine, *, stopped: bool
) -> None:
    gone, times = list[psutil.Process](), list[float]()

    def full() -> Iterator[str | Completion]:
        gone.extend(halt())
        for decoder in () if stopped else gone:
            decoder.kill()
        times.append(time.monotonic())
        raise ContextFull("Too long.")
        yield

    backend = engine.backend(calling("10, 11"), full, answering)
    with halting_decoders() as halt:
        end = end_of(engine.start(backend, lambda: stopped and times and waited(times[0])))
    assert gone
    assert end.stop is (StopReason.CANCELLED if stopped else StopReason.FAILED)
    assert stopped or "decod" in end.error
    assert len(engine.trace.turns) >= 2


@few_ways
def test_a_turn_that_fails_and_then_is_too_long_says_both(engine: Engine) -> None:
    full, failed = failing(ContextFull("Too long.")), failing(GONE, "half ")
    for tries in ((failed, full), (full, failed)):
        assert end_of(engine.run(calling(), *tries, answering)).stop is StopReason.ANSWERED
        turn = engine.trace.turns[2]
        assert "Turn 3 was refused" in turn.note
        assert "The judge failed in turn 3" in turn.note
        assert turn.abandoned == ("half ",)


@few_ways
@pytest.mark.parametrize("full", [ContextFull("Too long."), RequestRefused("No.")], ids=repr)
def test_the_oldest_frames_leave_once_in_a_turn(engine: Engine, full: Exception) -> None:
    """Also if the judge then fails for another reason, and no further when it refuses again."""
    calls = (calling("10, 11"), calling("20, 21"), calling("30, 31"), calling("40, 41"))
    assert end_of(engine.run(*calls, failing(full), failing(GONE), answering)).stop is (
        StopReason.ANSWERED
    )
    assert [len(turn.in_view) for turn in engine.trace.turns] == [8, 12, 14, 18, 20, 20]
    end = end_of(engine.run(*calls, failing(full), failing(full), answering))
    assert end.fault == type(full).__name__


@few_ways
def test_each_turn_has_a_second_try_of_its_own(engine: Engine) -> None:
    end = end_of(engine.run(failing(GONE), calling(), failing(GONE), answering))
    assert end.stop is StopReason.ANSWERED
    assert [bool(turn.note) for turn in engine.trace.turns] == [False, True, True]


LASTING = [
    errors.VideoError("No frame."),
    ContextFull(""),
    errors.BackendRefused("No."),
    MemoryError(),
]


@few_ways
@pytest.mark.parametrize("error", LASTING, ids=repr)
def test_what_cannot_pass_is_not_tried_again(engine: Engine, error: Exception) -> None:
    """A full context without old frames neither."""
    backend = engine.backend(failing(error, "ha"), answering)
    end = end_of(engine.start(backend))
    assert end.fault == type(error).__name__
    assert (end.stop is StopReason.CONTEXT_FULL) == isinstance(error, ContextFull)
    assert len(backend.calls) == engine.pairs
    assert engine.trace.turns[1].note == ""


@few_ways
def test_a_run_that_was_stopped_is_not_tried_again(engine: Engine) -> None:
    backend = engine.backend(failing(GONE), answering)
    list(engine.start(backend, cancelled=lambda: bool(backend.calls)))
    assert len(backend.calls) <= engine.pairs
    assert all(turn.note == "" for turn in engine.trace.turns)
