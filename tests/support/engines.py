"""A pair run by each engine: by `judge` alone, or by `judge_many` as the second of two, one by one and in a batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path

from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.backends.base import Backend, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.scripted import ScriptedConversation
from vrthinker_core.judge import judge, judge_many
from vrthinker_core.traces import load
from vrthinker_core.types import Trace, VideoPair
from vrthinker_core.types.events import Event, Finished
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling

CALL = '<Think>t</Think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>'
Stream = Callable[[], Iterator[str | Completion]]


@dataclass(frozen=True, slots=True)
class OddBackend(ScriptedBackend):
    """Calls for frames in its first turn; `tries` are its streams from then on, the last one again and again."""

    tries: Sequence[Stream] = ()
    calls: list[tuple[tuple[Message, ...], Sampling]] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    def open_conversation(self) -> OddConversation:
        return OddConversation(self)


class OddConversation(ScriptedConversation):
    def __init__(self, backend: OddBackend) -> None:
        super().__init__(backend)
        self._tries, self._log = chain(backend.tries, repeat(backend.tries[-1])), backend.calls
        self._closed = backend.closed

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        if len(messages) == 2:
            return super().stream(messages, sampling, cancelled)
        self._log.append((tuple(messages), sampling))
        return next(self._tries)()

    def close(self) -> None:
        self._closed.set()


class BatchScript(ScriptedBackend):
    """A script for many requests at once: a piece of each in turn."""

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        streams = {
            n: q.conversation.stream(q.messages, q.sampling, q.cancelled)
            for n, q in enumerate(requests)
        }
        while streams:
            for n, stream in list(streams.items()):
                item: StreamItem | type[StopIteration]
                try:
                    item = next(stream, StopIteration)
                except Exception as error:  # noqa: BLE001 - the contract: what goes wrong with one is its last item
                    item = error
                if item is not StopIteration:
                    yield n, item  # type: ignore[misc]
                if not isinstance(item, str):
                    del streams[n]


@dataclass(frozen=True, slots=True)
class OddBatch(OddBackend):
    stream_batch = BatchScript.stream_batch


@dataclass(frozen=True, slots=True)
class Engine:
    """One way to run a pair, among so many equal ones."""

    pair: VideoPair
    path: Path
    pairs: int
    kind: type[OddBackend]

    def backend(self, *tries: Stream) -> OddBackend:
        return self.kind([CALL], tries=tries)

    def start(self, backend: Backend, cancelled: Cancelled = not_cancelled) -> Generator[Event]:
        """The events of the pair as they come."""
        if self.pairs == 1:
            yield from judge(self.pair, backend, trace=self.path, cancelled=cancelled)
            return
        pairs, paths = [self.pair] * self.pairs, {1: self.path}
        events = judge_many(pairs, backend, trace_of=paths.get, cancelled=cancelled)
        with closing(events):  # type: ignore[type-var]
            yield from (event for position, event in events if position == 1)

    def run(self, *tries: Stream) -> list[Event]:
        return list(self.start(self.backend(*tries)))

    @property
    def trace(self) -> Trace:
        return load(self.path)


ENGINES = {
    "judge": (1, OddBackend),
    "judge_many, one by one": (2, OddBackend),
    "judge_many, in a batch": (2, OddBatch),
}


def end_of(events: Sequence[Event] | Iterator[Event]) -> Finished:
    """The end of a run."""
    *_, last = events
    assert isinstance(last, Finished)
    return last
