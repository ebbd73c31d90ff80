"""One comparison as a state machine.

Call `start`, then `next_request` and `finish_turn` in turn, then `finish`. `judge` drives one
comparison and `judge_many` several side by side, for page, command line and evaluation. Training
drives the same `Deliberation` without a comparison. Pieces of text never pass through this class:
the driver collects them.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from vrthinker_core.backends.base import (
    Backend,
    Conversation,
    GenerationRequest,
    JudgeDescription,
    not_cancelled,
)
from vrthinker_core.branch_plan import BranchPlan
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.errors import (
    BadInput,
    ContextFull,
    RequestRefused,
    VideoError,
    describe,
    is_retryable,
    judge_errors,
)
from vrthinker_core.protocols import PromptProtocol, make_protocol, sanitize_prompt, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.protocols.sanitize import MAX_PROMPT, check_prompt
from vrthinker_core.text import encodable
from vrthinker_core.types import (
    ClipInfo,
    FrameRef,
    Settings,
    Side,
    StopReason,
    Turn,
    Verdict,
    VideoPair,
)
from vrthinker_core.types.events import (
    Finished,
    FramesShown,
    Opening,
    Started,
    TurnEnded,
    second_run_follows,
)
from vrthinker_core.types.messages import Cancelled, Completion
from vrthinker_core.video import Clip, DecoderPool
from vrthinker_core.video.clip import PairOpening, frame_source
from vrthinker_core.video.thumbnails import make_thumbnail


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A turn whose reply is still to be generated."""

    shown: FramesShown
    request: GenerationRequest
    in_view: tuple[FrameRef, ...]  # Every frame in the messages of the request


class Comparison:
    """One comparison; errors end the run and are reported by `finish`.

    No step raises. The creator must call `close`. Steps may run in any thread, one at a time.
    """

    def __init__(
        self,
        pair: VideoPair,
        backend: Backend,
        settings: Settings = Settings(),
        cancelled: Cancelled = not_cancelled,
        decoder_pool: DecoderPool | None = None,
        plan: BranchPlan | None = None,
    ) -> None:
        """Set up a comparison; with `plan`, a branch with the plan's settings."""
        # A missing table cell is not a string. Its pair then fails for an empty prompt.
        self._pair = replace(
            pair, prompt=encodable(pair.prompt) if isinstance(pair.prompt, str) else ""
        )
        self._backend = backend
        self._settings = settings if plan is None else plan.settings_for(backend.protocols)
        self._protocol_name = chosen_protocol(self._settings, backend.protocols)
        self._plan = plan
        self._cancelled = cancelled
        self._decoder_pool = decoder_pool
        self._started_at = time.perf_counter()
        self._resources = ExitStack()  # The clips
        self._conversation_end = ExitStack()
        self._swaps = False  # Whether a run with swapped sides follows
        self._begun = False  # Whether opening both videos has begun
        self._opening: PairOpening | None = None
        self._clips: tuple[Clip, Clip] | None = None
        self._protocol: PromptProtocol | None = None
        self._conversation: Conversation | None = None
        self._deliberation: Deliberation | None = None
        self._last: PendingTurn | None = None
        self._again: tuple[str, ...] = ()  # Why the last turn is asked again
        self._fits = 0  # Frames in view of the last request that the judge took
        self._at_most: int | None = None  # The same, after the judge has refused this turn
        self._failed_once = False  # Whether the judge failed in this turn
        self._abandoned: tuple[str, ...] = ()  # Its text before that failure
        self._notes: tuple[str, ...] = ()  # The judge's notes at the start
        self._error: Exception | None = None

    def close(self) -> None:
        """Close the conversation and both clips. May be called again."""
        with self._resources:
            self._conversation_end.close()

    def swapped(self) -> "Comparison | None":
        """Return the comparison with its sides swapped, or None.

        Call it after `finish`. Returns None if the settings do not ask for it, or if there is no
        verdict. The new comparison takes over the opened videos: no video is opened twice, and
        frames that the decoding processes keep are not decoded again.
        """
        if not self._swaps:
            return None
        settings = replace(self._settings, swap="off")
        other = Comparison(self._pair.swapped(), self._backend, settings, self._cancelled)
        other._opening = self._opening and self._opening.swapped()
        other._resources = self._resources.pop_all()
        return other

    def open_ahead(self, executor: Executor) -> None:
        """Begin to open both videos before `start`, which reports any error."""
        if self._begun:
            return
        self._begun = True
        try:
            self._protocol = make_protocol(self._settings, self._protocol_name)
            self._settings = with_defaults(self._settings, self._protocol)
            check_prompt(self._pair.prompt)
            if self._opening is None:
                pool = self._decoder_pool or self._resources.enter_context(DecoderPool())
                plan = self._protocol.frame_plan
                self._opening = PairOpening(self._pair, plan, pool, executor)
                self._resources.callback(self._opening.close)
        except Exception as error:  # noqa: BLE001 - a trace begins with `Started` whatever is wrong
            self._error = error

    def next_opening(self) -> Opening | None:
        """Wait for reading progress; None when both are open, refused or cancelled."""
        if not self._begun:
            executor = ThreadPoolExecutor(2)
            self.open_ahead(executor)
            executor.shutdown(wait=False)  # The threads end when the videos are open
        shares = self._opening.next_shares(self._cancelled) if self._opening else None
        return shares and Opening(shares)

    def start(self, refused: BadInput | None = None) -> Started:
        """Open both videos and return `Started`. `refused` ends the run with this error."""
        while self.next_opening() is not None:
            pass
        first: Clip | None = None
        second: Clip | None = None
        try:
            if self._opening is not None:
                first, second, self._error = self._opening.clips()
        except Exception as error:  # noqa: BLE001 - a trace begins with `Started` whatever is wrong
            self._error = error
        name, trained = self._protocol_name, self._backend.protocols
        if trained and name not in trained:
            self._error = BadInput(
                f"{self._backend.name} was trained for the protocol {' and '.join(trained)}, not for "
                f"{name}. Choose auto."
            )
        protocol = self._protocol or make_protocol(Settings(), name)
        prompt, notes = self._pair.prompt, sanitize_prompt(self._pair.prompt).notes
        if first is not None and second is not None:
            self._clips = first, second
            if first.info.digest == second.info.digest:
                notes = ("Both videos are the same file.", *notes)
        infos = first.info if first else None, second.info if second else None
        unfit = self._plan and self._plan.refusal(prompt, protocol.name, infos)
        self._error = refused or unfit or self._error
        self._notes = self._backend.notes
        return Started(
            prompt[:MAX_PROMPT],
            self._backend.name,
            protocol.name,
            self._settings,
            infos,
            protocol.system,
            protocol.rules,
            (*self._notes, *notes),
            self._plan.branch if self._plan else None,
        )

    def take_over(self) -> Iterator[Turn]:
        """Yield the origin's turns that a branch takes over, unchanged.

        Yields nothing if the run is no branch. The replies become history. The branch's settings
        apply from the response to the last of these turns on.
        """
        plan = self._plan
        if plan is None or not plan.turns or self._error is not None or self._clips is None:
            return
        try:
            deliberation, conversation = self._begin(self._clips)
            own, deliberation.settings = deliberation.settings, plan.started.settings
            for turn in plan.turns:
                with judge_errors():
                    deliberation.fit(conversation.count_tokens, conversation.context_length)
                    if plan.started.judge == self._backend.name and turn.completion.prompt_tokens:
                        conversation.calibrate(deliberation.ask(), turn.completion.prompt_tokens)
                last = turn is plan.turns[-1]
                deliberation.settings = own if last else deliberation.settings
                deliberation.take_over(turn.completion, plan.branch.frames if last else ())
                yield turn
        except Exception as error:  # noqa: BLE001 - the border: the turns so far are kept, and the end says what happened
            self._fail(error)

    def next_request(self) -> PendingTurn | None:
        """Fetch the next turn's frames; return its request, None at the end."""
        if self._error is not None or self._clips is None:  # None: cancelled while opening
            return None
        try:
            deliberation, conversation = self._begin(self._clips)
            # A turn asked again keeps its earlier text
            if deliberation.stop_reason is None and not self._again and self._cancelled():
                deliberation.stop_reason = StopReason.CANCELLED
            if deliberation.stop_reason is not None:
                return None
            while self._at_most is not None and len(deliberation.in_view) > self._at_most:
                if not deliberation.forget_oldest():
                    break
            with judge_errors():
                deliberation.fit(conversation.count_tokens, conversation.context_length)
            messages = deliberation.ask()
            new, turn, forced = messages[-1], deliberation.turn, deliberation.last_turn
            numbers = [deliberation.protocol.frame_number(frame.ref) for frame in new.frames]
            with ThreadPoolExecutor(2) as executor:
                thumbnails = tuple(executor.map(make_thumbnail, new.frames, numbers))
            self._last = PendingTurn(
                FramesShown(turn, new.text, thumbnails, forced, " ".join(self._again)),
                GenerationRequest(conversation, messages, deliberation.sampling(), self._cancelled),
                deliberation.in_view,
            )
        except Exception as error:  # noqa: BLE001 - the border: whatever happens, the trace so far is kept and says so
            self._fail(error)
            return None
        return self._last

    def finish_turn(
        self, completion: Completion, error: Exception | None = None
    ) -> TurnEnded | None:
        """Read the last reply and fetch the frames it asks for.

        `error` is the error that cut the reply short.

        Returns None if the turn must be asked again: unchanged after the judge's first failure in
        this turn, or without the oldest frames if the context is full. The deliberation has not
        seen such a reply, so nothing must be undone.
        """
        deliberation, pending = self._deliberation, self._last
        assert deliberation is not None
        assert pending is not None
        if error is not None and (why := self._why_again(error, completion, deliberation)):
            self._again = tuple(dict.fromkeys((*self._again, why)))
            return None
        try:
            read = deliberation.take(completion)
        except Exception as failure:  # noqa: BLE001 - the border: the reply counts, the frames it asked for cannot be had
            error, read = error or failure, deliberation.replies[-1]
        if error is not None:
            self._fail(error)
        shown, abandoned = pending.shown, self._abandoned
        self._again, self._failed_once, self._abandoned = (), False, ()
        self._at_most, self._fits = None, len(pending.in_view)
        sent = (shown.turn, shown.told, shown.frames)
        return TurnEnded(
            Turn(*sent, completion, read, shown.forced, pending.in_view, shown.note, abandoned)
        )

    def _why_again(
        self, error: Exception, completion: Completion, deliberation: Deliberation
    ) -> str:
        """Return why the turn is asked again after this error, or ""."""
        if self._cancelled():
            return ""
        refused = isinstance(error, ContextFull | RequestRefused) and not completion.text
        if refused and deliberation.can_forget and self._at_most is None:
            fewer = len(deliberation.in_view) - 1
            self._at_most = min(self._fits, fewer) if self._fits else fewer
            return (
                f"Turn {deliberation.turn} was refused, and asked again without the oldest frames. "
                f"Cause: {describe(error)}"
            )
        if self._failed_once or not is_retryable(error):
            return ""
        self._failed_once, self._abandoned = True, tuple(completion.split())
        return (
            f"The judge failed in turn {deliberation.turn}, which was tried once more. Cause: "
            f"{describe(error)}"
        )

    def _fail(self, error: Exception) -> None:
        """End the run with this error, or as cancelled."""
        if not self._cancelled():
            self._error = error
        elif self._deliberation is not None:
            self._deliberation.stop_reason = StopReason.CANCELLED

    def finish(self) -> Finished:
        """Return how the run ended, and close the conversation.

        The clips are closed, too, unless `swapped` will take them over.
        """
        error, deliberation = self._error, self._deliberation
        reason = StopReason.CONTEXT_FULL if isinstance(error, ContextFull) else StopReason.FAILED
        if error is None:
            reason = (deliberation and deliberation.stop_reason) or StopReason.CANCELLED
        verdict: Verdict | None = None
        provisional = outside = False
        if deliberation is not None:
            deliberation.stop_reason = reason
            infos = [clip.info for clip in self._clips or ()]
            outside = outside_scope(self._backend, deliberation, infos)
            if not outside:
                verdict, provisional = deliberation.verdict
        asked = self._last is not None and self._last.shown.forced
        finished = Finished(
            reason,
            verdict,
            provisional,
            asked and reason is StopReason.ANSWERED,
            outside,
            describe(error),
            "" if error is None else type(error).__name__,
            # Notes that came up during the run
            tuple(note for note in self._backend.notes if note not in self._notes),
            time.perf_counter() - self._started_at,
            tuple(map(Side, error.sides)) if isinstance(error, VideoError) else (),
        )
        self._swaps = second_run_follows(self._settings, finished)
        self._conversation_end.close()
        if not self._swaps:
            self.close()
        return finished

    def _begin(self, clips: tuple[Clip, Clip]) -> tuple[Deliberation, Conversation]:
        """Return the deliberation and the conversation, made at the first turn."""
        if self._deliberation is None or self._conversation is None:
            assert self._protocol is not None
            with judge_errors():
                self._conversation = self._backend.open_conversation()
            # An error of `close` must not lose the reply
            self._conversation_end.enter_context(suppress(Exception))
            self._conversation_end.callback(self._conversation.close)
            self._deliberation = Deliberation(
                self._pair.prompt,
                self._protocol,
                self._settings,
                frame_source(clips, self._cancelled),
                follows_instructions=self._backend.follows_instructions,
                trained=not self._backend.follows_instructions or bool(self._backend.protocols),
            )
        return self._deliberation, self._conversation


def outside_scope(
    judge: JudgeDescription, deliberation: Deliberation, clips: Sequence[ClipInfo | None]
) -> bool:
    """Return whether the run ended by itself but outside the judge's scope.

    A judge for drawn scenes judges only clips that this project drew, for a prompt that names a
    drawn scene, if its first notes describe that scene.
    """
    unended = (None, StopReason.CANCELLED, StopReason.FAILED)
    if judge.scope == "any" or deliberation.stop_reason in unended:
        return False
    drawn = all(clip is not None and clip.drawn for clip in clips)
    return not (drawn and deliberation.read_as_drawn)
