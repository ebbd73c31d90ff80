"""The loop: one comparison as a generator of events. `batch` runs many side by side.

There is one loop for page, command line, benchmark and training: what is trained is what is shown.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

from vrthinker_core.backends.base import Backend, Conversation, GenerationRequest, StreamItem, not_cancelled
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.dialects import Dialect, make_dialect, sanitize_prompt, with_defaults
from vrthinker_core.errors import BadInput, ContextFull, VrThinkerError
from vrthinker_core.traces import TraceWriter, make_thumbnail
from vrthinker_core.types import ClipInfo, ProtocolName, Settings, VideoPair
from vrthinker_core.types.events import Event, Finished, FramesShown, Started, StopReason, TextArrived, Turn, TurnEnded
from vrthinker_core.types.geometry import FrameLayout
from vrthinker_core.types.messages import Cancelled, Completion
from vrthinker_core.video import Clip, DecoderPool
from vrthinker_core.video.clip_pair import close_clip, frame_source, opened_clips, submit_opening

MAX_PROMPT = 10_000
"""Characters of a prompt that are read: far beyond any video prompt, and short enough for every judge's context."""


def judge(
    pair: VideoPair,
    backend: Backend,
    settings: Settings = Settings(),
    *,
    cancelled: Cancelled = not_cancelled,
    trace: Path | None = None,
    notes: Sequence[str] = (),
    decoders: DecoderPool | None = None,
) -> Iterator[Event]:
    """Compare two videos; an event at each step, `Started` first and exactly one `Finished` last.

    Never raises for bad input, bad files or a failing judge: these end the run as `failed` with a sentence. Closing the
    generator ends the run as `cancelled`. `trace` names a file that is written turn by turn; `notes` go into the trace's beginning.
    `decoders` gives the decoding processes; whoever judges more than once keeps one, and the videos open faster.
    """
    run = Run(pair, backend, settings, cancelled, notes, decoders)
    asked: GenerationRequest | None = None
    stream: Iterator[str | Completion] = iter(())
    with closing(run.recorded(trace)) as steps:
        for step in steps:
            if not isinstance(step, GenerationRequest):
                yield step
                continue
            try:
                if step is not asked:
                    asked, stream = step, step.conversation.stream(step.messages, step.sampling, step.cancelled)
                run.hear(next(stream, None))
            except Exception as error:  # noqa: BLE001 - the run itself tells and keeps what was written so far
                run.hear(error)


def _with_trouble(event: Event, recorder: TraceWriter) -> Event:
    """The last event, with what became of the record; the record itself says so too."""
    if not isinstance(event, Finished) or not recorder.warning:
        return event
    told = replace(event, notes=(*event.notes, recorder.warning))
    recorder.record(told)
    return told


Step = Event | GenerationRequest
"""What a run comes to next: an event, or a question whose next answer it must `hear` before it can go on."""


class Run:
    """One comparison in flight. Its steps may be read once. Whoever reads them lets the judge speak, alone or among others."""

    def __init__(
        self,
        pair: VideoPair,
        backend: Backend,
        settings: Settings = Settings(),
        cancelled: Cancelled = not_cancelled,
        notes: Sequence[str] = (),
        decoders: DecoderPool | None = None,
    ) -> None:
        self._pair = replace(pair, prompt=_plain(pair.prompt))
        self._backend = backend
        self._settings = settings
        self._cancelled = cancelled
        self._notes = tuple(notes)
        self._decoders = decoders
        self._began = time.perf_counter()
        self._forced = False
        self._deliberation: Deliberation | None = None
        self._stack = ExitStack()
        self._opening: list[Future[Clip]] = []
        self._heard: StreamItem | None = None

    def recorded(self, trace: Path | None = None) -> Generator[Step]:
        """Every step; the trace is kept on the way, also when the generator is closed."""
        recorder = TraceWriter(trace)
        try:
            for step in self._steps():
                if isinstance(step, GenerationRequest):
                    yield step
                    continue
                recorder.record(step)
                yield _with_trouble(step, recorder)
        finally:
            if recorder.trace is not None and recorder.trace.finished is None:
                recorder.record(self.finished(StopReason.CANCELLED))

    def open_ahead(self, pool: Executor) -> None:
        """Begin to open both videos now, before the first step is read. Whoever asks for it must `close` the run."""
        with suppress(VrThinkerError):  # what is wrong is told when the run begins
            dialect = make_dialect(self._settings, self._protocol())
            _check_prompt(self._pair.prompt)
            self._opening = self._begin_opening(dialect, pool)

    def close(self) -> None:
        """Give back what a run holds whose steps were not all read."""
        self._stack.close()

    def hear(self, said: StreamItem | None) -> None:
        """The next answer to the question asked: a piece, the end, what went wrong, or None where nothing more comes."""
        self._heard = said

    def _steps(self) -> Iterator[Step]:
        """Everything that happens, and always an end."""
        stop: StopReason | None = None
        error: Exception | None = None
        try:
            dialect, clips = yield from self._open()
            conversation = self._backend.open_conversation()
            self._stack.callback(conversation.close)
            deliberation = self._deliberation = Deliberation(
                self._pair.prompt,
                dialect,
                self._settings,
                frame_source(clips),
                follows_instructions=self._backend.follows_instructions,
            )
            while deliberation.stop_reason is None:
                yield from self._turn(deliberation, conversation)
        except ContextFull as full:
            stop, error = StopReason.CONTEXT_FULL, full
        except Exception as failure:  # noqa: BLE001 - the border: whatever happens, the trace so far is kept and says so
            stop, error = StopReason.FAILED, failure
        finally:
            self._stack.close()
        yield self.finished(stop, error)

    def finished(self, stop: StopReason | None = None, error: Exception | None = None) -> Finished:
        """The last event as things stand."""
        seconds = time.perf_counter() - self._began
        deliberation = self._deliberation
        if deliberation is not None and stop is not None:
            deliberation.end(stop)
        if deliberation is None or deliberation.stop_reason is None:
            return Finished(stop or StopReason.FAILED, error=_sentence(error), fault=_fault(error), seconds=seconds)
        verdict, provisional = deliberation.verdict
        forced = self._forced and deliberation.stop_reason is StopReason.ANSWERED
        return Finished(deliberation.stop_reason, verdict, provisional, forced, _sentence(error), _fault(error), (), seconds)

    # -- beginning -----------------------------------------------------------------------------------------------------

    def _open(self) -> Generator[Event, None, tuple[Dialect, tuple[Clip, Clip]]]:
        """Yields `Started`, also when something is wrong; returns (dialect, clips). Raises what is wrong."""
        trouble: Exception | None = None
        first: Clip | None = None
        second: Clip | None = None
        protocol = self._protocol()
        try:
            dialect = make_dialect(self._settings, protocol)
            self._settings = with_defaults(self._settings, dialect)
            _check_prompt(self._pair.prompt)
            first, second, trouble = self._open_clips(dialect)
        except Exception as failure:  # noqa: BLE001 - a trace begins with `Started` whatever is wrong; the error is raised behind it
            dialect, trouble = make_dialect(Settings(), protocol), failure
        yield self._started(dialect, (_info(first), _info(second)))
        self._check_protocol(protocol)
        if trouble is not None or first is None or second is None:
            raise trouble or BadInput("Both videos are needed.")
        return dialect, (first, second)

    def _protocol(self) -> ProtocolName:
        chosen = self._settings.protocol
        return (self._backend.protocol or "paired") if chosen == "auto" else chosen

    def _check_protocol(self, protocol: ProtocolName) -> None:
        trained = self._backend.protocol
        if trained is not None and trained != protocol:
            raise BadInput(f"{self._backend.name} was trained for the protocol {trained} and cannot speak {protocol}. Choose auto.")

    def _open_clips(self, dialect: Dialect) -> tuple[Clip | None, Clip | None, VrThinkerError | None]:
        with ThreadPoolExecutor(2) as pool:
            return opened_clips(self._opening or self._begin_opening(dialect, pool))

    def _begin_opening(self, dialect: Dialect, pool: Executor) -> list[Future[Clip]]:
        decoders = self._decoders or self._stack.enter_context(DecoderPool())
        layout = FrameLayout(dialect.grid, dialect.sizing(True), dialect.sizing(False), dialect.opening_refs)
        opening = submit_opening(self._pair, layout, decoders, pool)
        for clip in opening:
            self._stack.callback(close_clip, clip)
        return opening

    def _started(self, dialect: Dialect, infos: tuple[ClipInfo | None, ClipInfo | None]) -> Started:
        notes = self._notes + _pair_notes(self._pair, infos)
        prompt = self._pair.prompt[:MAX_PROMPT]
        return Started(prompt, self._backend.name, dialect.name, self._settings, infos, dialect.system, dialect.rules, notes)

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _turn(self, deliberation: Deliberation, conversation: Conversation) -> Iterator[Step]:
        if self._cancelled():
            deliberation.end(StopReason.CANCELLED)
            return
        _fit(deliberation, conversation)
        messages, news, number = deliberation.ask(), deliberation.new_message(), deliberation.turn
        self._forced = deliberation.last_turn
        numbers = [deliberation.dialect.frame_number(frame.ref) for frame in news.frames]
        with ThreadPoolExecutor(2) as pool:
            frames = tuple(pool.map(make_thumbnail, news.frames, numbers))
        in_view = deliberation.in_view
        yield FramesShown(number, news.text, frames, self._forced)
        completion, failure = yield from self._reply(
            number, GenerationRequest(conversation, messages, deliberation.sampling(), self._cancelled)
        )
        try:
            reply = deliberation.take(completion)
        except VrThinkerError as error:
            failure, reply = error, deliberation.replies[-1]
        yield TurnEnded(Turn(number, news.text, frames, completion, reply, self._forced, in_view))
        if failure is not None:
            raise failure

    def _reply(self, number: int, question: GenerationRequest) -> Generator[Step, None, tuple[Completion, Exception | None]]:
        """Yields the text as it arrives; returns the whole reply, and what cut it short."""
        pieces: list[str] = []
        while True:
            yield question
            said, self._heard = self._heard, None
            if isinstance(said, Completion):
                return replace(said, text=_plain(said.text)), None
            if not isinstance(said, str):
                return Completion("".join(pieces), "failed", pieces=tuple(map(len, pieces))), said
            pieces.append(_plain(said))
            yield TextArrived(number, pieces[-1])


def _fit(deliberation: Deliberation, conversation: Conversation) -> None:
    """Let the oldest tool frames leave until the conversation fits. Raises ContextFull when nothing is left to leave."""
    capacity = conversation.context_length
    if capacity is None:
        return
    room = min(deliberation.settings.max_new_tokens, capacity // 8)
    while (length := conversation.count_tokens(deliberation.ask())) + room > capacity:
        if not deliberation.forget_oldest():
            raise ContextFull(
                f"The conversation has {length} tokens and the judge reads {capacity}, its reply included. Shorten the prompt."
            )


def _info(clip: Clip | None) -> ClipInfo | None:
    return None if clip is None else replace(clip.info, name=_plain(clip.info.name))


def _plain(text: str) -> str:
    """Text that can be written as UTF-8: half characters, as a stray byte on a command line leaves them, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise BadInput("The prompt is empty. Write the text that both videos were made from.")
    if len(prompt) > MAX_PROMPT:
        raise BadInput(f"The prompt has {len(prompt):,} characters; at most {MAX_PROMPT:,} are read. Shorten it.")


def _pair_notes(pair: VideoPair, infos: tuple[ClipInfo | None, ClipInfo | None]) -> tuple[str, ...]:
    notes = []
    first, second = infos
    if first is not None and second is not None and first.digest == second.digest:
        notes.append("Both videos are the same file.")
    if sanitize_prompt(pair.prompt)[1]:
        notes.append("The prompt holds control tokens or protocol tags; they were sent as plain text.")
    return tuple(notes)


def _sentence(error: Exception | None) -> str:
    if error is None or isinstance(error, VrThinkerError):
        return _plain(str(error or ""))
    if isinstance(error, MemoryError):
        return "There is too little memory for this comparison. Use a smaller judge or shorter videos."
    return f"The judge stopped unexpectedly ({type(error).__name__}). What it had said is kept; compare again."


def _fault(error: Exception | None) -> str:
    return "" if error is None else type(error).__name__
