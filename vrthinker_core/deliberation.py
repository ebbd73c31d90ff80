"""What the judge has seen and said, and what follows.

`ask()` returns the messages and `take()` reads the reply. The messages are a VIEW of the history:
frames that left the memory window are not rendered.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import itemgetter
from random import Random

from vrthinker_core.drawn.notes import reads_as_drawn
from vrthinker_core.errors import ContextFull
from vrthinker_core.protocols.base import PromptProtocol, sanitize_prompt
from vrthinker_core.protocols.segments import before_action
from vrthinker_core.types import FrameRef, ProblemKind, Reply, Settings, Side, Verdict
from vrthinker_core.types.events import Called, StopReason
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Completion, GeneratedText, Message, Sampling, Text

MAX_IMAGES = 128
"""Maximum pictures in view: the worst case of the `paired` card (8 + 5 calls of 24). Beyond it the
oldest tool frames leave."""


class Deliberation:
    """The state of one comparison.

    `settings` must be complete (`protocols.with_defaults`). `stop_reason` is None while the judge
    may go on. Set it to end the run from outside (context full, cancelled between turns).

    With `follows_instructions=False` the judge gets no instruction outside its protocol: on its
    last turn only `sampling().redirect` forces the answer.
    """

    def __init__(
        self,
        prompt: str,
        protocol: PromptProtocol,
        settings: Settings,
        source: FrameSource,
        *,
        follows_instructions: bool = True,
        trained: bool = True,
    ) -> None:
        self.protocol = protocol
        self.settings = settings
        self._prompt = prompt
        self._source = source
        self._follows_instructions, self._trained = follows_instructions, trained
        self._opening = protocol.opening_messages(
            sanitize_prompt(prompt).text, source(protocol.opening_refs)
        )
        self._exchanges: list[tuple[Message, Message]] = []  # (reply, response to it)
        self.last_call: Called | None = None  # What the call of the last reply brings
        self.replies: list[Reply] = []
        self._last_was_unusable = False
        self._rounds_forgotten = 0
        self.stop_reason: StopReason | None = None

    @property
    def turn(self) -> int:
        """Number of the current or last reply, 1-based."""
        return len(self.replies) + (self.stop_reason is None)

    @property
    def last_turn(self) -> bool:
        """Whether the current reply is the last one allowed."""
        return self.turn >= (self.settings.max_turns or self.protocol.max_turns)

    def ask(self) -> tuple[Message, ...]:
        """Return the conversation as the judge must see it, newest message last."""
        gone = self._out_of_view()
        messages = list(self._opening)
        for k, (reply, response) in enumerate(self._exchanges):
            if k in gone:
                texts = (part for part in response.parts if isinstance(part, Text | GeneratedText))
                response = replace(response, parts=tuple(texts))
            messages += [reply, response]
        if self.stop_reason is None and self.last_turn and self._follows_instructions:
            parts = (*messages[-1].parts, Text(self.protocol.force_answer()))
            messages[-1] = replace(messages[-1], parts=parts)
        return tuple(messages)

    def sampling(self) -> Sampling:
        """Return the sampling options; the last turn redirects calls to answers."""
        settings = self.settings
        redirect = self.protocol.redirect if self.last_turn else None
        return Sampling(
            settings.max_new_tokens,
            settings.temperature,
            settings.seed + self.turn - 1,
            redirect,
            self.protocol.frames_per_call,
        )

    @property
    def in_view(self) -> tuple[FrameRef, ...]:
        """Every frame in the messages of `ask()`, in order."""
        return self._view()

    def fit(self, count_tokens: Callable[[Sequence[Message]], int], capacity: int | None) -> None:
        """Drop the oldest tool frames until the conversation fits.

        `capacity` is the judge's context in tokens; None means no limit. Room for the reply is
        reserved. The newest frames stay. Raises `ContextFull` if the conversation still does not
        fit.
        """
        if capacity is None:
            return
        reserved = min(self.settings.max_new_tokens, capacity // 8)
        while (length := count_tokens(self.ask())) + reserved > capacity:
            if not self.forget_oldest():
                came = self.last_call and self.last_call.new
                advice = "Choose fewer frames per call." if came else "Shorten the prompt."
                raise ContextFull(
                    f"The conversation has {length} tokens and the judge reads {capacity}, its "
                    f"reply included. {advice}"
                )

    @property
    def can_forget(self) -> bool:
        """Whether tool frames besides the newest ones are in view."""
        newest = len(self._exchanges) - 1
        return len(self._out_of_view()) < len([k for k in self._rounds if k != newest])

    def forget_oldest(self) -> bool:
        """Drop the oldest tool frames in view; their text stays.

        Returns False if only the newest frames are left. If the last reply calls for frames that
        leave, the response brings them again. Raises `VideoError` if they cannot be fetched.
        """
        if not self.can_forget:
            return False
        self._rounds_forgotten = len(self._out_of_view()) + 1
        if self.last_call is not None:
            reply, response = self._exchanges.pop()
            self._exchanges.append((reply, self._answer(self.last_call.asked, response)))
        return True

    @property
    def _rounds(self) -> list[int]:
        """Indices of the exchanges that brought frames."""
        return [k for k, (_, response) in enumerate(self._exchanges) if response.frames]

    def _out_of_view(self, arriving: int | None = None) -> list[int]:
        """Return the exchanges that are out of view.

        The newest response is never among them: its text mentions its frames. With `arriving`,
        another response follows, which brings so many rounds.
        """
        rounds, window = self._rounds, self.settings.window
        outside = len(rounds) + (arriving or 0) - window if isinstance(window, int) else 0
        gone = rounds[: max(0, outside, self._rounds_forgotten)]
        return [k for k in gone if arriving is not None or k != len(self._exchanges) - 1]

    def _view(self, arriving: int | None = None) -> tuple[FrameRef, ...]:
        gone = self._out_of_view(arriving)
        kept = [response for k, (_, response) in enumerate(self._exchanges) if k not in gone]
        return tuple(frame.ref for message in (*self._opening, *kept) for frame in message.frames)

    def called(self, indices: tuple[int, ...]) -> Called:
        """Return what a call brings: the frames that are out of view when its response comes."""

        def missing(arriving: int) -> tuple[int, ...]:
            seen, refs = set(self._view(arriving)), self.protocol.frame_refs
            return tuple(index for index in indices if not seen.issuperset(refs((index,))))

        # A round that arrives may push old frames out; if all are in view, no round arrives
        return Called(indices, missing(0) and missing(1))

    def _read(self, completion: Completion) -> Reply:
        cut = completion.stop != "end"
        return self.protocol.parse(completion.text, cut=cut, trained=self._trained)

    def take(self, completion: Completion) -> Reply:
        """Read a reply; end the run (`stop_reason`) or prepare the next turn.

        Raises `VideoError` if the requested frames cannot be fetched. The reply still counts as
        taken.
        """
        last = self.last_turn
        reply = self._read(completion)
        self.replies.append(reply)
        if completion.stop in ("cancelled", "failed"):
            self.stop_reason = StopReason(completion.stop)
        elif reply.kind == "answer":
            self.stop_reason = StopReason.ANSWERED
        elif is_unusable(reply) and (last or self._last_was_unusable):
            cut = completion.stop == "length"
            self.stop_reason = StopReason.TOKEN_LIMIT if cut else StopReason.NO_ANSWER
        elif last:
            self.stop_reason = StopReason.TURN_LIMIT
        else:
            self._add_exchange(reply, completion)
        return reply

    def take_over(self, completion: Completion, indices: tuple[int, ...] = ()) -> None:
        """Take over a reply of another run, with the response to it.

        The reply never ends this run. With `indices`, the judge sees a call for these frames.
        Raises `VideoError` if frames cannot be fetched.
        """
        reply = self._read(completion)
        if indices and (
            reply.kind != "tool" or reply.wants is None or reply.wants.indices != indices
        ):
            reply = self.protocol.parse(before_action(reply.text) + self.protocol.call(indices))
        self.replies.append(reply)
        self._add_exchange(reply, completion, indices)

    def _add_exchange(
        self, reply: Reply, completion: Completion, indices: tuple[int, ...] = ()
    ) -> None:
        """Add a reply and its response; `indices` replace the called frames."""
        self._last_was_unusable = is_unusable(reply)
        called = reply.wants.indices if reply.kind == "tool" and reply.wants is not None else ()
        if self.settings.frames == "random":
            called = self._draw(len(called))
        called, self.last_call = indices or called, None
        tokens = completion.tokens if reply.text == completion.text else ()
        message = Message("assistant", (GeneratedText(reply.text, tokens),))
        try:
            if called:
                response = self._answer(called)
            elif _is_refused(reply):
                response = self.protocol.tool_error(reply.wants, reply.problems)
            else:
                response = self.protocol.retry_message(reply.problems)
            self._exchanges.append((message, response))
            most = MAX_IMAGES + max(0, len(self.protocol.opening_refs) - 8)
            while len(self.in_view) > most and self.forget_oldest():
                pass
        except BaseException:
            self.stop_reason = StopReason.FAILED
            raise

    def _draw(self, count: int) -> tuple[int, ...]:
        """Draw the frames of a control (paper, Fig. 3: random retrieval), as many as were asked for.

        Depends only on the seed, the turn, and the pair: its prompt and its first frames. Frames
        that were shown before, in view or not, are drawn only if no others are left.
        """
        messages = (*self._opening, *(response for _, response in self._exchanges))
        shown = {frame.ref for message in messages for frame in message.frames}
        first = [frame.index for message in self._opening for frame in message.frames]
        random = Random(f"{self.settings.seed} {self.turn} {first} {self._prompt}")
        numbers, refs = list(self.protocol.numbers), self.protocol.frame_refs
        random.shuffle(numbers)
        numbers.sort(key=lambda number: shown.issuperset(refs((number,))))
        return tuple(sorted(numbers[:count]))

    def _answer(self, indices: tuple[int, ...], before: Message | None = None) -> Message:
        """Return the response to a call: `before`, unless other frames are missing by now."""
        last, call = self.last_call, self.called(indices)
        self.last_call = call
        if before is not None and last is not None and call.new == last.new:
            return before
        if not call.new:
            return self.protocol.already_shown(indices)
        return self.protocol.tool_result(call.new, self._source(self.protocol.frame_refs(call.new)))

    @property
    def verdict(self) -> tuple[Verdict | None, bool]:
        """The verdict, and whether it is provisional, as (verdict, provisional).

        Chosen in this order: the final answer, the last whole recommended answer, the last partial
        final answer, the last partial recommended answer. A cancelled or failed run has no verdict:
        nothing is invented.
        """
        if self.stop_reason in (None, StopReason.CANCELLED, StopReason.FAILED):
            return None, False
        if self.replies and self.replies[-1].kind == "answer":
            return self.replies[-1].verdict, False
        given = [
            (reply.verdict, not reply.final)
            for reply in reversed(self.replies)
            if reply.verdict is not None and reply.verdict.labels
        ]
        whole = (each for each in given if each[1] and each[0].whole)
        return next(whole, None) or min(given, key=itemgetter(1), default=(None, False))

    @property
    def read_as_drawn(self) -> bool:
        """Whether the first notes describe prompt and first frames as drawn scenes."""
        notes = next((reply.snapshot for reply in self.replies if reply.snapshot), "")
        numbers: dict[Side, list[str]] = {side: [] for side in Side}
        for ref in self.protocol.opening_refs:
            numbers[ref.side].append(self.protocol.frame_number(ref))
        return reads_as_drawn(self._prompt, notes, numbers)


def _is_refused(reply: Reply) -> bool:
    """Return whether a readable call names no valid frame or another tool."""
    refusals = (ProblemKind.NO_VALID_FRAMES, ProblemKind.UNKNOWN_TOOL)
    return any(problem.kind in refusals for problem in reply.problems)


def is_unusable(reply: Reply) -> bool:
    """Return whether a reply is neither an answer nor a call.

    The judge is asked once more. Two such replies in a row end the run.
    """
    return reply.kind == "invalid" and not _is_refused(reply)
