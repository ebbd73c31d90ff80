"""Conversations about drawn pairs in a dialect's own prompts: described only, as the base learns them, or judged by the teacher."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.dialects.factory import make_dialect
from vrthinker_core.training.base.frames.coded_frames import FrameNames
from vrthinker_core.training.base.frames.restless_scenes import make_halting, make_restless
from vrthinker_core.training.base.model.model_shape import SIDE
from vrthinker_core.training.drawn_teacher.evidence import Evidence, LightReader, Misreader
from vrthinker_core.training.drawn_teacher.looking import next_indices
from vrthinker_core.training.drawn_teacher.replies import play_teacher, write_reply, write_snapshot
from vrthinker_core.training.drawn_teacher.shown_facts import compare_facts
from vrthinker_core.training.drawn_world.scenes import FIRST_WORLD, DrawnPair, WorldOptions, draw_pair
from vrthinker_core.types import ProtocolName, Settings
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import GeneratedText, Message

FREE_PROMPTS = 0.6  # Share of prompts that owe nothing to the videos: a prompt has to be copied, it cannot be guessed
FIRST = 0.3  # Share of every second pair that is of the first world
COARSE_LOOKS = 0.5  # Share of first looks in described conversations that are the teacher's
OTHER_LOOKS = 0.25  # Share of judged conversations in which the judge asks for other frames than the teacher would
CONCAT = 0.3  # Share of conversations in that dialect
MOST = 6  # Frames of a random look
APART = 3  # Slots between two frames of a random look, at least


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """A reply of the scripted teacher."""

    text: str
    wanted: tuple[int, ...]  # Numbers of the frames that it is answered with
    corrected: str  # The same with every motion word as its frame shows it, should the teacher misread some


Replies = list[WrittenReply]


@dataclass(frozen=True, slots=True)
class PairShares:
    """How many of the pairs are of which kind; see `Write` for why so many are restless."""

    no_thing: float = 0.45  # Of the second world's, those without a thing
    restless_pairs: float = 0.5  # Of those with things
    restless_views: float = 0.75  # Of those without
    halting_views: float = 0.0  # Of those without that are not restless


Write = Callable[[DrawnPair, Dialect, LightReader, np.random.Generator, Misreader | None], Replies]
"""The replies to a pair, by a teacher that may misread; the light of a view is written as it is read.

Were it written as it is, the frame before would often tell it better than the frame itself, and a model would learn to copy it.
So it does, too, where the light hardly changes: hence so many restless views, and few cameras that are slow.
"""


def draw_training_pair(number: int, world: WorldOptions, shares: PairShares) -> DrawnPair:
    """The pair of that number: of either world, many under another prompt, many of them restless."""
    rng = np.random.default_rng((4, number))
    first = rng.random() < FIRST and number % 2 == 0
    options = FIRST_WORLD if first else replace(world, free_prompt=FREE_PROMPTS, no_thing=shares.no_thing)
    pair = draw_pair(number, options)
    share = shares.restless_views if pair.first.view else shares.restless_pairs
    if rng.random() < share:
        return make_restless(pair, rng)
    return make_halting(pair, rng) if pair.first.view and rng.random() < shares.halting_views else pair


def draw_protocol(rng: np.random.Generator) -> ProtocolName:
    """One of both dialects."""
    return "concat" if rng.random() < CONCAT else "paired"


def describe(
    pair: DrawnPair, dialect: Dialect, read_light: LightReader, rng: np.random.Generator, misread: Misreader | None = None
) -> Replies:
    """What the first frames show and which facts of it are as asked, then what frames of a random look show. Nothing is judged.

    Words are held against one another here, where most prompts owe nothing to the videos: rollouts hardly teach it, as most of
    what they show is as asked.
    """
    evidence = Evidence(pair, dialect, read_light=read_light, misread=misread)
    evidence.look(dialect.opening_refs)
    looks = [random_look(dialect, rng) for _ in range(1 if dialect.window else int(rng.integers(1, 3)))]
    if rng.random() < COARSE_LOOKS:
        looks[0] = next_indices(evidence) or looks[0]
    replies: Replies = []
    for look in (*looks, ()):
        facts = "" if replies else compare_facts(pair)
        text = write_snapshot(evidence) + facts
        corrected = write_snapshot(evidence, corrected=True) + facts if misread else text
        replies.append(WrittenReply(text, look, corrected))
        if look:
            evidence.look(dialect.frame_refs(look))
    return replies


def judge(
    pair: DrawnPair, dialect: Dialect, read_light: LightReader, rng: np.random.Generator, misread: Misreader | None = None
) -> Replies:
    """The teacher's replies; sometimes it looks elsewhere than it would."""
    look = random_look(dialect, rng) if rng.random() < OTHER_LOOKS else ()
    turns = play_teacher(pair, dialect, look, read_light, misread)
    return [
        WrittenReply(text, wanted, write_reply(seen, wanted, corrected=True) if misread else text) for text, wanted, seen in turns
    ]


def conversation(
    pair: DrawnPair, dialect: Dialect, replies: Replies, source: FrameSource, *, corrected: bool = False
) -> list[Message]:
    """The messages of a conversation with these replies, or with them `corrected`.

    With a memory window, frames that left it are not in it.
    """
    messages = list(dialect.opening_messages(pair.prompt, source(dialect.opening_refs)))
    for reply in replies:
        messages.append(Message("assistant", (GeneratedText(reply.corrected if corrected else reply.text, ()),)))
        if reply.wanted:
            messages.append(dialect.tool_result(reply.wanted, source(dialect.frame_refs(reply.wanted))))
    return messages


def random_look(dialect: Dialect, rng: np.random.Generator) -> tuple[int, ...]:
    """Some frames, in ascending order, none twice and none of the first ones."""
    first = {int(dialect.frame_number(ref)) for ref in dialect.opening_refs}
    last = dialect.grid.slots * (2 if dialect.name == "concat" else 1)
    count = int(rng.integers(2, MOST + 1))
    numbers: list[int] = []
    for number in sorted(rng.permutation(last)[: 2 * count].tolist()):
        shown = number + (1 if dialect.name == "concat" else 0)
        if shown not in first and (not numbers or shown - numbers[-1] >= APART):
            numbers.append(shown)
    return tuple(numbers[:count]) or ((2,) if 2 not in first else (3,))


def new_source(pair: DrawnPair, dialect: Dialect) -> FrameNames:
    """Where a conversation over codes has its frames from."""
    return FrameNames(pair, dialect.grid, SIDE)


def dialect_of(protocol: ProtocolName) -> Dialect:
    """The dialect with its own settings."""
    return make_dialect(Settings(), protocol)
