"""A pair run by each engine: by `judge` alone, by `judge_many` as the second of two, in threads and in a batch, by the page, and as a
rollout of training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.support.waiting import PATIENCE_S
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.backends.base import Backend, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.backends.scripted import ScriptedConversation
from vrthinker_core.comparison import Comparison
from vrthinker_core.protocols import Paired
from vrthinker_core.runner import judge, judge_many, run_events
from vrthinker_core.traces import load, storable
from vrthinker_core.types import Settings, Trace, VideoPair
from vrthinker_core.types.events import Event, Finished, JudgeEvent
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
    way: str
    pairs: int
    kind: type[OddBackend]
    played: list[Comparison] = field(default_factory=list)

    def backend(self, *tries: Stream) -> OddBackend:
        return self.kind([CALL], tries=tries)

    def start(self, backend: Backend, cancelled: Cancelled = not_cancelled) -> Generator[Event]:
        """The events of the pair as they come."""
        if self.way == "page":
            yield from on_a_page(self.pair, backend, self.path, cancelled)
        elif self.way == "rollout":
            yield from as_a_rollout(self, backend, cancelled)
        elif self.pairs == 1:
            yield from judge(self.pair, backend, trace=self.path, cancelled=cancelled)
        else:
            pairs, paths = [self.pair] * self.pairs, {1: self.path}
            events = judge_many(pairs, backend, trace_of=paths.get, cancelled=cancelled)
            with closing(events):  # type: ignore[type-var]
                yield from (event for position, event in events if position == 1)

    def run(self, *tries: Stream) -> list[Event]:
        return list(self.start(self.backend(*tries)))

    @property
    def trace(self) -> Trace:
        """As it is kept; a rollout's is kept by whoever plays it."""
        kept = self.played[-1].trace if self.played else load(self.path)
        assert kept
        return kept


def on_a_page(
    pair: VideoPair, backend: Backend, trace: Path, cancelled: Cancelled
) -> Generator[Event]:
    """The events of a run on a page, each when the one before was taken."""
    from vrthinker_core.ui.queue import JudgeQueue
    from vrthinker_core.ui.run import BackgroundRun, RunJob

    events: SimpleQueue[JudgeEvent | None] = SimpleQueue()
    taken = threading.Semaphore(0)

    def run_job(job: RunJob) -> Generator[JudgeEvent]:
        asked = judge(job.pair, backend, job.settings, trace=job.trace, cancelled=cancelled)
        with closing(asked) as own:  # type: ignore[type-var]
            for event in own:
                yield event
                events.put(event)
                taken.acquire()
        events.put(None)

    job = RunJob(pair, Settings(), trace, trace.with_name("stop"))
    run = BackgroundRun(job, run_job, JudgeQueue())
    run.start()
    try:
        while (event := events.get()) is not None:
            yield event
            taken.release()
        kept, shown = load(trace), storable(run.trace)
        # A page keeps the text of a turn that was cut, too
        assert replace(shown, turns=shown.turns[: len(kept.turns)]) == kept, "it shows what is kept"
    finally:
        run.request_stop()
        taken.release(1000)
        assert run.join(PATIENCE_S)


def as_a_rollout(engine: Engine, backend: Backend, cancelled: Cancelled) -> Generator[Event]:
    """The events of a rollout of the pair."""
    from vrthinker_core.training.pair_set import ClipFrames, OpenClips

    with OpenClips(Paired().frame_plan) as clips:
        source = ClipFrames(engine.pair, clips)
        comparison = Comparison(engine.pair, backend, cancelled=cancelled, source=source)
        engine.played.append(comparison)
        yield from run_events(comparison)


ENGINES: dict[str, tuple[str, int, type[OddBackend]]] = {
    "judge": ("judge", 1, OddBackend),
    "judge_many, in threads": ("threads", 2, OddBackend),
    "judge_many, in a batch": ("batch", 2, OddBatch),
    "page": ("page", 1, OddBackend),
    "rollout": ("rollout", 1, OddBackend),
}


few_ways = pytest.mark.parametrize(
    "engine", ["judge", "judge_many, in a batch", "page"], indirect=True
)
"""For what is decided in one place for all ways; a rollout waits for its frames whoever stops it."""


def end_of(events: Sequence[Event] | Iterator[Event]) -> Finished:
    """The end of a run."""
    *_, last = events
    assert isinstance(last, Finished)
    return last
