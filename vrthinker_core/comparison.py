"""One comparison: its trace so far, and what is sent to the judge next.

`advance` gives the events up to the next request, `add` takes the judge's reply to it. `judge`
drives one comparison and `judge_many` several side by side, for page, command line and evaluation;
a training rollout is a comparison, too. Three questions are answered here: what a judge is asked
(`Deliberation`), what happens after a failure (`_retry`), and how a run ends (`_finished`).
"""

import re
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

from vrthinker_core.backends.base import (
    Backend,
    Conversation,
    GenerationRequest,
    Scope,
    StreamItem,
    not_cancelled,
)
from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.errors import (
    BackendFailed,
    BackendRefused,
    BadInput,
    ContextFull,
    RequestRefused,
    VideoError,
    data_errors,
    describe,
    is_retryable,
    judge_errors,
    judge_failure,
    type_adapter,
)
from vrthinker_core.protocols import PromptProtocol, make_protocol, sanitize_prompt, with_defaults
from vrthinker_core.protocols.base import MAX_PROMPT, check_prompt
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.traces import TraceWriter, make_thumbnail
from vrthinker_core.types import ClipInfo, Settings, Side, StopReason, Turn, Verdict, VideoPair
from vrthinker_core.types.events import (
    Called,
    Finished,
    FramesShown,
    JudgeEvent,
    Opening,
    RunEvent,
    Started,
    Swapped,
    TextArrived,
    Trace,
    TurnEnded,
    add_event,
    second_run_follows,
    turn_events,
)
from vrthinker_core.types.frames import Frame, FrameSource, Thumbnail
from vrthinker_core.types.messages import MAX_PIECES, Cancelled, Completion, Retrying
from vrthinker_core.types.settings import MAX_NUMBER
from vrthinker_core.types.wording import CONTROL
from vrthinker_core.video import Clip, DecoderPool
from vrthinker_core.video.clip import PairOpening, frame_source
from vrthinker_core.words import encodable

MAX_WRITTEN = 3 * 2**19
"""Maximum characters that a judge may write in one run, reasoning included. A trace holds two runs,
and each text up to three times: as written, as counted, and as the reasoning in it."""

Clips = tuple[ClipInfo | None, ClipInfo | None]
Step = RunEvent | GenerationRequest


def clips_of(source: FrameSource) -> Clips:
    """Return the `clips` of a source that can say what they are; None for an unknown one."""
    known: Clips = getattr(source, "clips", (None, None))
    return known


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


def complete(settings: Settings, backend: Backend) -> tuple[Settings, PromptProtocol]:
    """Return settings and protocol with all defaults; raise `BadInput` for wrong ones."""
    check_opened(backend)
    if not isinstance(settings, Settings):
        raise BadInput(f"A {type(settings).__name__} is no Settings: give Settings(...).")
    protocol = make_protocol(settings, chosen_protocol(settings, backend.protocols))
    return with_defaults(settings, protocol), protocol


@dataclass(frozen=True, slots=True)
class Retry:
    """Why a turn is asked again, and whether the oldest frames leave first."""

    why: str
    forget: bool


class Comparison:
    """One pair and one judge; `trace` is all that has happened, with the turn that goes on.

    With `plan` the run is a branch, whose first turns are the plan's. With `source` the pair's
    videos are not opened: the frames of a training pair come from there, its trace has no pictures,
    and the judge's scope does not matter. No step raises: an error ends the run, which says so, and
    stays in `error`. The creator must call `close`. Steps may run in any thread, one at a time.

    Raises `BadInput` for a backend that is none, and for wrong settings.
    """

    def __init__(
        self,
        pair: VideoPair,
        backend: Backend,
        settings: Settings = Settings(),
        plan: BranchPlan | None = None,
        *,
        cancelled: Cancelled = not_cancelled,
        decoder_pool: DecoderPool | None = None,
        source: FrameSource | None = None,
        trace: Path | str | None = None,
    ) -> None:
        if not isinstance(pair, VideoPair):
            raise BadInput(f"A {type(pair).__name__} is no pair: give VideoPair(...).")
        # A missing table cell is not a string. Its pair then fails for an empty prompt.
        prompt = encodable(pair.prompt) if isinstance(pair.prompt, str) else ""
        self.pair, self._backend, self._plan = replace(pair, prompt=prompt), backend, plan
        self._settings, self.protocol = complete(
            settings if plan is None else plan.settings_for(backend.protocols), backend
        )
        self._asked_to_stop, self._decoder_pool, self._source = cancelled, decoder_pool, source
        self.stopped = False  # Set to end the run as cancelled
        self._writer = TraceWriter(trace)
        self._resources = ExitStack()  # The clips
        self._opening: PairOpening | None = None
        self._steps = self._runs()
        self.trace: Trace | None = None
        self.deliberation: Deliberation | None = None
        self.requests: list[GenerationRequest] = []  # One a turn of this run
        self.reply: ReplyCollector | None = None  # What the last request is answered with
        self.error: Exception | None = None  # Why the run has failed

    def _cancelled(self) -> bool:
        return self.stopped or self._asked_to_stop()

    @property
    def request(self) -> GenerationRequest | None:
        """The request that waits for its reply; None after the end."""
        return self.requests[-1] if self.reply is not None else None

    def open_ahead(self, executor: Executor) -> None:
        """Begin to open both videos before the first step, which reports any error."""
        if self._opening is None and self._source is None and self.error is None:
            try:
                check_prompt(self.pair.prompt)
                pool = self._decoder_pool or self._resources.enter_context(DecoderPool())
                plan = self.protocol.frame_plan
                self._opening = PairOpening(self.pair, plan, pool, executor)
                self._resources.callback(self._opening.close)
            except Exception as error:  # noqa: BLE001 - a trace begins with `Started` whatever is wrong
                self.error = error

    def advance(self) -> Iterator[JudgeEvent]:
        """Yield the events up to the next request, or to the end."""
        for step in self._steps:
            if isinstance(step, GenerationRequest):
                self.requests.append(step)
                self.reply = ReplyCollector(self._room)
                return
            yield self._record(step)

    def add(self, item: StreamItem) -> JudgeEvent | None:
        """Take the next item of the judge's stream; return its event, if it has one."""
        assert self.reply is not None, "only between two steps"
        if isinstance(item, Retrying):
            return self._record(item)
        text, deliberation = self.reply.add(item), self.deliberation
        if not text or deliberation is None:
            return None
        called = None if deliberation.last_turn else self._called(deliberation, text)
        return self._record(TextArrived(deliberation.turn, text, called))

    def end(self, reason: StopReason) -> None:
        """End the run in place of the reply that it waits for."""
        if self.request is not None and self.deliberation is not None:
            self.deliberation.stop_reason = reason
            deque(self.advance(), maxlen=0)

    def close(self) -> None:
        """End the run, as cancelled if it goes on, and close the clips. May be called again."""
        self._steps.close()
        self._resources.close()

    def _record(self, event: RunEvent) -> JudgeEvent:
        """Add an event to the trace, and save it after each turn."""
        second = self.trace is not None and self.trace.finished is not None
        marked: JudgeEvent = Swapped(event) if second else event
        trace = self.trace = add_event(self.trace, marked)
        if trace is None or not isinstance(event, Started | TurnEnded | Finished):
            return marked
        warning = self._writer.save(trace)
        if not isinstance(event, Finished) or not warning or warning in event.notes:
            return marked
        # The saved trace must hold the note, too
        event = replace(event, notes=(*event.notes, warning))
        marked = Swapped(event) if second else event
        self.trace = trace.with_event(marked)
        self._writer.save(self.trace)
        return marked

    @property
    def _room(self) -> int:
        """How many characters the judge may still write in this run."""
        turns = self.trace.runs[-1].turns if self.trace else ()
        return MAX_WRITTEN - sum(_written(turn.completion) for turn in turns)

    def _called(self, deliberation: Deliberation, new: str) -> Called | None:
        """Return what a call that is being written brings, when more of it can be read."""
        goes_on = self.trace.runs[-1].open if self.trace else None
        if goes_on is None or not re.search(r"[\],]", new):  # Only these end a frame's number
            return None
        text = goes_on.text + new
        named = "frame_indices" in text or "target_frames" in text
        indices = self.protocol.request(text) if named else ()
        return deliberation.called(indices) if indices else None

    def _runs(self) -> Generator[Step, None, None]:
        """Yield the steps of the run and, if its order is checked, of the second one."""
        with self._resources:
            infos, clips = yield from self._open()
            pair, settings = self.pair, self._settings
            frames = frame_source(clips, self._cancelled) if clips else self._source
            finished = yield from self._run(pair, settings, infos, frames)
            if clips and second_run_follows(settings, finished):
                frames = frame_source(clips[::-1], self._cancelled)
                settings = replace(settings, swap="off")
                self.deliberation, self.requests = None, []
                yield from self._run(pair.swapped(), settings, infos[::-1], frames)

    def _open(self) -> Generator[Step, None, tuple[Clips, tuple[Clip, Clip] | None]]:
        """Open both videos; return what they are, and both if the run may begin."""
        if self._source is not None:
            try:
                return clips_of(self._source), None
            except VideoError as error:
                self.error = error
                return (None, None), None
        executor = ThreadPoolExecutor(2)
        self.open_ahead(executor)
        executor.shutdown(wait=False)  # The threads end when the videos are open
        first = second = None
        try:
            if self._opening is not None:
                while (shares := self._opening.next_shares(self._cancelled)) is not None:
                    yield Opening(shares)
                first, second, self.error = self._opening.clips()
        except Exception as error:  # noqa: BLE001 - a trace begins with `Started` whatever is wrong
            self.error = error
        infos = first.info if first else None, second.info if second else None
        name, trained = self.protocol.name, self._backend.protocols
        if trained and name not in trained:
            self.error = BadInput(
                f"{self._backend.name} was trained for the protocol {' and '.join(trained)}, not "
                f"for {name}. Choose auto."
            )
        unfit = self._plan and self._plan.refusal(self.pair.prompt, name, infos)
        self.error = self._writer.refused or unfit or self.error
        opened = (first, second) if first and second and self.error is None else None
        return infos, opened

    def _run(
        self, pair: VideoPair, settings: Settings, infos: Clips, frames: FrameSource | None
    ) -> Generator[Step, None, Finished]:
        """Yield the steps of one run; return its end. Without `frames` it ends at once."""
        began, notes = time.perf_counter(), sanitize_prompt(pair.prompt).notes
        if infos[0] is not None and infos[1] is not None and infos[0].digest == infos[1].digest:
            notes = ("Both videos are the same file.", *notes)
        control = [CONTROL] if settings.frames == "random" else []
        started = Started(
            pair.prompt[:MAX_PROMPT],
            self._backend.name,
            self.protocol.name,
            settings,
            infos,
            self.protocol.system,
            self.protocol.rules,
            (*self._backend.notes, *control, *notes),
            self._plan.branch if self._plan else None,
        )
        try:
            yield started
            if frames is not None and self.error is None:
                yield from self._turns(pair, settings, frames)
        except GeneratorExit:
            self._record(Finished(StopReason.CANCELLED, seconds=time.perf_counter() - began))
            raise
        except Exception as error:  # noqa: BLE001 - the border: whatever happens, the trace so far is kept and says so
            if not self._cancelled():
                self.error = error
            elif self.deliberation is not None:
                self.deliberation.stop_reason = StopReason.CANCELLED
        finished = self._finished(started, time.perf_counter() - began)
        yield finished
        return finished

    def _turns(
        self, pair: VideoPair, settings: Settings, frames: FrameSource
    ) -> Generator[Step, None, None]:
        """Yield the steps of all turns, until the judge has answered or may not go on."""
        backend = self._backend
        with judge_errors():
            conversation = backend.open_conversation()
        try:
            deliberation = self.deliberation = Deliberation(
                pair.prompt,
                self.protocol,
                settings,
                frames,
                follows_instructions=backend.follows_instructions,
                trained=self._source is not None
                or not backend.follows_instructions
                or bool(backend.protocols),
            )
            if self._plan is not None:
                yield from self._take_over(self._plan, deliberation, conversation)
            while deliberation.stop_reason is None:
                if self._cancelled():
                    deliberation.stop_reason = StopReason.CANCELLED
                else:
                    yield from self._turn(deliberation, conversation)
        finally:
            with suppress(Exception):  # It must not lose the reply
                conversation.close()

    def _take_over(
        self, plan: BranchPlan, deliberation: Deliberation, conversation: Conversation
    ) -> Iterator[RunEvent]:
        """Yield the events of the origin's turns that a branch takes over, unchanged.

        Their replies become history. The branch's settings apply from the response to the last of
        these turns on.
        """
        started, turns = plan.origin.started, plan.turns
        own, deliberation.settings = deliberation.settings, started.settings
        for turn in turns:
            with judge_errors():
                deliberation.fit(conversation.count_tokens, conversation.context_length)
                if started.judge == self._backend.name and turn.completion.prompt_tokens:
                    conversation.calibrate(deliberation.ask(), turn.completion.prompt_tokens)
            last = turn is turns[-1]
            deliberation.settings = own if last else deliberation.settings
            deliberation.take_over(turn.completion, plan.branch.frames if last else ())
            yield from turn_events(turn)
        deliberation.settings = own

    def _turn(
        self, deliberation: Deliberation, conversation: Conversation
    ) -> Generator[Step, None, None]:
        """Yield the steps of a turn, whose reply is asked for again after some failures."""
        retries: list[Retry] = []
        abandoned: tuple[str, ...] = ()
        while True:
            with judge_errors():
                deliberation.fit(conversation.count_tokens, conversation.context_length)
            messages = deliberation.ask()
            shown = self._shown(deliberation, messages[-1].text, messages[-1].frames, retries)
            yield shown
            yield GenerationRequest(
                conversation, messages, deliberation.sampling(), self._cancelled
            )
            if deliberation.stop_reason is not None:
                self.requests.pop()
                self.reply = None
                return
            assert self.reply is not None
            completion, error, self.reply = self.reply.completion, self.reply.error, None
            retry = self._retry(error, completion, deliberation, retries) if error else None
            if retry is None:
                break
            retries.append(retry)
            self.requests.pop()
            if retry.forget:
                self._forget(deliberation)
            else:
                abandoned = tuple(completion.split())
        try:
            reply = deliberation.take(completion)
        except Exception as failure:  # noqa: BLE001 - the reply counts, the frames it asks for cannot be had
            error, reply = error or failure, deliberation.replies[-1]
        sent = shown.turn, shown.told, shown.frames
        turn = Turn(*sent, completion, reply, shown.forced, shown.in_view, shown.note, abandoned)
        yield TurnEnded(turn, deliberation.last_call if error is None else None)
        if error is not None:
            raise error

    def _shown(
        self, deliberation: Deliberation, told: str, frames: Sequence[Frame], retries: list[Retry]
    ) -> FramesShown:
        numbers = [deliberation.protocol.frame_number(frame.ref) for frame in frames]
        thumbnail = make_thumbnail if self._source is None else _no_picture
        with ThreadPoolExecutor(2) as executor:
            thumbnails = tuple(executor.map(thumbnail, frames, numbers))
        why, forced = dict.fromkeys(each.why for each in retries), deliberation.last_turn
        note, turn = " ".join(why), deliberation.turn
        return FramesShown(turn, told, thumbnails, forced, note, deliberation.in_view)

    def _retry(
        self,
        error: Exception,
        completion: Completion,
        deliberation: Deliberation,
        before: Sequence[Retry],
    ) -> Retry | None:
        """Decide whether a turn without a usable reply is asked again.

        After a failure the turn is asked once more as it was; if the request was refused, once more
        without its oldest frames. The deliberation has not seen such a reply: nothing is undone.
        """
        turn, cause = deliberation.turn, f"Cause: {describe(error)}"
        forgot = any(each.forget for each in before)
        if self._cancelled():
            return None
        refused = isinstance(error, ContextFull | RequestRefused) and not completion.text
        if refused and deliberation.can_forget and not forgot:
            why = f"Turn {turn} was refused, and asked again without the oldest frames. {cause}"
            return Retry(why, forget=True)
        if is_retryable(error) and all(each.forget for each in before):
            why = f"The judge failed in turn {turn}, which was tried once more. {cause}"
            return Retry(why, forget=False)
        return None

    def _forget(self, deliberation: Deliberation) -> None:
        """Drop the oldest frames until no more are in view than the judge has taken before."""
        turns = self.trace.runs[-1].turns if self.trace else ()
        fewer = len(deliberation.in_view) - 1
        most = min(len(turns[-1].in_view), fewer) if turns else fewer
        while len(deliberation.in_view) > most and deliberation.forget_oldest():
            pass

    def _finished(self, started: Started, seconds: float) -> Finished:
        """Return how the run ended: its verdict, or why there is none."""
        error, deliberation = self.error, self.deliberation
        reason = StopReason.CONTEXT_FULL if isinstance(error, ContextFull) else StopReason.FAILED
        if error is None:
            reason = (deliberation and deliberation.stop_reason) or StopReason.CANCELLED
        verdict: Verdict | None = None
        provisional = outside = False
        if deliberation is not None:
            deliberation.stop_reason = reason
            outside = self._is_outside_scope(deliberation, started.clips)
            if not outside or self._source is not None:
                verdict, provisional = deliberation.verdict
        turns = self.trace.runs[-1].turns if self.trace else ()
        return Finished(
            reason,
            verdict,
            provisional,
            reason is StopReason.ANSWERED and turns[-1].forced,
            outside,
            describe(error),
            "" if error is None else type(error).__name__,
            # Notes that came up during the run
            tuple(note for note in self._backend.notes if note not in started.notes),
            seconds,
            tuple(map(Side, error.sides)) if isinstance(error, VideoError) else (),
        )

    def _is_outside_scope(self, deliberation: Deliberation, clips: Clips) -> bool:
        """Return whether the run ended by itself but outside the judge's scope.

        A judge for drawn scenes judges only clips that this project drew, for a prompt that names a
        drawn scene, if its first notes describe that scene.
        """
        unended = (None, StopReason.CANCELLED, StopReason.FAILED)
        if self._backend.scope == "any" or deliberation.stop_reason in unended:
            return False
        drawn = all(clip is not None and clip.drawn for clip in clips)
        return not (drawn and deliberation.read_as_drawn)


def _no_picture(frame: Frame, number: str) -> Thumbnail:
    times = frame.seconds, frame.until
    return Thumbnail(frame.ref, number, frame.index, *times, b"", frame.note)


class ReplyCollector:
    """The collected stream of one reply; `completion` exists however the stream ends."""

    def __init__(self, room: int = MAX_WRITTEN) -> None:
        self._room = room  # Characters that the run may still write
        self.failure: Exception | None = None  # Cut the reply short: no further item is taken
        self._pieces: list[str] = []
        self._completion: Completion | None = None

    def add(self, item: str | Completion | Exception) -> str:
        """Take the next stream item; return its text, or ""."""
        try:
            item = item if isinstance(item, str | Exception) else _keepable(item)
        except Exception as error:  # noqa: BLE001 - a judge of one's own may yield anything
            item = error
        if isinstance(item, Exception):
            self.failure = judge_failure(item)
            return ""
        size = len(item) if isinstance(item, str) else _written(item) - sum(map(len, self._pieces))
        if size > self._room:
            self.failure = BackendRefused(
                f"The judge wrote more than {MAX_WRITTEN:,} characters in this run and was "
                "stopped. Choose another judge, or fewer tokens."
            )
            return ""
        self._room -= size
        if isinstance(item, Completion):
            self._completion = item
            return ""
        self._pieces.append(encodable(item))
        return self._pieces[-1]

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
