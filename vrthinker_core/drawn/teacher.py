"""The teacher of drawn pairs: what it may see, which frames it asks for, and its replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from vrthinker_core.drawn import notes
from vrthinker_core.drawn.faults import CLEAR, FRAMES
from vrthinker_core.drawn.moving_scene import Scene
from vrthinker_core.drawn.notes import HARDLY, JUMPS, MOTION_FLAWS, MOVES, ODDLY, PLAIN
from vrthinker_core.drawn.world import DrawnPair, verdict_from_flaws
from vrthinker_core.protocols.base import PromptProtocol
from vrthinker_core.protocols.factory import make_protocol
from vrthinker_core.types import Dimension, FrameRef, ProtocolName, Settings, Side, Verdict
from vrthinker_core.types.messages import ANSWER_ORDER, SUB_SCORES

Place = tuple[float, float] | None
"""The solid's place in a picture, 0..1 rightwards and downwards. None if it has left it."""


def compare_facts(pair: DrawnPair) -> str:
    """Compare the wanted facts with both videos, line by line."""
    shown = [scene.facts for scene in pair.scenes.values()]
    lines = [_line("Count", "one", ["one", "one"])]
    for name in ("colour", "shape", "direction"):
        values = [getattr(facts, name) for facts in shown]
        lines.append(_line(name.title(), getattr(pair.wanted, name), values))
    return "".join(lines)


def _line(name: str, wanted: str, shown: Sequence[str]) -> str:
    first, second = (
        f" {each}{notes.AS_ASKED if each == wanted else notes.NOT_AS_ASKED}" for each in shown
    )
    return f"{name} {wanted}: video 1{first}; video 2{second}.\n"


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """One frame of one video, as it is noted."""

    side: Side
    number: str  # The protocol's
    index: int  # Of the 128 frames of the clip
    place: Place
    state: str
    motion: str
    # The nearest noted frames that this one is compared with; () for the first frames
    beside: tuple[SeenFrame, ...] = ()


@dataclass(slots=True)
class Evidence:
    """All looks at a pair so far, in order."""

    pair: DrawnPair
    protocol: PromptProtocol
    looks: list[list[SeenFrame]] = field(default_factory=list)

    def look(self, refs: Sequence[FrameRef]) -> None:
        """Note more frames, each compared with its nearest noted neighbours."""
        self.looks.append([])
        for ref in refs:
            index, scene = self.index(ref), self.pair.scenes[ref.side]
            noted = sorted(self.frames(ref.side), key=lambda frame: frame.index)
            before = [frame for frame in noted if frame.index < index][-1:]
            beside = (*before, *[frame for frame in noted if frame.index > index][:1])
            motion = motion_word(scene, index, [frame.index for frame in beside])
            number, state = self.protocol.frame_number(ref), scene.picture_state(index)
            told = beside if len(self.looks) > 1 else ()
            seen = SeenFrame(ref.side, number, index, scene.place(index), state, motion, told)
            self.looks[-1].append(seen)

    def frames(self, side: Side) -> Iterator[SeenFrame]:
        """Yield all seen frames of a video, in order."""
        return (frame for look in self.looks for frame in look if frame.side is side)

    def picture_flaw(self, side: Side) -> str | None:
        """Return the first seen flaw of the picture, with its frame."""
        flawed = (frame for frame in self.frames(side) if frame.state != CLEAR)
        return next((f"{frame.state} at #{frame.number}" for frame in flawed), None)

    def motion_flaw(self, side: Side) -> str | None:
        """Return the first seen flaw of the motion, with its frame."""
        flawed = (frame for frame in self.frames(side) if frame.motion in MOTION_FLAWS)
        return next((f"{frame.motion} at #{frame.number}" for frame in flawed), None)

    def odd_frames(self, side: Side) -> list[SeenFrame]:
        """Return the frames whose motion needs a closer look.

        These are a single flawed frame that is not of the first look, else all doubtful frames.
        """
        flawed = [frame for frame in self.frames(side) if frame.motion in MOTION_FLAWS]
        if flawed:
            return flawed if len(flawed) == 1 and flawed[0] not in self.looks[0] else []
        return [frame for frame in self.frames(side) if frame.motion == ODDLY]

    def settled(self, side: Side) -> bool:
        """Return whether no further frame of this video can change a label."""
        return self.picture_flaw(side) is not None and self.motion_flaw(side) is not None

    @property
    def wrong(self) -> list[int]:
        """How many facts of each video are not as the prompt asks."""
        return [self.pair.wanted.count_wrong(scene.facts) for scene in self.pair.scenes.values()]

    @property
    def verdict(self) -> Verdict:
        """The labels as far as these frames show them."""
        return verdict_from_flaws(
            self.wrong,
            [self.picture_flaw(side) is not None for side in Side],
            [self.motion_flaw(side) is not None for side in Side],
        )

    def index(self, ref: FrameRef) -> int:
        """Return which of the clip's frames a slot means."""
        return self.protocol.grid.index(ref.slot, FRAMES)


def motion_word(scene: Scene, index: int, neighbours: Sequence[int]) -> str:
    """Return how a frame follows its neighbours, PLAIN if it has none."""
    words = [step_word(scene, *sorted((index, other))) for other in neighbours]
    flaws = [word for word in words if word in MOTION_FLAWS]
    return flaws[0] if flaws else ODDLY if ODDLY in words else MOVES if words else PLAIN


def step_word(scene: Scene, start: int, end: int) -> str:
    """Return how the clip goes from one frame to another.

    Compares it with a clip without a motion fault. Lengths are the clip's own.
    """
    moved = np.subtract(scene.position(end), scene.position(start))
    due = np.array(scene.travel) * ((end - start) / (FRAMES - 1))
    along = float(moved @ due) / float(due @ due)
    across, off = np.linalg.norm(moved - along * due), np.linalg.norm(moved - due)
    # A step is no jump if it ends almost in the right place, and doubtful if it ends beside it
    if across > 0.055 or (not -0.4 <= along <= 1.45 and off > 0.02):
        return JUMPS
    if along < 0.5:
        return HARDLY
    return ODDLY if off > 0.015 else MOVES


def next_indices(evidence: Evidence) -> tuple[int, ...]:
    """Return the protocol's numbers to call for, () for no more.

    The second look brings the middles between the first frames, the third one the frames around
    odd ones, each only of videos that are not settled.
    """
    protocol, grid = evidence.protocol, evidence.protocol.grid
    unsettled = [side for side in Side if not evidence.settled(side)]
    wanted: list[FrameRef] = []
    if len(evidence.looks) == 1:
        wanted = [ref for side in unsettled for ref in _middles(evidence, side)]
    elif len(evidence.looks) == 2:
        steps = max(1, round(6 * grid.slots / FRAMES))  # Six frames before and behind an odd one
        for side in unsettled:
            for frame in evidence.odd_frames(side):
                slots = range(grid.slots)
                slot = next(slot for slot in slots if grid.index(slot, FRAMES) == frame.index)
                near = (slot - steps, slot + steps)
                wanted += [FrameRef(other, side) for other in near if 0 <= other < grid.slots]
    seen = {(frame.side, frame.index) for look in evidence.looks for frame in look}
    new = (ref for ref in wanted if (ref.side, evidence.index(ref)) not in seen)
    numbers = {int(protocol.frame_number(ref)) for ref in new}
    return tuple(sorted(numbers)[: protocol.frames_per_call])


def _middles(evidence: Evidence, side: Side) -> Iterable[FrameRef]:
    """Return the middles between the first frames."""
    slots = [ref.slot for ref in evidence.protocol.opening_refs if ref.side is side]
    middles = [(start + end) // 2 for start, end in pairwise(slots)]
    step = slots[1] - slots[0]
    if slots[0] < step // 4:  # The first frames begin with the clip and leave a gap at its end
        middles.append(slots[-1] + step // 2)
    return [FrameRef(slot, side) for slot in middles]


FORCED_EVERY = 12  # One run in so many answers before it has seen all that it would


def write_lesson(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
    """Return the replies of a run to learn from.

    One in FORCED_EVERY answers while it would look again, as it must on its last turn.
    """
    turns = play_teacher(pair, make_protocol(Settings(), protocol))
    texts = [text for text, _, _ in turns]
    number, rest = divmod(pair.seed, FORCED_EVERY)
    last = 1 + number % 2  # The turn that answers
    if rest or len(texts) <= last:
        return tuple(texts)
    begun = texts[last - 1].partition(notes.MORE)[0]
    return (*texts[: last - 1], begun + _final_answer(turns[last - 1][2]))


def play_teacher(
    pair: DrawnPair, protocol: PromptProtocol
) -> list[tuple[str, tuple[int, ...], Evidence]]:
    """Return each reply, the frames it calls for, and its evidence.

    The last reply answers.
    """
    evidence = Evidence(pair, protocol)
    evidence.look(protocol.opening_refs)
    turns = []
    while True:
        wanted = next_indices(evidence)
        seen = Evidence(pair, protocol, list(evidence.looks))
        turns.append((_reply(seen, wanted), wanted, seen))
        if not wanted:
            return turns
        evidence.look(protocol.frame_refs(wanted))


def _reply(evidence: Evidence, wanted: tuple[int, ...]) -> str:
    """Return a reply that calls for `wanted`, or answers if ()."""
    paired = evidence.protocol.name == "paired"
    tag, think_tag = ("Snapshot", "Think") if paired else ("snapshot", "think")
    if not wanted:
        end = _final_answer(evidence)
    elif paired:
        end = f"</Think>\n{evidence.protocol.call(wanted)}"
    else:
        labels = f"{_labels(evidence.verdict)}, CF={2 if len(evidence.looks) == 1 else 3}"
        recommended = f"<recommend answer>{labels}</recommend answer>"
        end = f"</think>\n{recommended}\n{evidence.protocol.call(wanted)}"
    think = _think(evidence, more=bool(wanted))
    return f"<{tag}>\n{_snapshot(evidence)}</{tag}>\n<{think_tag}>\n{think}{end}"


def _final_answer(evidence: Evidence) -> str:
    labels = _labels(evidence.verdict)
    if evidence.protocol.name == "paired":
        return f"</Think>\n<Answer>{labels}</Answer>"
    return f"</think>\n<final answer>{labels}</final answer>"


def _snapshot(evidence: Evidence) -> str:
    """Describe the frames of the last look, the prompt first."""
    look, paired = evidence.looks[-1], evidence.protocol.name == "paired"
    if len(evidence.looks) > 1:
        head = notes.BOTH_VIDEOS if paired else notes.ONE_LIST
        noted = "".join(_entry(frame, paired=paired) for frame in look)
        states = [f"so far video {int(side)}:{_state(evidence, side)}" for side in Side]
        return f"{head}{noted}{'; '.join(states)}.\n"
    wanted = evidence.pair.wanted
    asked = f"{wanted.solid} moving {wanted.direction} on {wanted.ground}"
    lines = [f"The prompt asks for {asked}.\n"]
    for side, scene in evidence.pair.scenes.items():
        shown = f"{scene.facts.solid} moving {scene.facts.direction}"
        noted = "".join(_entry(frame) for frame in look if frame.side is side)
        state = _state(evidence, side)
        lines.append(f"Video {int(side)} shows {shown}: {noted}so far{state}.\n")
    return "".join(lines)


def _think(evidence: Evidence, *, more: bool) -> str:
    """Judge each dimension by its facts; explain why to look again."""
    first, protocol = len(evidence.looks) == 1, evidence.protocol
    opening = ", ".join(
        dict.fromkeys(f"#{protocol.frame_number(ref)}" for ref in protocol.opening_refs)
    )
    labels = {dimension: int(label) for dimension, label in evidence.verdict if label is not None}
    wrong = [notes.FACT_WORDS[count] for count in evidence.wrong]
    lines = [
        compare_facts(evidence.pair) if first else "",
        f"TA ({opening}): video 1 has{wrong[0]} wrong, video 2 has{wrong[1]} wrong",
        notes.better(labels[Dimension.TA], settled=True),
    ]
    for dimension, verb, flaw, none in (
        (Dimension.VQ, " is", evidence.picture_flaw, " is clear"),
        (Dimension.MQ, "", evidence.motion_flaw, f" {notes.SMOOTHLY}"),
    ):
        flaws = [flaw(side) for side in Side]
        said = [f"{verb} {each}" if each else none for each in flaws]
        lines.append(f"{dimension.value}: video 1{said[0]}, video 2{said[1]}")
        lines.append(notes.better(labels[dimension], settled=not more or None not in flaws))
    leads = [
        f"{notes.LEADS[labels[name]]}{topic}"
        for name, topic in zip(SUB_SCORES, notes.TOPICS, strict=True)
    ]
    overall = notes.better(labels[Dimension.OA], settled=not more)
    lines.append(f"OA: {', '.join(leads)}{overall}")
    if more and first:
        lines.append(notes.MAY_HIDE)
    elif more:
        for side in Side:
            if not evidence.settled(side) and (odd := evidence.odd_frames(side)):
                lines.append(f"Video {int(side)} moves oddly near #{odd[0].number}.\n")
    return "".join(lines) + (notes.MORE if more else "")


def _entry(frame: SeenFrame, *, paired: bool = False) -> str:
    """Describe one frame: number, place, picture and motion.

    The places in the frames beside it are repeated, so that what is compared stands side by side.
    """
    number = "video 2" if paired and frame.side is Side.SECOND else f"#{frame.number}"
    beside = ", ".join(f"#{each.number}{_where(each.place)}" for each in frame.beside)
    around = f" ({beside})" if beside else ""
    motion = f", {frame.motion}" if frame.motion else ""
    return f"{number}{_where(frame.place)}{around} {frame.state}{motion}; "


def _where(place: Place) -> str:
    """Return a place in per cent."""
    if place is None:
        return " with nothing to follow"
    x, y = (min(max(round(100 * share), 0), 100) for share in place)
    return f" at {x}%,{y}%"


def _state(evidence: Evidence, side: Side) -> str:
    picture, motion = evidence.picture_flaw(side), evidence.motion_flaw(side)
    return f" {picture or 'clear'}, {motion or notes.SMOOTHLY}"


def _labels(verdict: Verdict) -> str:
    labels = dict(verdict)
    return ", ".join(f"{name.value}={int(labels[name] or 0)}" for name in ANSWER_ORDER)
