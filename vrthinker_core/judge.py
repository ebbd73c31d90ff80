"""The judge loop: one comparison as a generator of events."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

from vrthinker_core.backends import open_backend
from vrthinker_core.backends.base import (
    Backend,
    GenerationRequest,
    Scope,
    StreamItem,
    not_cancelled,
)
from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.comparison import Comparison
from vrthinker_core.errors import BackendFailed, BackendRefused, BadInput, judge_failure
from vrthinker_core.storage import data_errors, type_adapter
from vrthinker_core.traces import TraceWriter
from vrthinker_core.types import Settings, Trace, VideoPair
from vrthinker_core.types.events import (
    JudgeEvent,
    RunEvent,
    Swapped,
    TextArrived,
    add_event,
    turn_events,
)
from vrthinker_core.types.messages import MAX_PIECES, Cancelled, Completion
from vrthinker_core.types.settings import MAX_NUMBER
from vrthinker_core.video import DecoderPool
from vrthinker_core.words import encodable

MAX_WRITTEN = 3 * 2**19
"""Maximum characters that a judge may write in one run, reasoning included. A trace holds two runs,
and each text up to three times: as written, as counted, and as the reasoning in it."""


def judge(
    pair: VideoPair,
    backend: Backend,
    settings: Settings = Settings(),
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Iterator[JudgeEvent]:
    """Compare two videos and yield an event at each step.

    Yields `Opening` events while slow videos load, then `Started`, and exactly one `Finished` last.
    Bad input, bad files and a failing judge do not raise: they end the run as `failed` with a
    sentence. Closing the generator ends the run as `cancelled`. If the judge fails in a turn, the
    turn is retried once: its `FramesShown` comes again, with a note.

    `trace` names a file that is written turn by turn. The file must be new or an earlier trace: no
    other file is replaced. `decoder_pool` supplies the decoding processes. Keep one pool for
    several comparisons: their videos open faster.

    With `settings.swap` a run with a verdict is followed by a second run over the same opened
    videos with the sides swapped. Its events, `Started` to `Finished`, come as `Swapped`.

    Raises `BadInput` if `backend` is only the name of a judge.
    """
    check_opened(backend)
    yield from _record_run(Comparison(pair, backend, settings, cancelled, decoder_pool), trace)


def compare(
    pair: VideoPair,
    judge: Backend | str | None = None,
    settings: Settings = Settings(),
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Trace:
    """Compare two videos and return the finished trace.

    A `judge` named as on the command line is opened for this call: give a `Backend` to ask more
    than once. None is the best judge here. With `settings.swap` the trace has both runs. All else
    is as in `judge`. Raises `BadInput` for an unknown judge, `JudgeError` if it cannot be opened.
    """
    backend = open_backend(judge) if judge is None or isinstance(judge, str) else judge
    check_opened(backend)
    found: Trace | None = None
    for event in _record_run(Comparison(pair, backend, settings, cancelled, decoder_pool), trace):
        found = add_event(found, event)
    assert found is not None
    return found


def judge_branch(
    plan: BranchPlan,
    pair: VideoPair,
    backend: Backend,
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Iterator[JudgeEvent]:
    """Run a branch: first yield the events of turns taken over.

    The branch's own events follow. Everything else is as in `judge`. Replies of turns taken over
    are not generated again: they are history, prefilled with the first request. Without changes,
    the branch repeats the origin's turns.
    """
    check_opened(backend)
    yield from _record_run(
        Comparison(pair, backend, plan.settings, cancelled, decoder_pool, plan), trace
    )


def check_opened(backend: Backend) -> None:
    """Raise `BadInput` for anything that is no opened judge."""
    if isinstance(backend, str):
        raise BadInput(
            f"{backend!r} is only the name of a judge: open it first, with "
            f"open_backend({backend!r})."
        )
    wanted = {"name": str, "protocols": tuple, "notes": tuple, "follows_instructions": bool}
    wrong = [each for each in wanted if not isinstance(getattr(backend, each, None), wanted[each])]
    wrong += [] if getattr(backend, "scope", None) in get_args(Scope) else ["scope"]
    if wrong:
        raise BadInput(f"{type(backend).__name__} is no Backend: wrong {' and '.join(wrong)}.")


def _record_run(first: Comparison, trace: Path | str | None) -> Iterator[JudgeEvent]:
    with ExitStack() as resources:
        resources.enter_context(closing(first))
        writer = resources.enter_context(closing(TraceWriter(trace)))
        while (opening := first.next_opening()) is not None:
            yield opening
        for event in _run_events(first, writer.refused):
            yield writer.record(event)
        if (second := first.swapped()) is not None:
            resources.enter_context(closing(second))
            for event in _run_events(second):
                yield writer.record(Swapped(event))


def _run_events(run: Comparison, refused: BadInput | None = None) -> Iterator[RunEvent]:
    yield run.start(refused)
    room = MAX_WRITTEN
    for turn in run.take_over():
        room -= _written(turn.completion)
        yield from turn_events(turn)
    while (pending := run.next_request()) is not None:
        yield pending.shown
        reply = ReplyCollector(pending.shown.turn, room)
        with closing(stream_items(pending.request)) as items:
            for item in items:
                yield from reply.add(item)
                if reply.failure:
                    break
        room = reply.room
        if (ended := run.finish_turn(reply.completion, reply.error)) is not None:
            yield ended
    yield run.finish()


def stream_items(request: GenerationRequest) -> Generator[StreamItem, None, None]:
    """Stream one reply; yield an exception as the last item. Closing closes the stream."""
    with ExitStack() as resources:
        try:
            stream = request.conversation.stream(
                request.messages, request.sampling, request.cancelled
            )
            resources.callback(getattr(stream, "close", lambda: None))
            yield from stream
        except Exception as error:  # noqa: BLE001 - the run itself says what happened, and keeps what was written so far
            yield error


class ReplyCollector:
    """The collected stream of one reply; `completion` exists however the stream ends."""

    def __init__(self, turn: int, room: int = MAX_WRITTEN) -> None:
        self._turn = turn
        self.room = room  # Characters that the run may still write
        self.failure: Exception | None = None  # Cut the reply short: no further item is taken
        self._pieces: list[str] = []
        self._completion: Completion | None = None

    def add(self, item: StreamItem) -> Iterator[TextArrived]:
        """Take the next stream item; yield an event if it is text."""
        try:
            item = item if isinstance(item, str | Exception) else _keepable(item)
        except Exception as error:  # noqa: BLE001 - a judge of one's own may yield anything
            item = error
        if isinstance(item, Exception):
            self.failure = judge_failure(item)
            return
        size = len(item) if isinstance(item, str) else _written(item) - sum(map(len, self._pieces))
        if size > self.room:
            self.failure = BackendRefused(
                f"The judge wrote more than {MAX_WRITTEN:,} characters in this run and was "
                "stopped. Choose another judge, or fewer tokens."
            )
            return
        self.room -= size
        if isinstance(item, Completion):
            self._completion = item
        else:
            self._pieces.append(encodable(item))
            yield TextArrived(self._turn, self._pieces[-1])

    @property
    def ended(self) -> bool:
        """Whether the stream has ended, with a completion or an error."""
        return self._completion is not None or self.failure is not None

    @property
    def completion(self) -> Completion:
        """The whole reply, or the part that arrived before an error."""
        text, pieces = "".join(self._pieces), tuple(map(len, self._pieces))
        return self._completion or _keepable(Completion(text, "failed", pieces=pieces))

    @property
    def error(self) -> Exception | None:
        """The error that cut the reply short; `BackendFailed` if no completion came."""
        if self._completion:
            return None
        return self.failure or BackendFailed("The judge stopped before it had answered.")


def _written(completion: Completion) -> int:
    return len(completion.text) + len(completion.reasoning)


def _keepable(completion: Completion) -> Completion:
    """Return the completion as a trace can hold it, or raise."""
    if not isinstance(getattr(completion, "text", None), str):
        kind = type(completion).__name__
        raise TypeError(f"stream gave a {kind}, neither text nor a Completion with text")
    text = encodable(completion.text)
    pieces = completion.pieces if sum(completion.pieces) == len(text) else (len(text),)
    many = max(1, -(-len(pieces) // MAX_PIECES))  # Neighbouring pieces that are merged
    counts = ("prompt_tokens", "reused_tokens", "new_tokens")
    unknown: dict[str, Any] = dict.fromkeys(
        name for name in counts if not 0 <= (getattr(completion, name) or 0) <= MAX_NUMBER
    )
    kept = replace(
        completion,
        text=text,
        reasoning=encodable(completion.reasoning),
        pieces=tuple(sum(pieces[start : start + many]) for start in range(0, len(pieces), many)),
        **unknown,
    )
    values = {each.name: getattr(kept, each.name) for each in fields(kept)}
    with data_errors("stream gave a Completion that no trace can hold", BackendFailed):
        return type_adapter(Completion).validate_python(values)
