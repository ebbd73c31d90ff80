"""The loop, in one screen: one comparison as a generator of events."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from vrthinker_core.backends.base import Backend, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.branching.plan import BranchPlan
from vrthinker_core.comparison import Comparison
from vrthinker_core.errors import BackendFailed, BackendRefused, BadInput
from vrthinker_core.text import encodable
from vrthinker_core.traces import TraceWriter
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.bounds import MAX_NUMBER
from vrthinker_core.types.events import JudgeEvent, RunEvent, Swapped, TextArrived, turn_events
from vrthinker_core.types.messages import MAX_PIECES, Cancelled, Completion
from vrthinker_core.video import DecoderPool

MAX_WRITTEN = 3 * 2**19
"""Characters that a judge may write in one run. A trace holds two runs, and each text up to three times: as it was written, as it
counts, and as the reasoning in it."""

_TOO_MUCH = f"The judge wrote more than {MAX_WRITTEN:,} characters in this run and was stopped. Choose another judge, or fewer tokens."


def judge(
    pair: VideoPair,
    backend: Backend,
    settings: Settings = Settings(),
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Iterator[JudgeEvent]:
    """Compare two videos; an event at each step: `Opening` where that takes long, `Started`, and exactly one `Finished` last.

    Never raises for bad input, bad files or a failing judge: these end the run as `failed` with a sentence. Closing the generator
    ends the run as `cancelled`. A turn in which the judge failed is tried once more: its `FramesShown` comes again, with a note.
    `trace` names a file that is written turn by turn: a new one, or an earlier trace, for no other file is replaced. `decoder_pool`
    gives the decoding processes; whoever judges more than once keeps one, and the videos open faster.

    With `settings.swap` a run that has a verdict is followed by a second one over the same opened videos, with the sides swapped:
    its events, `Started` to `Finished`, come as `Swapped`. Raises BadInput where `backend` is only the name of a judge.
    """
    check_opened(backend)
    yield from _record_run(Comparison(pair, backend, settings, cancelled, decoder_pool), trace)


def judge_branch(
    plan: BranchPlan,
    pair: VideoPair,
    backend: Backend,
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | str | None = None,
    decoder_pool: DecoderPool | None = None,
) -> Iterator[JudgeEvent]:
    """A branch of a run: the events of the turns it takes over, then those of its own; all else as in `judge`.

    No token of a turn that is taken over is generated again: its reply is history, prefilled with the first request. With nothing
    changed, the turns that follow are those of the origin.
    """
    check_opened(backend)
    yield from _record_run(
        Comparison(pair, backend, plan.settings, cancelled, decoder_pool, plan), trace
    )


def check_opened(backend: Backend) -> None:
    """Raises BadInput for the name of a judge in the place of one."""
    if isinstance(backend, str):
        raise BadInput(
            f"{backend!r} is only the name of a judge: open it first, with open_backend({backend!r})."
        )


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
    """One run from its first event to its last."""
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
                if reply.failed:
                    break
        room = reply.room
        if (ended := run.finish_turn(reply.completion, reply.error)) is not None:
            yield ended
    yield run.finish()


def stream_items(request: GenerationRequest) -> Generator[StreamItem, None, None]:
    """The stream of one reply; what it raises is its last item. It is closed with this generator."""
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
    """Collects the stream of one reply. However the stream ends, there is a completion, and an error where it was cut short."""

    def __init__(self, turn: int, room: int = MAX_WRITTEN) -> None:
        self._turn = turn
        self.room = room  # Characters that the run may still keep
        self._pieces: list[str] = []
        self._completion: Completion | None = None
        self._error: Exception | None = None

    def add(self, item: StreamItem) -> Iterator[TextArrived]:
        """Take the next item of the stream; gives the event of a piece of text, nothing for its end."""
        if isinstance(item, Exception):
            self._error = item
            return
        size = len(item) if isinstance(item, str) else _written(item) - sum(map(len, self._pieces))
        if size > self.room:
            self._error = BackendRefused(_TOO_MUCH)
            return
        self.room -= size
        if isinstance(item, Completion):
            self._completion = _keepable(item)
        else:
            self._pieces.append(encodable(item))
            yield TextArrived(self._turn, self._pieces[-1])

    @property
    def failed(self) -> bool:
        """An error cut the reply short: whatever else comes is not taken."""
        return self._error is not None

    @property
    def ended(self) -> bool:
        """The stream has said how it ended."""
        return self._completion is not None or self._error is not None

    @property
    def completion(self) -> Completion:
        """The whole reply, or what there was of it when it was cut short."""
        return self._completion or _keepable(
            Completion("".join(self._pieces), "failed", pieces=tuple(map(len, self._pieces)))
        )

    @property
    def error(self) -> Exception | None:
        """What cut the reply short: the stream's own error, or that it stopped without a completion."""
        return (
            None
            if self._completion
            else self._error or BackendFailed("The judge stopped before it had answered.")
        )


def _written(completion: Completion) -> int:
    return len(completion.text) + len(completion.reasoning)


def _keepable(completion: Completion) -> Completion:
    """A completion as a trace may hold it, whatever backend it comes from."""
    text = encodable(completion.text)
    whole = sum(completion.pieces) == len(text)
    return replace(
        completion,
        text=text,
        reasoning=encodable(completion.reasoning),
        pieces=_joined(completion.pieces if whole else (len(text),)),
        prompt_tokens=_possible_count(completion.prompt_tokens),
        reused_tokens=_possible_count(completion.reused_tokens),
        new_tokens=_possible_count(completion.new_tokens),
    )


def _joined(pieces: Sequence[int]) -> tuple[int, ...]:
    """The lengths of at most `MAX_PIECES` pieces."""
    many = max(1, -(-len(pieces) // MAX_PIECES))
    return tuple(sum(pieces[start : start + many]) for start in range(0, len(pieces), many))


def _possible_count(count: int | None) -> int | None:
    """A count as a trace may hold it; None for one that cannot be, since a server says what it likes."""
    return count if count is not None and 0 <= count <= MAX_NUMBER else None
