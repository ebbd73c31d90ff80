"""However a judge's stream ends, `judge` and `judge_many` end the run alike: a reason, a sentence, and what was written so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.decoders import halting_decoders
from tests.test_judge import ANSWER, CALL
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.backends.base import Backend, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.scripted import ScriptedConversation
from vrthinker_core.batch import judge_many
from vrthinker_core.errors import BackendFailed
from vrthinker_core.judge import judge
from vrthinker_core.traces import load
from vrthinker_core.types import StopReason, VideoPair
from vrthinker_core.types.events import Event, Finished, Started, TextArrived, TurnEnded
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling

Stream = Callable[[], Iterator[str | Completion]]


class OddConversation(ScriptedConversation):
    """Calls for frames in its first turn; from the second on its streams are those of the test."""

    def __init__(self, backend: OddBackend) -> None:
        super().__init__(backend)
        self._stream = backend.stream
        self.closed = backend.closed

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        if len(messages) == 2:
            return super().stream(messages, sampling, cancelled)
        return self._stream()

    def close(self) -> None:
        self.closed.set()


@dataclass(frozen=True, slots=True)
class OddBackend(ScriptedBackend):
    stream: Stream = lambda: iter(())
    closed: threading.Event = field(default_factory=threading.Event)

    def open_conversation(self) -> OddConversation:
        return OddConversation(self)


@dataclass(frozen=True, slots=True)
class OddBatch(OddBackend):
    """The same streams through a backend that generates many replies at once."""

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        for position, request in enumerate(requests):
            try:
                for item in request.conversation.stream(
                    request.messages, request.sampling, request.cancelled
                ):
                    yield position, item
            except Exception as error:  # noqa: BLE001 - the contract: what goes wrong with one is its last item
                yield position, error


def odd(kind: type[OddBackend], stream: Stream) -> OddBackend:
    return kind([CALL], stream=stream)


def alone(
    pair: VideoPair, backend: Backend, path: Path, cancelled: Cancelled = not_cancelled
) -> Generator[Event]:
    events = judge(pair, backend, trace=path, cancelled=cancelled)
    assert isinstance(events, Generator)
    return events


def among_others(
    pair: VideoPair, backend: Backend, path: Path, cancelled: Cancelled = not_cancelled
) -> Generator[Event]:
    """The second of three pairs."""
    paths = {1: path}
    events = judge_many([pair] * 3, backend, trace_of=paths.get, cancelled=cancelled)
    assert isinstance(events, Generator)
    try:
        for position, event in events:
            if position == 1:
                yield event
    finally:
        events.close()


Driver = Callable[..., Generator[Event]]
DRIVERS = [
    pytest.param(alone, OddBackend, id="judge"),
    pytest.param(among_others, OddBackend, id="judge_many, one by one"),
]
DRIVERS += [pytest.param(among_others, OddBatch, id="judge_many, in a batch")]
every_driver = pytest.mark.parametrize(("driver", "kind"), DRIVERS)


@every_driver
def test_a_run_is_stopped_while_its_frames_are_decoded(
    driver: Driver, kind: type[OddBackend], pair: VideoPair, tmp_path: Path
) -> None:
    stopped, events, halted = threading.Event(), [], []
    with halting_decoders() as halt:
        for event in driver(pair, kind([CALL]), tmp_path / "run.json", stopped.is_set):
            events.append(event)
            if (
                "".join(each.text for each in events if isinstance(each, TextArrived)) == CALL
                and not halted
            ):  # which nobody answers
                halted += halt()
                stopped.set()
    assert halted, "frames were being decoded when it was stopped"
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.stop, end.error) == (StopReason.CANCELLED, "")
    assert last_turn(events).turn.completion.text == CALL


def last_turn(events: list[Event]) -> TurnEnded:
    return [event for event in events if isinstance(event, TurnEnded)][-1]


@every_driver
def test_a_stream_without_a_completion_fails_with_a_sentence(
    driver: Driver, kind: type[OddBackend], pair: VideoPair, tmp_path: Path
) -> None:
    events = list(driver(pair, odd(kind, lambda: iter(["half ", "a re"])), tmp_path / "run.json"))
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.stop, end.fault, end.error) == (
        StopReason.FAILED,
        "BackendFailed",
        "The judge stopped before it had answered.",
    )
    assert last_turn(events).turn.completion == Completion("half a re", "failed", pieces=(5, 4))
    assert list(load(tmp_path / "run.json").events()) == events


@every_driver
def test_a_stream_without_anything_fails_with_the_same_sentence(
    driver: Driver, kind: type[OddBackend], pair: VideoPair, tmp_path: Path
) -> None:
    events = list(driver(pair, odd(kind, lambda: iter(())), tmp_path / "run.json"))
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.stop, end.error) == (StopReason.FAILED, "The judge stopped before it had answered.")
    assert last_turn(events).turn.number == 2


@every_driver
@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (BackendFailed("The machine is gone."), "The machine is gone."),
        (ZeroDivisionError("secret"), "ZeroDivisionError"),
    ],
)
def test_a_stream_that_raises_keeps_its_text_and_says_why(
    driver: Driver,
    kind: type[OddBackend],
    error: Exception,
    sentence: str,
    pair: VideoPair,
    tmp_path: Path,
) -> None:
    def stream() -> Iterator[str | Completion]:
        yield "half a re"
        raise error

    events = list(driver(pair, odd(kind, stream), tmp_path / "run.json"))
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.stop, end.fault) == (StopReason.FAILED, type(error).__name__)
    assert sentence in end.error
    assert "secret" not in end.error
    assert last_turn(events).turn.completion.text == "half a re"
    assert load(tmp_path / "run.json").finished == end


@every_driver
def test_a_cancelled_stream_keeps_its_text_and_has_no_verdict(
    driver: Driver, kind: type[OddBackend], pair: VideoPair, tmp_path: Path
) -> None:
    def stream() -> Iterator[str | Completion]:
        yield ANSWER[:20]
        yield Completion(ANSWER[:20], "cancelled", pieces=(20,))

    events = list(driver(pair, odd(kind, stream), tmp_path / "run.json"))
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.stop, end.verdict, end.error) == (StopReason.CANCELLED, None, "")
    assert last_turn(events).turn.completion.text == ANSWER[:20]
    assert load(tmp_path / "run.json").finished == end


@every_driver
def test_cancelling_between_two_turns_ends_the_run_there(
    driver: Driver, kind: type[OddBackend], pair: VideoPair, tmp_path: Path
) -> None:
    flag = threading.Event()
    found: list[Event] = []
    for event in driver(
        pair,
        ScriptedBackend([CALL, CALL.replace("10", "11"), ANSWER]),
        tmp_path / "run.json",
        flag.is_set,
    ):
        found.append(event)
        if isinstance(event, TurnEnded):
            flag.set()
    end = found[-1]
    assert isinstance(end, Finished)
    assert (end.stop, end.verdict, end.error) == (StopReason.CANCELLED, None, "")
    assert load(tmp_path / "run.json").finished == end


@every_driver
def test_closing_in_the_middle_of_a_reply_keeps_the_turns_before_it(
    driver: Driver, kind: type[OddBackend], pair: VideoPair, tmp_path: Path
) -> None:
    backend = odd(kind, lambda: iter(["half ", "a re", Completion("half a re")]))
    events = driver(pair, backend, tmp_path / "run.json")
    while not (isinstance(event := next(events), TextArrived) and event.text == "half "):
        pass
    events.close()
    trace = load(tmp_path / "run.json")
    assert trace.finished is not None
    assert (trace.finished.stop, trace.finished.verdict) == (StopReason.CANCELLED, None)
    assert [turn.number for turn in trace.turns] == [1]
    assert backend.closed.is_set(), "the conversation was closed"


@every_driver
@pytest.mark.parametrize("count", [-1, 10**400])
def test_a_count_of_tokens_that_cannot_be_is_left_out(
    driver: Driver, kind: type[OddBackend], count: int, pair: VideoPair, tmp_path: Path
) -> None:
    told = Completion(
        ANSWER, pieces=(len(ANSWER),), prompt_tokens=count, reused_tokens=count, new_tokens=count
    )
    events = list(driver(pair, odd(kind, lambda: iter([ANSWER, told])), tmp_path / "run.json"))
    read = last_turn(events).turn.completion
    assert (read.prompt_tokens, read.reused_tokens, read.new_tokens) == (None, None, None)
    assert load(tmp_path / "run.json").finished == events[-1]


def streamed(text: str, size: int, error: Exception | None = None) -> Stream:
    """The text in pieces of that size; then the error, or how it was written."""

    def stream() -> Iterator[str | Completion]:
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        yield from pieces
        if error is not None:
            raise error
        yield Completion(text, pieces=tuple(map(len, pieces)))

    return stream


LONG_STREAMS = {
    "a character at a time": streamed(f"<Think>{'so ' * 23_000}</Think>{CALL}", 1),
    "commas": streamed(f"<Think>{'a,' * 250_000}</Think>{CALL}", 300),
    "a character at a time, and broken off": streamed(
        "so " * 23_000, 1, BackendFailed("The machine is gone.")
    ),
    "without end": streamed(f"<Think>{'look ' * 200_000}</Think>{CALL}", 5000),
    "all at once": lambda: iter([Completion("x" * 2_000_000)]),
    "in pieces that do not make it up": lambda: iter([ANSWER[:20], Completion(ANSWER)]),
}


@every_driver
@pytest.mark.parametrize("stream", LONG_STREAMS.values(), ids=LONG_STREAMS)
def test_whatever_a_run_wrote_is_read_back_whole(
    driver: Driver, kind: type[OddBackend], stream: Stream, pair: VideoPair, tmp_path: Path
) -> None:
    events = list(driver(pair, odd(kind, stream), tmp_path / "run.json"))
    trace = load(tmp_path / "run.json")
    ended = [event for event in events if isinstance(event, Started | TurnEnded | Finished)]
    assert [
        event for event in trace.events() if isinstance(event, Started | TurnEnded | Finished)
    ] == ended


@every_driver
def test_a_judge_that_writes_without_end_is_stopped(
    driver: Driver, kind: type[OddBackend], pair: VideoPair, tmp_path: Path
) -> None:
    events = list(driver(pair, odd(kind, LONG_STREAMS["without end"]), tmp_path / "run.json"))
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.stop, end.fault) == (StopReason.FAILED, "BackendRefused")
    assert "more than 1,572,864 characters" in end.error
    assert (
        1_500_000
        < sum(len(event.text) for event in events if isinstance(event, TextArrived))
        <= 1_572_864
    )
