"""Rollouts: labelled pairs, played by a judge as the page compares them."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from vrthinker_core.backends.base import Backend
from vrthinker_core.comparison import Comparison
from vrthinker_core.errors import ContextFull, VideoError
from vrthinker_core.protocols.factory import chosen_protocol
from vrthinker_core.runner import run_many
from vrthinker_core.types import ProtocolName, Run, Settings, Verdict, VideoPair
from vrthinker_core.types.events import Finished
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Message

T = TypeVar("T")
LIVE = 64  # Rollouts in one batch
Unplayable = VideoError | ContextFull  # Of one pair alone: it cannot be read, or is too long


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A pair with known labels, and its frames."""

    prompt: str
    truth: Verdict
    source: FrameSource = field(repr=False)
    seed: int = 0  # Tells pairs apart where replies are sampled
    protocol: ProtocolName | None = None  # Of its frames, and of its rollouts if settings are open
    row: str | None = None  # Of the data that it was read from, as errors name it


@dataclass(frozen=True, slots=True)
class Rollout:
    """One finished deliberation, and the prompt before each reply."""

    pair: LabelledPair
    run: Run
    prompts: tuple[tuple[Message, ...], ...]  # As long as the run has turns

    @property
    def correct(self) -> bool:
        """Whether the final answer has all known labels; False if none is known."""
        answer, known = self.run.whole_answer, self.pair.truth.labels
        return bool(answer and known and known.items() <= answer.labels.items())


def play(
    pairs: Iterable[LabelledPair], backend: Backend, settings: Settings, samples: int = 1
) -> Iterator[Rollout]:
    """Yield rollouts of each pair in order. Raises Unplayable, and as the judge."""
    for _, played in in_order(play_each(pairs, backend, settings, samples)):
        if not isinstance(played, Rollout):
            raise played
        yield played


def in_order(numbered: Iterable[tuple[int, T]]) -> Iterator[tuple[int, T]]:
    """Yield numbered things in the order of their numbers, from 0 on."""
    waiting, wanted = dict[int, T](), 0
    for number, each in numbered:
        waiting[number] = each
        while wanted in waiting:
            yield wanted, waiting.pop(wanted)
            wanted += 1


def play_each(
    pairs: Iterable[LabelledPair],
    backend: Backend,
    settings: Settings,
    samples: int = 1,
    live: int = LIVE,
) -> Iterator[tuple[int, Rollout | Unplayable]]:
    """Yield rollouts of each pair as they end, `live` at a time.

    Number k is sample k % samples of pair k // samples. Yields the error of a pair instead of
    raising it. Raises other errors.
    """
    opened: dict[int, tuple[LabelledPair, Comparison]] = {}

    def begun() -> Iterator[Comparison]:
        everything = ((pair, number) for pair in pairs for number in range(samples))
        for position, (pair, number) in enumerate(everything):
            # Two samples of one pair are 7919 seeds apart
            seed = (settings.seed + pair.seed * 31 + number * 7919) % 2**31
            own = (pair.protocol,) if pair.protocol else backend.protocols
            protocol = chosen_protocol(settings, own)
            chosen = replace(settings, seed=seed, protocol=protocol, swap="off")
            videos = VideoPair(pair.prompt, "", "")
            opened[position] = pair, Comparison(videos, backend, chosen, source=pair.source)
            yield opened[position][1]

    with closing(run_many(begun(), backend, live)) as events:
        for position, event in events:
            if isinstance(event, Finished):
                pair, comparison = opened.pop(position)
                if isinstance(error := comparison.error, Unplayable):
                    row = "" if pair.row is None else f"Row {pair.row}: "
                    yield position, type(error)(f"{row}{error}")
                elif error is not None:
                    raise error
                else:
                    assert comparison.trace is not None
                    prompts = tuple(tuple(each.messages) for each in comparison.requests)
                    yield position, Rollout(pair, comparison.trace, prompts)
