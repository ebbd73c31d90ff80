"""Rollouts: pairs whose labels are known, played by a judge through the one `Deliberation` that page and evaluation use, too.

What is trained is what is shown: prompts, frames, responses to calls and the memory window are those of `Deliberation`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol, TypeVar, runtime_checkable

from vrthinker_core.backends.base import (
    Backend,
    BatchBackend,
    Conversation,
    GenerationRequest,
    JudgeDescription,
)
from vrthinker_core.batch import stream_one_by_one
from vrthinker_core.comparison import outside_scope
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.errors import ContextFull, VideoError
from vrthinker_core.protocols import PromptProtocol, make_protocol, with_defaults
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.types import (
    ClipInfo,
    Frame,
    FrameRef,
    ProtocolName,
    Run,
    Settings,
    Thumbnail,
    Turn,
    Verdict,
)
from vrthinker_core.types.events import Finished, Started
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Completion, Message

T = TypeVar("T")

LIVE = 64  # Rollouts in one batch
SEED_STEP = 7919  # Between the seeds of two samples of one pair

Unplayable = VideoError | ContextFull
UNPLAYABLE = (VideoError, ContextFull)
"""What concerns one pair alone: its frames cannot be had, or it is too long for the judge."""


@runtime_checkable
class ClipSource(Protocol):
    """A `FrameSource` that can say what its two clips are."""

    @property
    def clips(self) -> tuple[ClipInfo | None, ClipInfo | None]:
        """The first clip and the second; None for one of which nothing is known."""

    def __call__(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        """The frames of the refs, in their order."""


def clips_of(source: FrameSource) -> tuple[ClipInfo | None, ClipInfo | None]:
    """What the clips of a source are, as far as it can say."""
    return source.clips if isinstance(source, ClipSource) else (None, None)


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A pair whose true labels are known, with the frames that a judge may be shown."""

    prompt: str
    truth: Verdict
    source: FrameSource = field(repr=False)
    seed: int = 0  # Tells pairs apart where replies are sampled
    protocol: ProtocolName | None = (
        None  # That its frames are of, and its rollouts speak where the settings leave it open
    )
    row: int | None = None  # Of the data that it was read from


@dataclass(frozen=True, slots=True)
class Rollout:
    """One finished deliberation, and what the judge was sent before each of its replies."""

    pair: LabelledPair
    run: Run
    prompts: tuple[tuple[Message, ...], ...]  # As long as the run has turns

    @property
    def correct(self) -> bool:
        """Every label that is known is the one in a whole final answer; False where none is known."""
        answer, known = self.run.whole_answer, self.pair.truth.labels
        return bool(answer and known and known.items() <= answer.labels.items())


def play(
    pairs: Iterable[LabelledPair],
    backend: Backend,
    settings: Settings,
    samples: int = 1,
    live: int = LIVE,
) -> Iterator[Rollout]:
    """`samples` rollouts of each pair, in order, `live` at a time and turn by turn. Raises VideoError and what the judge raises."""
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
    """The same rollouts; in the place of one that cannot be played stands why not. Raises what else the judge raises."""
    waiting = (player for pair in pairs for player in _players(pair, backend, settings, samples))
    while batch := list(islice(waiting, live)):
        players = [each for each in batch if isinstance(each, _Player)]
        try:
            _play_batch(players, backend)
        finally:
            for player in players:
                player.close()
        yield from (each.played() if isinstance(each, _Player) else each for each in batch)


def by_pair(played: Sequence[T], samples: int) -> list[Sequence[T]]:
    """What stands pair by pair, `samples` of each, in a list for each pair."""
    return [played[start : start + samples] for start in range(0, len(played), samples)]


def _players(
    pair: LabelledPair, backend: Backend, settings: Settings, samples: int
) -> "Sequence[_Player] | Sequence[Unplayable]":
    """One for each sample; where not even the first frames can be had, the error in the place of each."""
    try:
        return [_Player(pair, backend, settings, number) for number in range(samples)]
    except VideoError as error:
        return [of_row(error, pair)] * samples


def _play_batch(batch: Sequence["_Player"], backend: Backend) -> None:
    stream_batch = backend.stream_batch if isinstance(backend, BatchBackend) else stream_one_by_one
    while running := [player for player in batch if not player.over]:
        asked = [
            (player, request) for player in running if (request := player.request()) is not None
        ]
        for position, item in stream_batch([request for _, request in asked]):
            if isinstance(item, Completion | Exception):
                asked[position][0].take(item)


def unplayable_words(error: Unplayable) -> str:
    """What is said of a pair that training does without."""
    return f"A pair cannot be played and teaches nothing. {error}"


def of_row(error: Unplayable, pair: LabelledPair) -> Unplayable:
    """The error with the row in its sentence, where there is one."""
    return error if pair.row is None else type(error)(f"Row {pair.row}: {error}")


class OpenRollout:
    """A rollout that goes on, without the model: `ask()` gives what the judge is to see, `take()` reads its reply."""

    def __init__(self, pair: LabelledPair, judge: JudgeDescription, settings: Settings) -> None:
        self._pair, self._judge = pair, judge
        own = (pair.protocol,) if pair.protocol else judge.protocols
        protocol = make_protocol(settings, chosen_protocol(settings, own))
        self._settings = with_defaults(settings, protocol)
        follows = judge.follows_instructions
        self.deliberation = Deliberation(
            pair.prompt, protocol, self._settings, pair.source, follows_instructions=follows
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
        """Read the reply, and fetch the frames it asks for. Raises VideoError where they cannot be had."""
        deliberation, new = self.deliberation, self._prompts[-1][-1]
        number, forced, in_view = deliberation.turn, deliberation.last_turn, deliberation.in_view
        frames = tuple(_shown(frame, deliberation.protocol) for frame in new.frames)
        try:
            deliberation.take(completion)
        finally:  # a reply whose frames cannot be had counts as taken
            self._turns.append(
                Turn(
                    number, new.text, frames, completion, deliberation.replies[-1], forced, in_view
                )
            )

    def rollout(self) -> Rollout:
        """The finished run. Training counts its labels also outside the judge's scope, where a stored trace has no verdict."""
        deliberation, protocol = self.deliberation, self.deliberation.protocol
        verdict, provisional = deliberation.verdict
        assert deliberation.stop_reason is not None
        clips = clips_of(self._pair.source)
        started = Started(
            self._pair.prompt,
            self._judge.name,
            protocol.name,
            self._settings,
            clips,
            protocol.system,
            protocol.rules,
            notes=self._judge.notes,
        )
        seconds = sum(turn.completion.seconds for turn in self._turns)
        outside = outside_scope(self._judge, deliberation, clips)
        finished = Finished(
            deliberation.stop_reason, verdict, provisional, outside_scope=outside, seconds=seconds
        )
        return Rollout(self._pair, Run(started, tuple(self._turns), finished), tuple(self._prompts))


class _Player:
    """One rollout and the conversation that generates its replies."""

    def __init__(
        self, pair: LabelledPair, backend: Backend, settings: Settings, number: int
    ) -> None:
        seed = (settings.seed + pair.seed * 31 + number * SEED_STEP) % 2**31
        self._open, self._backend = (
            OpenRollout(pair, backend, replace(settings, seed=seed)),
            backend,
        )
        self._pair = pair
        self._error: Unplayable | None = None
        self._conversation: Conversation | None = None

    @property
    def over(self) -> bool:
        return self._error is not None or self._open.over

    def request(self) -> GenerationRequest | None:
        """What is to be generated now; None where that is too long for the judge."""
        deliberation = self._open.deliberation
        self._conversation = self._conversation or self._backend.open_conversation()
        try:
            deliberation.fit(self._conversation.count_tokens, self._conversation.context_length)
        except ContextFull as error:
            self._error = of_row(error, self._pair)
            return None
        return GenerationRequest(self._conversation, self._open.ask(), deliberation.sampling())

    def take(self, item: Completion | Exception) -> None:
        """Read what was generated. Raises an error that does not concern this pair alone."""
        try:
            if isinstance(item, Exception):
                raise item
            self._open.take(item)
        except UNPLAYABLE as error:
            self._error = of_row(error, self._pair)

    def played(self) -> Rollout | Unplayable:
        """What came of it."""
        return self._error or self._open.rollout()

    def close(self) -> None:
        """Free the KV cache."""
        if self._conversation is not None:
            self._conversation.close()


def _shown(frame: Frame, protocol: PromptProtocol) -> Thumbnail:
    """Which frame it was; a rollout keeps no picture of it."""
    return Thumbnail(
        frame.ref,
        protocol.frame_number(frame.ref),
        frame.index,
        frame.seconds,
        frame.until,
        b"",
        frame.note,
    )
