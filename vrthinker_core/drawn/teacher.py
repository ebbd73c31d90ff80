"""The teacher of drawn pairs: its calls for frames, and its replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from vrthinker_core.drawn.notes import CLEAR, FACT_KINDS, HARDLY, JUMPS, MOVES, ODDLY
from vrthinker_core.drawn.world import FRAMES, DrawnPair, Scene
from vrthinker_core.protocols.base import PromptProtocol
from vrthinker_core.protocols.factory import make_protocol
from vrthinker_core.types import FrameRef, ProtocolName, Settings, Side, Verdict
from vrthinker_core.types.messages import ANSWER_ORDER, SUB_SCORES

FORCED_EVERY = 12  # One lesson in so many answers early
MORE = "More frames are needed.\n"
SMOOTHLY = "moves smoothly"
BETTER = ("neither", "video 1", "video 2")  # By label
FLAWS = HARDLY, JUMPS
TAGS: dict[ProtocolName, tuple[str, str, str]] = {
    "paired": ("Snapshot", "Think", "Answer"),
    "concat": ("snapshot", "think", "final answer"),
}


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """The teacher's note on one frame of one video."""

    ref: FrameRef
    number: str  # The protocol's
    index: int  # Of the 128 frames of the clip
    where: str  # The solid's place in per cent, in words
    state: str  # One of notes.PICTURES
    motion: str  # One of notes.MOTIONS, or ""
    # The nearest noted frames that this one is compared with; () for the first frames
    beside: tuple[SeenFrame, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All looks at a pair so far, in order."""

    pair: DrawnPair
    protocol: PromptProtocol
    looks: tuple[tuple[SeenFrame, ...], ...] = ()

    def look(self, refs: Sequence[FrameRef]) -> Evidence:
        """Return the evidence with these frames noted, each beside its nearest neighbours."""
        grown = replace(self, looks=(*self.looks, ()))
        for ref in refs:
            index, scene = self.protocol.grid.index(ref.slot, FRAMES), self.pair.scenes[ref.side]
            noted = sorted(grown.frames(ref.side), key=lambda frame: frame.index)
            before = [frame for frame in noted if frame.index < index][-1:]
            beside = (*before, *[frame for frame in noted if frame.index > index][:1])
            steps = [_step_word(scene, *sorted((index, frame.index))) for frame in beside]
            motion = min(steps, key=lambda word: (word not in FLAWS, word != ODDLY), default="")
            number, where = self.protocol.frame_number(ref), _where(scene.place(index))
            state, told = scene.picture_state(index), beside if self.looks else ()
            seen = SeenFrame(ref, number, index, where, state, motion, told)
            grown = replace(grown, looks=(*self.looks, (*grown.looks[-1], seen)))
        return grown

    def frames(self, side: Side) -> Iterator[SeenFrame]:
        """Yield all seen frames of a video, in order."""
        return (frame for look in self.looks for frame in look if frame.ref.side is side)

    def flaws(self, side: Side) -> tuple[str, str]:
        """Return the first flaw of picture and motion, "" if none."""
        frames = list(self.frames(side))
        picture = (f"{frame.state} at #{frame.number}" for frame in frames if frame.state != CLEAR)
        motion = (f"{frame.motion} at #{frame.number}" for frame in frames if frame.motion in FLAWS)
        return next(picture, ""), next(motion, "")

    def odd_frames(self, side: Side) -> list[SeenFrame]:
        """Return the frames whose motion needs a closer look.

        These are a single flawed frame that is not of the first look, else all doubtful frames.
        """
        if flawed := [frame for frame in self.frames(side) if frame.motion in FLAWS]:
            return flawed if len(flawed) == 1 and flawed[0] not in self.looks[0] else []
        return [frame for frame in self.frames(side) if frame.motion == ODDLY]

    @property
    def unsettled(self) -> list[Side]:
        """The videos whose labels further frames may change."""
        return [side for side in Side if not all(self.flaws(side))]

    @property
    def verdict(self) -> Verdict:
        """The labels as far as these frames show them."""
        return self.pair.labels(map(self.flaws, Side))


def _where(place: tuple[float, float] | None) -> str:
    if place is None:
        return "with nothing to follow"
    x, y = (min(max(round(100 * share), 0), 100) for share in place)
    return f"at {x}%,{y}%"


def _step_word(scene: Scene, start: int, end: int) -> str:
    """Return how the step between two frames differs from even motion."""
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


def _next_indices(evidence: Evidence) -> tuple[int, ...]:
    """Return the protocol's numbers to call for, () for no more.

    The second look brings the middles between the first frames, the third one the frames around odd
    ones, each only of videos that are not settled.
    """
    protocol, slots, looks = evidence.protocol, evidence.protocol.grid.slots, evidence.looks
    steps = max(1, round(6 * slots / FRAMES))  # Six frames before and behind an odd one
    wanted: list[FrameRef] = []
    for side in evidence.unsettled:
        near: list[int] = []
        if len(looks) == 1:
            first = [ref.slot for ref in protocol.opening_refs if ref.side is side]
            step = first[1] - first[0]
            # The first frames may begin with the clip and leave a gap at its end
            end = [first[-1] + step] if first[0] < step // 4 else []
            near = [sum(each) // 2 for each in pairwise(first + end)]
        elif len(looks) == 2:
            odd = [frame.ref.slot for frame in evidence.odd_frames(side)]
            near = [slot + step for slot in odd for step in (-steps, steps)]
        wanted += [FrameRef(slot, side) for slot in near if 0 <= slot < slots]
    seen = {frame.ref for look in looks for frame in look}
    numbers = {int(protocol.frame_number(ref)) for ref in wanted if ref not in seen}
    return tuple(sorted(numbers)[: protocol.frames_per_call])


def write_lesson(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
    """Return the replies of a run to learn from.

    One in FORCED_EVERY answers while it would look again, as it must on its last turn.
    """
    turns = play_teacher(pair, make_protocol(Settings(), protocol))
    texts = tuple(text for text, _ in turns)
    number, rest = divmod(pair.seed, FORCED_EVERY)
    last = number % 2  # The turn that answers
    if rest or len(texts) <= last + 1:
        return texts
    begun = texts[last].partition(MORE)[0]
    return (*texts[:last], begun + _final_answer(turns[last][1]))


def play_teacher(pair: DrawnPair, protocol: PromptProtocol) -> list[tuple[str, Evidence]]:
    """Return each reply with its evidence; the last reply answers."""
    evidence = Evidence(pair, protocol).look(protocol.opening_refs)
    turns = []
    while wanted := _next_indices(evidence):
        turns.append((_reply(evidence, wanted), evidence))
        evidence = evidence.look(protocol.frame_refs(wanted))
    return [*turns, (_reply(evidence, ()), evidence)]


def _reply(evidence: Evidence, wanted: tuple[int, ...]) -> str:
    """Return a reply that calls for `wanted`, or answers if ()."""
    protocol, end = evidence.protocol, _final_answer(evidence)
    snapshot, think, _ = TAGS[protocol.name]
    if wanted:
        labels = f"{_labels(evidence)}, CF={2 if len(evidence.looks) == 1 else 3}"
        answer = f"<recommend answer>{labels}</recommend answer>\n"
        end = f"</{think}>\n{'' if protocol.name == 'paired' else answer}{protocol.call(wanted)}"
    thoughts = _think(evidence, more=bool(wanted))
    return f"<{snapshot}>\n{_snapshot(evidence)}</{snapshot}>\n<{think}>\n{thoughts}{end}"


def _final_answer(evidence: Evidence) -> str:
    _, think, answer = TAGS[evidence.protocol.name]
    return f"</{think}>\n<{answer}>{_labels(evidence)}</{answer}>"


def _labels(evidence: Evidence) -> str:
    labels = evidence.verdict.labels
    return ", ".join(f"{name.value}={labels[name]}" for name in ANSWER_ORDER)


def _snapshot(evidence: Evidence) -> str:
    """Describe the frames of the last look, the prompt first."""
    look, paired = evidence.looks[-1], evidence.protocol.name == "paired"
    flaws = map(evidence.flaws, Side)
    states = [f"{picture or CLEAR}, {motion or SMOOTHLY}" for picture, motion in flaws]
    if len(evidence.looks) > 1:
        head = "Video 1, then video 2: " if paired else "Video 1, from #49 on video 2: "
        noted = "".join(_entry(frame, paired=paired) for frame in look)
        return f"{head}{noted}so far video 1: {states[0]}; so far video 2: {states[1]}.\n"
    lines = [f"The prompt asks for {evidence.pair.wanted.scene}.\n"]
    for (side, scene), state in zip(evidence.pair.scenes.items(), states, strict=True):
        noted = "".join(_entry(frame) for frame in look if frame.ref.side is side)
        shown = f"{scene.facts.solid} moving {scene.facts.direction}"
        lines.append(f"Video {int(side)} shows {shown}: {noted}so far {state}.\n")
    return "".join(lines)


def _entry(frame: SeenFrame, *, paired: bool = False) -> str:
    """Describe one frame: number, place, places beside it, picture and motion."""
    number = "video 2" if paired and frame.ref.side is Side.SECOND else f"#{frame.number}"
    beside = ", ".join(f"#{each.number} {each.where}" for each in frame.beside)
    around = f" ({beside})" if beside else ""
    return (
        f"{number} {frame.where}{around} {', '.join(filter(None, (frame.state, frame.motion)))}; "
    )


def _think(evidence: Evidence, *, more: bool) -> str:
    """Judge each dimension by its facts; explain why to look again."""
    first, pair, protocol = len(evidence.looks) == 1, evidence.pair, evidence.protocol
    numbers = dict.fromkeys(protocol.frame_number(ref) for ref in protocol.opening_refs)
    opening = ", ".join(f"#{number}" for number in numbers)
    better = {name: BETTER[label] for name, label in evidence.verdict.labels.items()}
    wrong = [f"has {('no', 'one')[count]} fact wrong" for count in pair.wrong]
    pictures, motions = zip(*map(evidence.flaws, Side), strict=True)
    each = ": video 1 {}, video 2 {}".format
    topics = zip(SUB_SCORES, ("prompt", "picture", "motion"), strict=True)
    leads = ", ".join(f"{better[name]} leads on the {topic}" for name, topic in topics)
    lines = [_compare_facts(pair) if first else ""]
    for name, reason, settled in (  # If settled, no further frame will change the label
        ("TA", f" ({opening})" + each(*wrong), True),
        ("VQ", each(*(f"is {flaw or CLEAR}" for flaw in pictures)), all(pictures)),
        ("MQ", each(*(flaw or SMOOTHLY for flaw in motions)), all(motions)),
        ("OA", f": {leads}", False),
    ):
        far = "" if settled or not more else " so far"
        lines.append(f"{name}{reason}, so {better[name]} is better{far}.\n")
    if more and first:
        lines.append("Flaws may hide between these frames.\n")
    elif more:
        for side in evidence.unsettled:
            if odd := evidence.odd_frames(side):
                lines.append(f"Video {int(side)} moves oddly near #{odd[0].number}.\n")
    return "".join(lines) + (MORE if more else "")


def _compare_facts(pair: DrawnPair) -> str:
    """Compare the wanted facts with both videos, line by line."""
    lines = ["Count one: video 1 one, as asked; video 2 one, as asked.\n"]
    for kind in FACT_KINDS:
        wanted = getattr(pair.wanted, kind)
        shown = [getattr(scene.facts, kind) for scene in pair.scenes.values()]
        one, two = (f"{each}, {'' if each == wanted else 'not '}as asked" for each in shown)
        lines.append(f"{kind.title()} {wanted}: video 1 {one}; video 2 {two}.\n")
    return "".join(lines)
