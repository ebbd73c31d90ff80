"""The teacher of drawn pairs: what it may see, which frames it asks for, and its replies in either protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, permutations

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn import phrases
from vrthinker_core.drawn.faults import CLEAR, FRAMES
from vrthinker_core.drawn.moving_scene import GO, STAY, Scene
from vrthinker_core.drawn.phrases import HARDLY, JUMPS, MOTION_FLAWS, MOVES, ODDLY, PLAIN, Places
from vrthinker_core.drawn.scene_renderer import SceneRenderer
from vrthinker_core.drawn.world import DrawnPair, SceneFacts, verdict_from_flaws
from vrthinker_core.protocols.base import PromptProtocol
from vrthinker_core.protocols.factory import make_protocol
from vrthinker_core.protocols.frame_facts import COUNT_WORDS
from vrthinker_core.types import Dimension, FrameRef, ProtocolName, Settings, Side, Verdict
from vrthinker_core.types.comparison import ANSWER_ORDER, SUB_SCORES

Words = tuple[str, str, str]  # Count, colour and shape of a thing


def restate(wanted: SceneFacts) -> str:
    """What the prompt asks for."""
    if not _things(wanted):
        return f"{phrases.ASKS}{phrases.REAL_SCENE}.\n"
    ground = "a photo" if wanted.ground == "photo" else wanted.ground
    return f"{phrases.ASKS}{_named(wanted)} on {ground}.\n"


def describe(side: Side, shown: SceneFacts) -> str:
    """What a video shows."""
    return phrases.SHOWS.format(side=int(side)) + (
        _named(shown) if _things(shown) else phrases.REAL_SCENE + phrases.AND_LIGHT
    )


def compare_facts(pair: DrawnPair) -> str:
    """Fact by fact, what the prompt asks for and what both videos show; things are held against those they fit best."""
    wanted = _things(pair.wanted)
    shown = [_matched(wanted, _things(scene.facts)) for scene in pair.scenes.values()]
    lines = []
    for number, thing in enumerate(wanted):
        for place, key in enumerate(("count", "colour", "shape")):
            values = [
                None if (found := things[number]) is None else found[place] for things in shown
            ]
            lines.append(_line(phrases.fact_name(key, number), thing[place], values))
    if wanted:
        directions = [scene.facts.direction for scene in pair.scenes.values()]
        lines.append(_line(phrases.fact_name("direction", 0), pair.wanted.direction, directions))
    return "".join(lines)


def _things(facts: SceneFacts) -> list[Words]:
    return [(COUNT_WORDS[thing.count - 1], thing.colour, thing.shape) for thing in facts.things]


def _named(facts: SceneFacts) -> str:
    counts = COUNT_WORDS
    things = " and".join(
        phrases.name_thing(colour, shape, 1 + counts.index(count))
        for count, colour, shape in _things(facts)
    )
    return f"{things} moving {facts.direction}"


def _matched(wanted: list[Words], shown: list[Words]) -> list[Words | None]:
    """Of what is shown, what stands for each wanted thing: as it fits best; None for one that is missing."""
    padded = [*shown, *[None] * (len(wanted) - len(shown))]
    return list(
        min(permutations(padded, len(wanted)), key=lambda some: sum(map(_difference, wanted, some)))
    )


def _difference(wanted: Words, shown: Words | None) -> int:
    return 1 if shown is None else sum(a != b for a, b in zip(wanted, shown, strict=True))


def _line(name: str, wanted: str, shown: Sequence[str | None]) -> str:
    said = [
        phrases.MISSING if each is None else f" {each}{_fits(each == wanted)}" for each in shown
    ]
    return f"{name} {wanted}: video 1{said[0]}; video 2{said[1]}.\n"


def _fits(fits: bool) -> str:
    return phrases.AS_ASKED if fits else phrases.NOT_AS_ASKED


LIGHT_OFF = (
    0.05  # What the light of a view must be off, as a share of the picture, if anybody is to see it
)
ODDLY_OFF = (
    0.015  # A step that ends so far from where it should, in the clip's own lengths, is doubtful
)
LIGHT_SIDE, LIGHT_CELLS = (
    32,
    8,
)  # Pixels and cells per side of the picture in which the light of a view is looked for
LIGHT_GAIN = 0.2  # How steeply the light moves with the brightness of one side, in display levels


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """One frame of one video, as it is noted."""

    side: Side
    number: str  # The protocol's
    index: int  # Of the 128 frames of the clip
    places: Places  # Of what is followed
    state: str
    motion: str
    beside: tuple[
        SeenFrame, ...
    ] = ()  # Those of earlier looks and of this one that it is held against; of the first ones ()


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw, and the frame that shows it."""

    word: str
    number: str


@dataclass(slots=True)
class Evidence:
    """All looks at a pair so far. `looks` are in their order, the frames of each in the order of the message."""

    pair: DrawnPair
    protocol: PromptProtocol
    looks: list[list[SeenFrame]] = field(default_factory=list)

    def look(self, refs: Sequence[FrameRef]) -> None:
        """Note more frames, one after the other; each is held against the nearest ones that were noted on either side of it."""
        self.looks.append([])
        for ref in refs:
            self.looks[-1].append(self._note(ref))

    def frames(self, side: Side) -> Iterator[SeenFrame]:
        """All frames seen of a video, in the order in which they were."""
        return (frame for look in self.looks for frame in look if frame.side is side)

    def picture_flaw(self, side: Side) -> Flaw | None:
        """The first flaw of the picture that was seen."""
        return next(
            (
                Flaw(frame.state, frame.number)
                for frame in self.frames(side)
                if frame.state != CLEAR
            ),
            None,
        )

    def motion_flaw(self, side: Side) -> Flaw | None:
        """The first flaw of the motion that was seen."""
        return next(
            (
                Flaw(frame.motion, frame.number)
                for frame in self.frames(side)
                if frame.motion in MOTION_FLAWS
            ),
            None,
        )

    def odd_frames(self, side: Side) -> list[SeenFrame]:
        """Where the motion is to be looked at closer: one frame alone shows a flaw, not of the first; or it is doubtful."""
        flawed = [frame for frame in self.frames(side) if frame.motion in MOTION_FLAWS]
        if flawed:
            return flawed if len(flawed) == 1 and flawed[0] not in self.looks[0] else []
        return [frame for frame in self.frames(side) if frame.motion == ODDLY]

    def settled(self, side: Side) -> bool:
        """Nothing that is still to be seen of this video can change a label."""
        return self.picture_flaw(side) is not None and self.motion_flaw(side) is not None

    @property
    def wrong(self) -> Mapping[Side, int]:
        """How many facts of each video are not as the prompt asks."""
        return {
            side: self.pair.wanted.count_wrong(scene.facts)
            for side, scene in self.pair.scenes.items()
        }

    @property
    def verdict(self) -> Verdict:
        """The labels as far as these frames show them."""
        picture, motion = (
            [flaw(side) is not None for side in Side]
            for flaw in (self.picture_flaw, self.motion_flaw)
        )
        wrong = self.wrong
        return verdict_from_flaws(
            (wrong[Side.FIRST], wrong[Side.SECOND]),
            (picture[0], picture[1]),
            (motion[0], motion[1]),
        )

    def index(self, ref: FrameRef) -> int:
        """Which of the clip's frames a slot means."""
        return self.protocol.grid.index(ref.slot, FRAMES)

    def _note(self, ref: FrameRef) -> SeenFrame:
        index, scene = self.index(ref), self.pair.scenes[ref.side]
        noted = sorted(self.frames(ref.side), key=lambda frame: frame.index)
        before = [frame for frame in noted if frame.index < index][-1:]
        beside = (*before, *[frame for frame in noted if frame.index > index][:1])
        places, number = (
            view_light(scene, index) or _thing_place(scene, index),
            self.protocol.frame_number(ref),
        )
        motion = motion_word(scene, index, [frame.index for frame in beside])
        told = beside if len(self.looks) > 1 else ()
        return SeenFrame(ref.side, number, index, places, scene.picture_state(index), motion, told)


def motion_word(scene: Scene, index: int, neighbours: Sequence[int]) -> str:
    """How a frame follows its neighbours; PLAIN where it has none."""
    words = [step_word(scene, *sorted((index, other))) for other in neighbours]
    flaws = [word for word in words if word in MOTION_FLAWS]
    return flaws[0] if flaws else ODDLY if ODDLY in words else MOVES if words else PLAIN


def step_word(scene: Scene, start: int, end: int) -> str:
    """How the clip goes on from one frame to another, against how it would without a fault of its motion."""
    word = scene.motion_words((start, end))[0]
    if word != GO:
        shown = (
            not scene.view
            or _is_repeated(scene, start, end)
            or any(_is_off(scene, index) for index in (start, end))
        )
        return MOVES if not shown else HARDLY if word == STAY else JUMPS
    due = scene.pace * ((end - start) / (FRAMES - 1))
    off = float(np.linalg.norm(scene.trace(end) - scene.trace(start) - due))
    return ODDLY if off > ODDLY_OFF else MOVES


def _is_repeated(scene: Scene, start: int, end: int) -> bool:
    """The picture of both frames is the same, which is seen however flat it is."""
    times, shifts, states = (
        {of(start), of(end)} for of in (scene.time_and_offset, scene.shift, scene.picture_state)
    )
    return len(times) == len(shifts) == len(states) == 1


def _is_off(scene: Scene, index: int) -> bool:
    """The light of a view is elsewhere in frame `index` than without the fault of its motion; in a flat picture it hardly is."""
    shown, due = (
        np.array(view_light(each, index)) for each in (scene, replace(scene, motion_fault=None))
    )
    return bool(np.abs(shown - due).max() >= LIGHT_OFF)


def _thing_place(scene: Scene, index: int) -> Places:
    """Where in the picture the first thing is that can be seen; () if none can."""
    return tuple(place for place in scene.thing_positions(index) if place is not None)[:1]


def view_light(scene: Scene, index: int) -> Places:
    """Where the light of both halves of a view is in frame `index`, whatever is done to its picture; () in a scene of things."""
    return _light(replace(scene, picture_fault=None), index) if scene.view else ()


@lru_cache(maxsize=1024)
def _light(scene: Scene, index: int) -> Places:
    return light_of(_small_renderer(scene).frame(index))


@lru_cache(maxsize=64)
def _small_renderer(scene: Scene) -> SceneRenderer:
    return SceneRenderer(scene, LIGHT_SIDE)


def light_of(picture: NDArray[np.uint8]) -> Places:
    """Where the light of the upper half of a picture RGB [h, w, 3] is and that of the lower half, each 0..1 in its own half.

    It is nearer to a side the brighter that is, and moves as the picture does: the motion of a view is read from it.
    """
    cells = (
        cv2.resize(picture, (LIGHT_CELLS, LIGHT_CELLS), interpolation=cv2.INTER_AREA)
        .astype(np.float32)
        .mean(-1)
    )
    return tuple(
        (_light_along(half.mean(0)), _light_along(half.mean(1))) for half in np.split(cells, 2)
    )


def _light_along(brightness: NDArray[np.float32]) -> float:
    """Where along one axis the light of cells [n] is, in display levels: 0.5 if both of its ends are as bright."""
    middles = (np.arange(len(brightness)) + 0.5) / len(brightness) - 0.5
    return float(
        0.5
        + 0.5 * np.tanh(LIGHT_GAIN * (brightness - brightness.mean()) @ middles / len(brightness))
    )


CLOSE = 6  # Frames from an odd frame to those that a closer look brings
NEAR = 4  # Slots from the middle between two of the first frames to the two that a look at a view brings


def next_indices(evidence: Evidence) -> tuple[int, ...]:
    """The protocol's numbers to call for; () when there is nothing more to see."""
    wanted = (
        _coarse(evidence)
        if len(evidence.looks) == 1
        else _closer(evidence)
        if len(evidence.looks) == 2
        else []
    )
    protocol = evidence.protocol
    seen = {(frame.side, frame.index) for look in evidence.looks for frame in look}
    numbers = {
        int(protocol.frame_number(ref))
        for ref in wanted
        if (ref.side, evidence.index(ref)) not in seen
    }
    return tuple(sorted(numbers)[: protocol.frames_per_call])


def _coarse(evidence: Evidence) -> list[FrameRef]:
    """The middles between the first frames, in each video that is not settled."""
    return [ref for side in Side if not evidence.settled(side) for ref in _middles(evidence, side)]


def _middles(evidence: Evidence, side: Side) -> Iterable[FrameRef]:
    """Of a view two near frames in each gap, where a call can bring so many: a freeze shows in two frames that it holds."""
    slots = [ref.slot for ref in evidence.protocol.opening_refs if ref.side is side]
    middles = [(start + end) // 2 for start, end in pairwise(slots)]
    step = slots[1] - slots[0]
    if (
        slots[0] < step // 4
    ):  # The first frames begin with the clip, so there is a gap behind the last one
        middles.append(slots[-1] + step // 2)
    if evidence.protocol.name == "paired" and evidence.pair.scenes[side].view:
        middles = [middle + off for middle in middles for off in (-NEAR, NEAR)]
    return [FrameRef(slot, side) for slot in middles]


def _closer(evidence: Evidence) -> list[FrameRef]:
    """Around the odd frames of each video that is not settled."""
    grid = evidence.protocol.grid
    steps = max(1, round(CLOSE * grid.slots / FRAMES))
    found = []
    for side in Side:
        for frame in [] if evidence.settled(side) else evidence.odd_frames(side):
            slot = next(
                slot for slot in range(grid.slots) if grid.index(slot, FRAMES) == frame.index
            )
            found += [
                FrameRef(near, side)
                for near in (slot - steps, slot + steps)
                if 0 <= near < grid.slots
            ]
    return found


FIRST_CONFIDENCE, LATER_CONFIDENCE = (
    2,
    3,
)  # CF of a recommended answer after the first frames, and after a coarse look
FORCED_EVERY = 12  # One run in so many answers before it has seen all that it would


def write_lesson(pair: DrawnPair, protocol: ProtocolName) -> tuple[str, ...]:
    """The replies of a run to learn from: one in FORCED_EVERY answers where it would look again, as on its last turn it must."""
    turns = play_teacher(pair, make_protocol(Settings(), protocol))
    texts = [text for text, _, _ in turns]
    number, rest = divmod(pair.seed, FORCED_EVERY)
    last = 1 + number % 2  # The turn that answers
    if rest or len(texts) <= last:
        return tuple(texts)
    begun = texts[last - 1].partition(phrases.MORE)[0]
    return (*texts[: last - 1], begun + _final_answer(turns[last - 1][2]))


def play_teacher(
    pair: DrawnPair, protocol: PromptProtocol
) -> list[tuple[str, tuple[int, ...], Evidence]]:
    """Each reply, the frames it calls for, and the evidence it rests on; the last one is a final answer."""
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
    """The reply after the last look; `wanted` are the frames it calls for, () for the final answer."""
    protocol = evidence.protocol
    snapshot, think = _snapshot(evidence), _think(evidence, more=bool(wanted))
    end = _call(evidence, wanted) if wanted else _final_answer(evidence)
    if protocol.name == "paired":
        return f"<Snapshot>\n{snapshot}</Snapshot>\n<Think>\n{think}{end}"
    return f"<snapshot>\n{snapshot}</snapshot>\n<think>\n{think}{end}"


def _call(evidence: Evidence, wanted: tuple[int, ...]) -> str:
    """From the end of the thinking on."""
    protocol = evidence.protocol
    if protocol.name == "paired":
        return f"</Think>\n{protocol.call(wanted)}"
    confidence = FIRST_CONFIDENCE if len(evidence.looks) == 1 else LATER_CONFIDENCE
    labels = f"{_labels(evidence.verdict)}, CF={confidence}"
    return f"</think>\n<recommend answer>{labels}</recommend answer>\n{protocol.call(wanted)}"


def _final_answer(evidence: Evidence) -> str:
    """From the end of the thinking on."""
    labels = _labels(evidence.verdict)
    if evidence.protocol.name == "paired":
        return f"</Think>\n<Answer>{labels}</Answer>"
    return f"</think>\n<final answer>{labels}</final answer>"


def _snapshot(evidence: Evidence) -> str:
    """What the frames of the last look show. First the prompt is restated, before anything is said of what was seen."""
    look = evidence.looks[-1]
    if len(evidence.looks) == 1:
        lines = [restate(evidence.pair.wanted)]
        for side, scene in evidence.pair.scenes.items():
            noted = "".join(_entry(frame) for frame in look if frame.side is side)
            lines.append(
                f"{describe(side, scene.facts)}: {noted}{phrases.SO_FAR}{_state(evidence, side)}.\n"
            )
        return "".join(lines)
    head = phrases.BOTH_VIDEOS if evidence.protocol.name == "paired" else phrases.ONE_LIST
    noted = "".join(_entry(frame, paired=evidence.protocol.name == "paired") for frame in look)
    states = [phrases.SO_FAR_OF.format(side=int(side)) + _state(evidence, side) for side in Side]
    return f"{head}{noted}{'; '.join(states)}.\n"


def _think(evidence: Evidence, *, more: bool) -> str:
    """Each dimension in one sentence, right behind its facts, and at last why more frames are needed."""
    labels = {dimension: int(label) for dimension, label in evidence.verdict if label is not None}
    lines = [compare_facts(evidence.pair)] if len(evidence.looks) == 1 else []
    wrong = [phrases.FACT_WORDS[count] for count in evidence.wrong.values()]
    lines.append(
        f"{phrases.alignment_head(evidence.protocol)}{wrong[0]} wrong, video 2 has{wrong[1]} wrong"
    )
    lines.append(phrases.better(labels[Dimension.TA], settled=True))
    for dimension, flaw, none in (
        (Dimension.VQ, evidence.picture_flaw, " is clear"),
        (Dimension.MQ, evidence.motion_flaw, f" {phrases.SMOOTHLY}"),
    ):
        flaws = [flaw(side) for side in Side]
        verb = " is" if dimension is Dimension.VQ else ""
        said = [f"{verb} {_at(each)}" if each else none for each in flaws]
        lines.append(f"{dimension.value}: video 1{said[0]}, video 2{said[1]}")
        lines.append(phrases.better(labels[dimension], settled=not more or None not in flaws))
    lines.append(_overall(labels, more=more))
    return "".join(lines) + (_why_more(evidence) + phrases.MORE if more else "")


def _overall(labels: dict[Dimension, int], *, more: bool) -> str:
    leads = ", ".join(
        f"{phrases.LEADS[labels[name]]}{topic}"
        for name, topic in zip(SUB_SCORES, phrases.TOPICS, strict=True)
    )
    return f"OA: {leads}{phrases.better(labels[Dimension.OA], settled=not more)}"


def _why_more(evidence: Evidence) -> str:
    if len(evidence.looks) == 1:
        return phrases.MAY_HIDE
    odd = [(side, evidence.odd_frames(side)) for side in Side if not evidence.settled(side)]
    return "".join(
        f"{phrases.NEAR.format(side=int(side))}#{frames[0].number}.\n"
        for side, frames in odd
        if frames
    )


def _entry(frame: SeenFrame, *, paired: bool = False) -> str:
    number = "video 2" if paired and frame.side is Side.SECOND else f"#{frame.number}"
    beside = [(each.number, each.places) for each in frame.beside]
    return phrases.entry(number, frame.places, beside, frame.state, frame.motion)


def _state(evidence: Evidence, side: Side) -> str:
    """Picture and motion of a video so far."""
    picture, motion = evidence.picture_flaw(side), evidence.motion_flaw(side)
    return f" {_at(picture) or 'clear'}, {_at(motion) or phrases.SMOOTHLY}"


def _at(flaw: Flaw | None) -> str:
    return f"{flaw.word} at #{flaw.number}" if flaw else ""


def _labels(verdict: Verdict) -> str:
    labels = dict(verdict)
    return ", ".join(
        f"{dimension.value}={int(labels[dimension] or 0)}" for dimension in ANSWER_ORDER
    )
