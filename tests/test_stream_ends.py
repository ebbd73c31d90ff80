"""However a judge's stream ends, `judge` and `judge_many` end the run alike: a reason, a sentence, and what was written so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from tests.support.decoders import halting_decoders
from tests.support.engines import CALL, Engine, OddConversation, Stream, end_of, few_ways
from tests.test_judge import ANSWER
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.errors import BackendFailed
from vrthinker_core.types import StopReason
from vrthinker_core.types.events import Event, Finished, Started, TextArrived, TurnEnded
from vrthinker_core.types.messages import MAX_PIECES, Completion


def written(events: list[Event]) -> Completion:
    """What came in the last turn."""
    return [event for event in events if isinstance(event, TurnEnded)][-1].turn.completion


def assert_failed(end: Finished, sentence: str) -> None:
    assert (end.stop, end.fault, end.error) == (StopReason.FAILED, "BackendFailed", sentence)


def streamed(text: str, size: int, error: Exception | None = None) -> Stream:
    """The text in pieces of that size; then the error, or how it was written."""

    def stream() -> Iterator[str | Completion]:
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        yield from pieces
        if error is not None:
            raise error
        yield Completion(text, pieces=tuple(map(len, pieces)))

    return stream


@few_ways
def test_a_run_is_stopped_while_its_frames_are_decoded(engine: Engine) -> None:
    stopped, events, halted = threading.Event(), [], []
    with halting_decoders() as halt:
        for event in engine.start(engine.backend(lambda: iter(())), stopped.is_set):
            events.append(event)
            text = "".join(each.text for each in events if isinstance(each, TextArrived))
            if text == CALL and not halted:  # which nobody answers
                halted += halt()
                stopped.set()
    assert halted, "frames were being decoded when it was stopped"
    assert (end_of(events).stop, end_of(events).error) == (StopReason.CANCELLED, "")
    assert written(events).text == CALL


@pytest.mark.parametrize("pieces", [(), ("half ", "a re")], ids=["nothing", "half a reply"])
def test_a_stream_without_a_completion_fails_with_a_sentence(
    engine: Engine, pieces: tuple[str, ...]
) -> None:
    events = engine.run(lambda: iter(pieces))
    assert_failed(end_of(events), "The judge stopped before it had answered.")
    lengths = tuple(map(len, pieces))
    assert written(events) == Completion("".join(pieces), "failed", pieces=lengths)
    assert list(engine.trace.events()) == events


ERRORS = {
    "The machine is gone.": BackendFailed("The machine is gone."),
    "The judge failed: ValueError: no such model in ….": ValueError("no such\nmodel in /a/b.bin"),
    "The judge failed: KeyError.": KeyError(),
}


@pytest.mark.parametrize("sentence", ERRORS)
def test_a_stream_that_raises_keeps_its_text_and_says_why(
    engine: Engine, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The text of any error in one line without paths; its traceback is logged."""
    error = ERRORS[sentence]
    events = engine.run(streamed("half a re", 9, error))
    assert_failed(end_of(events), sentence)
    assert written(events).text == "half a re"
    assert engine.trace.finished == end_of(events)
    logged = [record.exc_info and record.exc_info[1] for record in caplog.records]
    assert logged == [] if isinstance(error, BackendFailed) else error in logged


ODD: list[Any] = [b"text", Completion(None)]  # type: ignore[arg-type]
UNKEPT: list[dict[str, Any]] = [{"stop": "stop"}, {"pieces": ("a",)}]


@few_ways
@pytest.mark.parametrize("odd", [*ODD, *(Completion("half", **each) for each in UNKEPT)], ids=repr)
def test_a_stream_of_what_no_trace_can_hold_ends_the_run(engine: Engine, odd: Any) -> None:
    end = end_of(engine.run(lambda: iter(["half ", odd, Completion("half ")])))
    assert (end.stop, end.fault) == (StopReason.FAILED, "BackendFailed")
    assert engine.trace.finished == end
    if getattr(odd, "text", None) is None:
        said = f"stream gave a {type(odd).__name__}, neither text nor a Completion with text."
        assert end.error == f"The judge failed: TypeError: {said}"


@pytest.mark.parametrize("broken", ["open_conversation", "count_tokens", "stream_batch"])
def test_a_judge_that_raises_elsewhere_ends_the_run_alike(
    engine: Engine, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> NoReturn:
        raise ValueError("no such model")

    backend = replace(engine.backend(lambda: iter(())), context_length=9000)
    kind = OddConversation if broken == "count_tokens" else type(backend)
    if broken == "stream_batch" and not hasattr(kind, broken):
        pytest.skip("this engine asks for no batch")
    monkeypatch.setattr(kind, broken, fail)
    end = end_of(engine.start(backend))
    assert_failed(end, "The judge failed: ValueError: no such model.")
    assert "in fail\n" in caplog.text


def test_a_cancelled_stream_keeps_its_text_and_has_no_verdict(engine: Engine) -> None:
    half = ANSWER[:20]
    events = engine.run(lambda: iter([half, Completion(half, "cancelled", pieces=(20,))]))
    end = end_of(events)
    assert (end.stop, end.verdict, end.error) == (StopReason.CANCELLED, None, "")
    assert written(events).text == half
    assert engine.trace.finished == end


@few_ways
def test_cancelling_between_two_turns_ends_the_run_there(engine: Engine) -> None:
    flag = threading.Event()
    script = ScriptedBackend([CALL, CALL.replace("10", "11"), ANSWER])
    for event in engine.start(script, flag.is_set):
        if isinstance(event, TurnEnded):
            flag.set()
    assert (event.stop, event.verdict, event.error) == (StopReason.CANCELLED, None, "")
    assert engine.trace.finished == event


def test_closing_in_the_middle_of_a_reply_keeps_the_turns_before_it(engine: Engine) -> None:
    def slow() -> Iterator[str | Completion]:
        yield "half "
        time.sleep(0.3)  # Who runs in a thread of its own goes on until it is told to stop
        yield from ("a re", Completion("half a re"))

    backend = engine.backend(slow)
    events = engine.start(backend)
    while not (isinstance(event := next(events), TextArrived) and event.text == "half "):
        pass
    events.close()
    end = engine.trace.finished
    assert (end.stop, end.verdict) == (StopReason.CANCELLED, None)
    assert [turn.number for turn in engine.trace.turns][:1] == [1]
    assert backend.closed.is_set(), "the conversation was closed"


@few_ways
@pytest.mark.parametrize("count", [-1, 10**400], ids=["negative", "too large"])
def test_a_count_of_tokens_that_cannot_be_is_left_out(engine: Engine, count: int) -> None:
    counts = dict.fromkeys(("prompt_tokens", "reused_tokens", "new_tokens"), count)
    told = Completion(ANSWER, pieces=(len(ANSWER),), **counts)  # type: ignore[arg-type]
    events = engine.run(lambda: iter([ANSWER, told]))
    read = written(events)
    assert (read.prompt_tokens, read.reused_tokens, read.new_tokens) == (None, None, None)
    assert engine.trace.finished == events[-1]


MANY = MAX_PIECES + 1000
LONG_STREAMS = {
    "a character at a time": streamed(f"<Think>{'s' * MANY}</Think>{CALL}", 1),
    "a character at a time, and broken off": streamed("s" * MANY, 1, BackendFailed("Gone.")),
    "without end": streamed(f"<Think>{'look,' * 200_000}</Think>{CALL}", 5000),
    "all at once": lambda: iter([Completion("x" * 2_000_000)]),
    "in pieces that do not make it up": lambda: iter([ANSWER[:20], Completion(ANSWER)]),
}


@few_ways
@pytest.mark.parametrize("name", LONG_STREAMS)
def test_whatever_a_run_wrote_is_read_back_whole(engine: Engine, name: str) -> None:
    """A judge that writes without end is stopped."""
    events = engine.run(LONG_STREAMS[name])
    whole = [event for event in events if isinstance(event, Started | TurnEnded | Finished)]
    kept = engine.trace.events()
    assert len(written(events).pieces) <= MAX_PIECES
    assert [event for event in kept if isinstance(event, Started | TurnEnded | Finished)] == whole
    if name == "without end":
        assert (end_of(events).stop, end_of(events).fault) == (StopReason.FAILED, "BackendRefused")
        texts = [event.text for event in events if isinstance(event, TextArrived)]
        assert 1_500_000 < sum(map(len, texts)) <= 1_572_864
