"""Rollouts: pairs with known labels, played by a judge through the page's own `Deliberation`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from vrthinker_core.backends.base import (
    Backend,
    BatchBackend,
    Conversation,
    GenerationRequest,
    JudgeDescription,
)
from vrthinker_core.batch import stream_items_for, stream_one_by_one
from vrthinker_core.comparison import outside_scope
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.errors import ContextFull, VideoError
from vrthinker_core.judge import ReplyCollector
from vrthinker_core.protocols import make_protocol, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import ClipInfo, ProtocolName, Run, Settings, Thumbnail, Turn, Verdict
from vrthinker_core.types.events import Finished, Started
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Completion, Message

T = TypeVar("T")

LIVE = 64  # Rollouts in one batch

Unplayable = VideoError | ContextFull
UNPLAYABLE = (VideoError, ContextFull)
"""What concerns one pair alone: its frames cannot be had, or it is too long for the judge."""


Clips = tuple[ClipInfo | None, ClipInfo | None]


def clips_of(source: FrameSource) -> Clips:
    """The `clips` of a source that can say what they are; None for an unknown one."""
    known: Clips = getattr(source, "clips", (None, None))
    return known


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A pair whose true labels are known, with the frames that a judge may be shown."""

    prompt: str
    truth: Verdict
    source: FrameSource = field(repr=False)
    seed: int = 0  # Tells pairs apart where replies are sampled
    protocol: ProtocolName | None = None  # Of its frames, and of its rollouts if settings are open
    row: int | None = None  # Of the data that it was read from


@dataclass(frozen=True, slots=True)
class Rollout:
    """One finished deliberation, and what the judge was sent before each of its replies."""

    pair: LabelledPair
    run: Run
    prompts: tuple[tuple[Message, ...], ...]  # As long as the run has turns

    @property
    def correct(self) -> bool:
        """Every known label is the one in a whole final answer; False if none is known."""
        answer, known = self.run.whole_answer, self.pair.truth.labels
        return bool(answer and known and known.items() <= answer.labels.items())


def play(
    pairs: Iterable[LabelledPair],
    backend: Backend,
    settings: Settings,
    samples: int = 1,
    live: int = LIVE,
) -> Iterator[Rollout]:
    """`samples` rollouts of each pair, in order, `live` at a time and turn by turn.

    Raises VideoError, ContextFull and what the judge raises.
    """
    for played in play_each(pairs, backend, settings, samples, live):
        if not isinstance(played, Rollout):
            raise played
        yield played


def play_each(
    pairs: Iterable[LabelledPair],
    backend: Backend,
    settings: Settings,
    samples: int = 1,
    live: int = LIVE,
) -> Iterator[Rollout | Unplayable]:
    """Like play(), but yields the error of a pair instead of raising it. Raises other errors."""

    def begun() -> Iterator[_Player | Unplayable]:
        for pair in pairs:
            made: list[_Player | Unplayable]
            try:
                made = [_Player(pair, backend, settings, number) for number in range(samples)]
            except VideoError as error:
                made = [of_row(error, pair)] * samples
            yield from made

    waiting = begun()
    stream_batch = backend.stream_batch if isinstance(backend, BatchBackend) else stream_one_by_one
    while batch := list(islice(waiting, live)):
        players = [each for each in batch if isinstance(each, _Player)]
        try:
            while running := [player for player in players if not player.over]:
                requests = [(player, player.request()) for player in running]
                asked = [(player, request) for player, request in requests if request]
                replies = [ReplyCollector(0) for _ in asked]
                sent = [request for _, request in asked]
                for position, item in stream_items_for(range(len(sent)), stream_batch, sent):
                    list(replies[position].add(item))  # Its events have no reader here
                for (player, _), reply in zip(asked, replies, strict=True):
                    player.take(reply.error or reply.completion)
        finally:
            for player in players:
                if player.conversation:
                    player.conversation.close()
        yield from (
            each.error or each.rollout() if isinstance(each, _Player) else each for each in batch
        )


def by_pair(played: Sequence[T], samples: int) -> list[Sequence[T]]:
    """What stands pair by pair, `samples` of each, in a list for each pair."""
    return [played[start : start + samples] for start in range(0, len(played), samples)]


def of_row(error: Unplayable, pair: LabelledPair) -> Unplayable:
    """The error with the row in its sentence, if there is one."""
    return error if pair.row is None else type(error)(f"Row {pair.row}: {error}")


class OpenRollout:
    """A rollout without the model: `ask()` gives what is sent, `take()` reads the reply."""

    def __init__(self, pair: LabelledPair, judge: JudgeDescription, settings: Settings) -> None:
        self.pair, self._judge = pair, judge
        own = (pair.protocol,) if pair.protocol else judge.protocols
        protocol = make_protocol(settings, chosen_protocol(settings, own))
        self.deliberation = Deliberation(
            pair.prompt,
            protocol,
            with_defaults(settings, protocol),
            pair.source,
            follows_instructions=judge.follows_instructions,
        )
        self._prompts: list[tuple[Message, ...]] = []
        self._turns: list[Turn] = []

    @property
    def over(self) -> bool:
        """It has ended."""
        return self.deliberation.stop_reason is not None

    def ask(self) -> tuple[Message, ...]:
        """The whole conversation before the next reply; to be asked once a turn."""
        self._prompts.append(self.deliberation.ask())
        return self._prompts[-1]

    def take(self, completion: Completion) -> None:
        """Read the reply and fetch the frames it asks for. Raises VideoError without them."""
        deliberation, new = self.deliberation, self._prompts[-1][-1]
        number, forced, in_view = deliberation.turn, deliberation.last_turn, deliberation.in_view
        slot = deliberation.protocol.frame_number
        frames = tuple(  # without pictures
            Thumbnail(
                each.ref, slot(each.ref), each.index, each.seconds, each.until, b"", each.note
            )
            for each in new.frames
        )
        try:
            deliberation.take(completion)
        finally:  # a reply whose frames cannot be had counts as taken
            reply = deliberation.replies[-1]
            self._turns.append(Turn(number, new.text, frames, completion, reply, forced, in_view))

    def rollout(self) -> Rollout:
        """The finished run, with its labels also outside the judge's scope (a trace has none)."""
        deliberation, protocol, pair = self.deliberation, self.deliberation.protocol, self.pair
        assert deliberation.stop_reason is not None
        clips = clips_of(pair.source)
        started = Started(
            pair.prompt,
            self._judge.name,
            protocol.name,
            deliberation.settings,
            clips,
            protocol.system,
            protocol.rules,
            notes=self._judge.notes,
        )
        finished = Finished(
            deliberation.stop_reason,
            *deliberation.verdict,
            outside_scope=outside_scope(self._judge, deliberation, clips),
            seconds=sum(turn.completion.seconds for turn in self._turns),
        )
        return Rollout(pair, Run(started, tuple(self._turns), finished), tuple(self._prompts))


class _Player(OpenRollout):
    """One rollout and the conversation that generates its replies."""

    error: Unplayable | None = None
    conversation: Conversation | None = None

    def __init__(
        self, pair: LabelledPair, backend: Backend, settings: Settings, number: int
    ) -> None:
        # Two samples of one pair are 7919 seeds apart
        seed = (settings.seed + pair.seed * 31 + number * 7919) % 2**31
        super().__init__(pair, backend, replace(settings, seed=seed))
        self._backend = backend

    @property
    def over(self) -> bool:
        return self.error is not None or super().over

    def request(self) -> GenerationRequest | None:
        """What is to be generated now; None if that is too long for the judge."""
        self.conversation = self.conversation or self._backend.open_conversation()
        try:
            self.deliberation.fit(self.conversation.count_tokens, self.conversation.context_length)
        except ContextFull as error:
            self.error = of_row(error, self.pair)
            return None
        return GenerationRequest(self.conversation, self.ask(), self.deliberation.sampling())

    def take(self, item: Completion | Exception) -> None:
        """Read what was generated. Raises an error that does not concern this pair alone."""
        try:
            if isinstance(item, Exception):
                raise item
            super().take(item)
        except UNPLAYABLE as error:
            self.error = of_row(error, self.pair)
