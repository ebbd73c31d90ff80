"""A judge that fails once in a turn is asked once more, and the run goes on as if it had not failed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tests.support.decoders import halting_decoders
from tests.test_judge import ANSWER, CALL
from tests.test_stream_ends import (
    Driver,
    OddBackend,
    OddBatch,
    OddConversation,
    alone,
    among_others,
)
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.commands.console import ConsoleRenderer
from vrthinker_core.errors import (
    BackendFailed,
    BackendRefused,
    BadInput,
    ContextFull,
    JudgeError,
    TooManyPictures,
    VideoError,
)
from vrthinker_core.traces import load
from vrthinker_core.types import StopReason, VideoPair
from vrthinker_core.types.events import Event, Finished, FramesShown, TextArrived, TurnEnded
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling
from vrthinker_core.ui.view.run_state import fold_all
from vrthinker_core.ui.view.words import turn_remarks

Try = Callable[[], Iterator[str | Completion]]
Call = tuple[tuple[Message, ...], Sampling]


@dataclass(frozen=True, slots=True)
class Failing(OddBackend):
    """Calls for frames in its first turn; `tries` are its streams from then on, the last one again and again."""

    tries: Sequence[Try] = ()
    calls: list[Call] = field(default_factory=list)

    def open_conversation(self) -> FailingConversation:
        return FailingConversation(self)


@dataclass(frozen=True, slots=True)
class FailingBatch(Failing):
    stream_batch = OddBatch.stream_batch


class FailingConversation(OddConversation):
    def __init__(self, backend: Failing) -> None:
        super().__init__(backend)
        self._tries, self._log, self._tried = backend.tries, backend.calls, 0

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        if len(messages) > 2:
            self._log.append((tuple(messages), sampling))
            self._stream, self._tried = (
                self._tries[min(self._tried, len(self._tries) - 1)],
                self._tried + 1,
            )
        return super().stream(messages, sampling, cancelled)


def failing(error: Exception, *text: str) -> Try:
    def stream() -> Iterator[str | Completion]:
        yield from text
        raise error

    return stream


def answering() -> Iterator[str | Completion]:
    yield ANSWER
    yield Completion(ANSWER, pieces=(len(ANSWER),), prompt_tokens=70, new_tokens=9)


GONE = BackendFailed("The machine is gone.")
FIRST_TRIES = {
    "before any text": failing(GONE),
    "within its text": failing(GONE, "half ", "a re"),
    "with an error of its own": failing(ConnectionResetError("secret"), "half "),
    "after more pieces than a list of a trace may hold": failing(GONE, *["x "] * 2000),
    "without a completion": lambda: iter(["half a re"]),
}
every_first_try = pytest.mark.parametrize("first", FIRST_TRIES.values(), ids=FIRST_TRIES)
DRIVERS = [(alone, Failing), (among_others, Failing), (among_others, FailingBatch)]
every_driver = pytest.mark.parametrize(
    ("driver", "kind"), DRIVERS, ids=["judge", "judge_many, one by one", "judge_many, in a batch"]
)


def run(
    driver: Driver,
    backend: Failing,
    pair: VideoPair,
    path: Path,
    cancelled: Cancelled = not_cancelled,
) -> list[Event]:
    return list(driver(pair, backend, path, cancelled))


def end_of(events: list[Event]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished)
    return end


@every_driver
@every_first_try
def test_a_judge_that_fails_once_answers_as_if_it_had_not(
    driver: Driver, kind: type[Failing], first: Try, pair: VideoPair, tmp_path: Path
) -> None:
    backend = kind([CALL], tries=(first, answering))
    events = run(driver, backend, pair, tmp_path / "run.json")
    smooth = run(driver, kind([CALL], tries=(answering,)), pair, tmp_path / "smooth.json")
    assert replace(end_of(events), seconds=0) == replace(end_of(smooth), seconds=0), (
        "verdict, forced, error: nothing differs"
    )
    turns, expected = (fold_all(found).turns for found in (events, smooth))
    assert [turn.text for turn in turns] == [turn.text for turn in expected]
    second, plain = turns[1].turn, expected[1].turn
    assert second is not None
    assert plain is not None
    assert replace(second, note="", abandoned=()) == plain, (
        "tokens, frames in view and reply are those of the second try"
    )
    assert len(backend.calls) == 2 * (1 if driver is alone else 3)
    assert all(call == backend.calls[0] for call in backend.calls), (
        "the same request again: messages and seed"
    )


@every_driver
@every_first_try
def test_the_trace_says_why_and_keeps_what_came_the_first_time(
    driver: Driver, kind: type[Failing], first: Try, pair: VideoPair, tmp_path: Path
) -> None:
    events = run(driver, kind([CALL], tries=(first, answering)), pair, tmp_path / "run.json")
    trace = load(tmp_path / "run.json")
    assert list(trace.events()) == events
    kept = trace.turns[1]
    assert kept.note.startswith("The judge failed in turn 2, which was tried once more. Cause: ")
    assert "secret" not in kept.note
    again = next(event for event in events if isinstance(event, FramesShown) and event.note)
    pieces = [
        event.text
        for event in events[: events.index(again)]
        if isinstance(event, TextArrived) and event.turn == 2
    ]
    assert list(kept.abandoned) == pieces
    assert trace.turns[0].note == ""


def test_page_and_console_say_that_a_turn_was_tried_twice(pair: VideoPair, tmp_path: Path) -> None:
    events = run(
        alone,
        Failing([CALL], tries=(FIRST_TRIES["within its text"], answering)),
        pair,
        tmp_path / "run.json",
    )
    turn = next(
        event.turn for event in events if isinstance(event, TurnEnded) and event.turn.number == 2
    )
    assert turn.note in turn_remarks(turn)
    printed = StringIO()
    ConsoleRenderer(Console(file=printed, width=300)).render(events)
    assert turn.note in printed.getvalue()
    assert "The machine is gone." in printed.getvalue()
    assert printed.getvalue().count("Turn 2 of ") == 1


@every_driver
def test_a_judge_that_fails_twice_in_a_turn_ends_the_run(
    driver: Driver, kind: type[Failing], pair: VideoPair, tmp_path: Path
) -> None:
    tries = (
        failing(GONE, "half "),
        failing(BackendFailed("It is gone for good."), "ha"),
        answering,
    )
    events = run(driver, kind([CALL], tries=tries), pair, tmp_path / "run.json")
    end = end_of(events)
    assert (end.stop, end.fault, end.error) == (
        StopReason.FAILED,
        "BackendFailed",
        "It is gone for good.",
    )
    trace = load(tmp_path / "run.json")
    assert (trace.turns[1].completion.text, trace.turns[1].abandoned) == ("ha", ("half ",))
    assert list(trace.events()) == events


def calling() -> Iterator[str | Completion]:
    other = CALL.replace("10, 30", "11, 31")
    yield other
    yield Completion(other, pieces=(len(other),))


@every_driver
@pytest.mark.parametrize(
    "error",
    [ContextFull("Too long."), TooManyPictures("Only 12.")],
    ids=lambda error: type(error).__name__,
)
def test_where_the_judge_says_too_late_that_its_context_is_full_the_oldest_frames_leave(
    driver: Driver, kind: type[Failing], error: Exception, pair: VideoPair, tmp_path: Path
) -> None:
    backend = kind([CALL], tries=(calling, failing(error), answering))
    events = run(driver, backend, pair, tmp_path / "run.json")
    assert end_of(events).stop is StopReason.ANSWERED
    in_view = [sum(len(message.frames) for message in messages) for messages, _ in backend.calls]
    assert Counter(in_view) == {12: 2 * len(in_view) // 3, 16: len(in_view) // 3}
    trace = load(tmp_path / "run.json")
    assert list(trace.events()) == events
    assert [len(turn.in_view) for turn in trace.turns] == [8, 12, 12]
    assert (
        trace.turns[2].note
        == "Too much was in view in turn 3, which was asked again without the oldest frames."
    )


def calling_an_old_frame() -> Iterator[str | Completion]:
    other = CALL.replace("10, 30", "10, 11")
    yield other
    yield Completion(other, pieces=(len(other),))


def waited(times: list[float]) -> bool:
    """Half a second after the first of these times: what comes next has begun by then."""
    return bool(times) and time.monotonic() > times[0] + 0.5


@every_driver
@pytest.mark.parametrize("stopped", [False, True], ids=["its decoder dies", "the run is stopped"])
def test_a_run_ends_in_order_where_the_frames_it_needs_again_cannot_be_had(
    driver: Driver, kind: type[Failing], pair: VideoPair, tmp_path: Path, *, stopped: bool
) -> None:
    gone: list[psutil.Process] = []
    times: list[float] = []

    def full() -> Iterator[str | Completion]:
        gone.extend(halt())
        for decoder in () if stopped else gone:
            decoder.kill()
        times.append(time.monotonic())
        raise ContextFull("Too long.")
        yield

    backend = kind([CALL], tries=(calling_an_old_frame, full, answering))
    with halting_decoders() as halt:
        end = end_of(
            run(driver, backend, pair, tmp_path / "run.json", lambda: stopped and waited(times))
        )
    assert gone
    assert end.stop is (StopReason.CANCELLED if stopped else StopReason.FAILED)
    assert stopped or "decod" in end.error
    assert len(load(tmp_path / "run.json").turns) >= 2


@every_driver
def test_a_turn_that_fails_and_then_is_too_long_says_both(
    driver: Driver, kind: type[Failing], pair: VideoPair, tmp_path: Path
) -> None:
    full, failed = failing(ContextFull("Too long.")), failing(GONE, "half ")
    for number, tries in enumerate(((failed, full), (full, failed))):
        path = tmp_path / f"{number}.json"
        assert (
            end_of(run(driver, kind([CALL], tries=(calling, *tries, answering)), pair, path)).stop
            is StopReason.ANSWERED
        )
        turn = load(path).turns[2]
        assert "Too much was in view in turn 3" in turn.note
        assert "The judge failed in turn 3" in turn.note
        assert turn.abandoned == ("half ",)


def test_a_context_that_is_full_without_old_frames_ends_the_run(
    pair: VideoPair, tmp_path: Path
) -> None:
    backend = Failing([CALL], tries=(failing(ContextFull("Too long.")), answering))
    assert end_of(run(alone, backend, pair, tmp_path / "run.json")).stop is StopReason.CONTEXT_FULL
    assert len(backend.calls) == 1


def test_each_turn_has_a_second_try_of_its_own(pair: VideoPair, tmp_path: Path) -> None:
    tries = (failing(GONE), calling, failing(GONE), answering)
    end = end_of(run(alone, Failing([CALL], tries=tries), pair, tmp_path / "run.json"))
    assert end.stop is StopReason.ANSWERED
    assert [bool(turn.note) for turn in load(tmp_path / "run.json").turns] == [False, True, True]


@every_driver
@pytest.mark.parametrize(
    "error",
    [
        BadInput("No."),
        VideoError("No frame."),
        ContextFull("Too long."),
        BackendRefused("It has no memory for that."),
        JudgeError("No."),
        MemoryError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_pass_is_not_tried_again(
    driver: Driver, kind: type[Failing], error: Exception, pair: VideoPair, tmp_path: Path
) -> None:
    backend = kind([CALL], tries=(failing(error, "ha"), answering))
    events = run(driver, backend, pair, tmp_path / "run.json")
    assert end_of(events).fault == type(error).__name__
    assert len(backend.calls) == (1 if driver is alone else 3)
    assert load(tmp_path / "run.json").turns[1].note == ""


@every_driver
def test_a_run_that_was_stopped_is_not_tried_again(
    driver: Driver, kind: type[Failing], pair: VideoPair, tmp_path: Path
) -> None:
    backend = kind([CALL], tries=(failing(GONE), answering))
    run(driver, backend, pair, tmp_path / "run.json", cancelled=lambda: bool(backend.calls))
    assert len(backend.calls) <= (1 if driver is alone else 3)
    assert all(turn.note == "" for turn in load(tmp_path / "run.json").turns)
