"""One comparison as a state machine without model I/O: `ask()` gives the messages, `take()` reads the reply.

The messages are a VIEW of what has happened: what left the memory window is simply not rendered.
"""

from dataclasses import dataclass, replace

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.dialects.sanitize import sanitize_prompt
from vrthinker_core.types import FrameRef, ProblemKind, Reply, Settings, Verdict
from vrthinker_core.types.events import StopReason
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Completion, GeneratedText, Message, Sampling, Text

MAX_IMAGES = 128
"""Pictures in view at once: the worst case of the `paired` card (8 + 5 calls of 24). Past it the oldest tool frames leave."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A reply, and what the engine answered."""

    reply: Message
    response: Message


class Deliberation:
    """The state of one comparison.

    `settings` must be complete (`dialects.with_defaults`). `stop_reason` is None while the judge may go on. A judge that follows no
    instructions outside its protocol is given none: on its last turn `sampling().redirect` alone forces the answer.
    """

    def __init__(
        self, prompt: str, dialect: Dialect, settings: Settings, source: FrameSource, *, follows_instructions: bool = True
    ) -> None:
        self.dialect = dialect
        self.settings = settings
        self._source = source
        self._follows_instructions = follows_instructions
        self._opening = dialect.opening_messages(sanitize_prompt(prompt)[0], source(dialect.opening_refs))
        self._exchanges: list[Exchange] = []
        self.replies: list[Reply] = []
        self._unusable_in_a_row = 0
        self._rounds_forgotten = 0
        self.stop_reason: StopReason | None = None

    # -- what the judge is asked ---------------------------------------------------------------------------------------

    @property
    def turn(self) -> int:
        """Number of the reply that is asked for now, or was the last, 1-based."""
        return len(self.replies) + (self.stop_reason is None)

    @property
    def last_turn(self) -> bool:
        """The reply asked for now is the last one allowed."""
        return self.turn >= self._max_turns

    @property
    def _max_turns(self) -> int:
        return self.settings.max_turns or self.dialect.max_turns

    def ask(self) -> tuple[Message, ...]:
        """The whole conversation as the judge is to see it now."""
        return self._render()

    def new_message(self) -> Message:
        """The last user message of `ask()`: what is new in this turn."""
        return self._render()[-1]

    def sampling(self) -> Sampling:
        """How the reply asked for now is to be written; on the last turn a call becomes an answer."""
        settings = self.settings
        redirect = self.dialect.redirect if self.last_turn else None
        return Sampling(settings.max_new_tokens, settings.temperature, settings.seed + self.turn - 1, redirect)

    @property
    def in_view(self) -> tuple[FrameRef, ...]:
        """Every frame that the messages of `ask()` hold, in order."""
        return tuple(frame.ref for message in self._render() for frame in message.frames)

    def forget_oldest(self) -> bool:
        """Drop the oldest tool frames in view (the text stays); False when none are left."""
        rounds = self._rounds_with_frames()
        if len(rounds) <= self._rounds_out_of_view(len(rounds)):
            return False
        self._rounds_forgotten = self._rounds_out_of_view(len(rounds)) + 1
        return True

    def _limit_images(self) -> None:
        while len(self.in_view) > MAX_IMAGES and self.forget_oldest():
            pass

    def _rounds_with_frames(self) -> list[int]:
        return [k for k, exchange in enumerate(self._exchanges) if exchange.response.frames]

    def _rounds_out_of_view(self, rounds: int) -> int:
        """How many of the oldest rounds are out of view, of `rounds` that brought frames."""
        window = self.settings.window
        outside = max(0, rounds - window) if isinstance(window, int) else 0
        return min(rounds, max(outside, self._rounds_forgotten))

    def _render(self) -> tuple[Message, ...]:
        rounds = self._rounds_with_frames()
        gone = set(rounds[: self._rounds_out_of_view(len(rounds))])
        messages = list(self._opening)
        for k, exchange in enumerate(self._exchanges):
            messages += [exchange.reply, _without_frames(exchange.response) if k in gone else exchange.response]
        if self.stop_reason is None and self.last_turn and self._follows_instructions:
            messages[-1] = _with_text(messages[-1], self.dialect.force_answer())
        return tuple(messages)

    # -- what the judge replied -----------------------------------------------------------------------------------------

    def take(self, completion: Completion) -> Reply:
        """Read a reply, and either end the run (`stop_reason`) or prepare the next turn.

        Raises VideoError when the frames it asks for cannot be had; the reply counts as taken.
        """
        last = self.last_turn
        reply = self.dialect.parse(completion.text, cut=completion.stop != "end")
        self.replies.append(reply)
        self.stop_reason = self._stop_reason_after(reply, completion, last=last)
        if self.stop_reason is None:
            self._unusable_in_a_row = self._unusable_in_a_row + 1 if _is_unusable(reply) else 0
            tokens = completion.tokens if reply.text == completion.text else ()
            message = Message("assistant", (GeneratedText(reply.text, tokens),))
            try:
                self._exchanges.append(Exchange(message, self._response_to(reply)))
                self._limit_images()
            except BaseException:
                self.stop_reason = StopReason.FAILED
                raise
        return reply

    def _stop_reason_after(self, reply: Reply, completion: Completion, *, last: bool) -> StopReason | None:
        if completion.stop == "cancelled":
            return StopReason.CANCELLED
        if completion.stop == "failed":
            return StopReason.FAILED
        if reply.kind == "answer":
            return StopReason.ANSWERED
        if _is_unusable(reply) and (last or self._unusable_in_a_row):
            return StopReason.TOKEN_LIMIT if completion.stop == "length" else StopReason.NO_ANSWER
        return StopReason.TURN_LIMIT if last else None

    def _response_to(self, reply: Reply) -> Message:
        """The message after a reply that does not end the run."""
        if reply.kind == "tool" and reply.wants is not None:
            return self._fetch(reply.wants.indices)
        if _is_refused(reply):
            return self.dialect.tool_error(reply.wants, reply.problems)
        return self.dialect.retry_message(reply.problems)

    def _fetch(self, indices: tuple[int, ...]) -> Message:
        if not self._missing(indices, self.in_view):
            return self.dialect.already_shown(indices)
        new = self._missing(indices, self._kept_view())
        return self.dialect.tool_result(new, self._source(self.dialect.frame_refs(new)))

    def _missing(self, indices: tuple[int, ...], seen: tuple[FrameRef, ...]) -> tuple[int, ...]:
        have = set(seen)
        return tuple(index for index in indices if not have.issuperset(self.dialect.frame_refs((index,))))

    def _kept_view(self) -> tuple[FrameRef, ...]:
        """What stays in view once one more round of frames has arrived."""
        rounds = self._rounds_with_frames()
        gone = set(rounds[: self._rounds_out_of_view(len(rounds) + 1)])
        kept = [exchange.response for k, exchange in enumerate(self._exchanges) if k not in gone]
        return tuple(frame.ref for message in (*self._opening, *kept) for frame in message.frames)

    # -- the end -------------------------------------------------------------------------------------------------------

    @property
    def verdict(self) -> tuple[Verdict | None, bool]:
        """(verdict, provisional): the final answer, else the last whole recommended one, else a partial final one.

        A cancelled or failed run has none: nothing is invented.
        """
        if self.stop_reason is None or self.stop_reason in (StopReason.CANCELLED, StopReason.FAILED):
            return None, False
        last = self.replies[-1] if self.replies else None
        if last is not None and last.kind == "answer":
            return last.verdict, False
        recommended = [r.verdict for r in self.replies if not r.final and r.verdict is not None and r.verdict.whole]
        if recommended:
            return recommended[-1], True
        partial = [r.verdict for r in self.replies if r.final and r.verdict is not None and r.verdict.labels]
        return (partial[-1], False) if partial else (None, False)

    def end(self, reason: StopReason) -> None:
        """End the run from outside (context full, cancelled between turns)."""
        self.stop_reason = reason


def _is_refused(reply: Reply) -> bool:
    """A readable call in which nothing is valid: the protocol has its own words for that."""
    return any(problem.kind is ProblemKind.NO_VALID_FRAMES for problem in reply.problems)


def _is_unusable(reply: Reply) -> bool:
    return reply.kind == "invalid" and not _is_refused(reply)


def _without_frames(message: Message) -> Message:
    return replace(message, parts=tuple(part for part in message.parts if isinstance(part, Text | GeneratedText)))


def _with_text(message: Message, text: str) -> Message:
    return replace(message, parts=(*message.parts, Text(text)))
