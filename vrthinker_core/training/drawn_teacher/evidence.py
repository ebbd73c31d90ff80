"""What the frames that were seen so far show of both clips: of each frame its picture and how it follows its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.training.drawn_teacher.phrases import HARDLY, JUMPS, MOTION_FLAWS, MOVES, ODDLY, PLAIN
from vrthinker_core.training.drawn_world.faults import CLEAR, FRAMES
from vrthinker_core.training.drawn_world.moving_scene import GO, STAY, Scene
from vrthinker_core.training.drawn_world.scenes import DrawnPair, verdict_from_flaws
from vrthinker_core.training.frame_facts.frame_code import Places
from vrthinker_core.training.frame_facts.seen_frames import thing_place, view_light
from vrthinker_core.types import FrameRef, Side, Verdict

LIGHT_OFF = 0.05  # What the light of a view must be off, as a share of the picture, if anybody is to see it
ODDLY_OFF = 0.015  # A step that ends so far from where it should, in the clip's own lengths, is doubtful


PairFrame = tuple[Side, int]
"""A frame of a pair: which video's, and its index."""

LightReader = Callable[[Sequence[PairFrame]], Sequence[Places]]
"""Where somebody sees the light of each of these frames of a pair."""

Misreader = Callable[[Side, str], str]
"""What somebody notes in the place of a motion word of a video."""


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """One frame of one video, as it is noted."""

    side: Side
    number: str  # The dialect's
    index: int  # Of the 128 frames of the clip
    places: Places  # Of what is followed
    state: str
    motion: str
    shown: str  # The motion word that is right, where another one was noted; else the same
    beside: tuple[SeenFrame, ...] = ()  # Those of earlier looks and of this one that it is held against; of the first ones ()


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw, and the frame that shows it."""

    word: str
    number: str


@dataclass(slots=True)
class Evidence:
    """All looks at a pair so far. `looks` are in their order, the frames of each in the order of the message.

    With `read_light` the light of a view is noted as that sees it, else as it is; with `misread` the motion as that has it.
    """

    pair: DrawnPair
    dialect: Dialect
    looks: list[list[SeenFrame]] = field(default_factory=list)
    read_light: LightReader | None = None
    misread: Misreader | None = None

    def look(self, refs: Sequence[FrameRef]) -> None:
        """Note more frames, one after the other; each is held against the nearest ones that were noted on either side of it."""
        self.looks.append([])
        views = [(ref.side, self.index(ref)) for ref in refs if self.pair.scenes[ref.side].view]
        lights = dict(zip(views, (self.read_light or self._true_light)(views), strict=True)) if views else {}
        for ref in refs:
            self.looks[-1].append(self._note(ref, lights.get((ref.side, self.index(ref)), ())))

    def frames(self, side: Side) -> Iterator[SeenFrame]:
        """All frames seen of a video, in the order in which they were."""
        return (frame for look in self.looks for frame in look if frame.side is side)

    def picture_flaw(self, side: Side) -> Flaw | None:
        """The first flaw of the picture that was seen."""
        return next((Flaw(frame.state, frame.number) for frame in self.frames(side) if frame.state != CLEAR), None)

    def motion_flaw(self, side: Side) -> Flaw | None:
        """The first flaw of the motion that was seen."""
        return next((Flaw(frame.motion, frame.number) for frame in self.frames(side) if frame.motion in MOTION_FLAWS), None)

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
        return {side: self.pair.wanted.count_wrong(scene.facts) for side, scene in self.pair.scenes.items()}

    @property
    def verdict(self) -> Verdict:
        """The labels as far as these frames show them."""
        picture, motion = ([flaw(side) is not None for side in Side] for flaw in (self.picture_flaw, self.motion_flaw))
        wrong = self.wrong
        return verdict_from_flaws((wrong[Side.FIRST], wrong[Side.SECOND]), (picture[0], picture[1]), (motion[0], motion[1]))

    def index(self, ref: FrameRef) -> int:
        """Which of the clip's frames a slot means."""
        return self.dialect.grid.index(ref.slot, FRAMES)

    def _true_light(self, frames: Sequence[PairFrame]) -> Sequence[Places]:
        return [view_light(self.pair.scenes[side], index) for side, index in frames]

    def _note(self, ref: FrameRef, light: Places) -> SeenFrame:
        index, scene = self.index(ref), self.pair.scenes[ref.side]
        noted = sorted(self.frames(ref.side), key=lambda frame: frame.index)
        before = [frame for frame in noted if frame.index < index][-1:]
        beside = (*before, *[frame for frame in noted if frame.index > index][:1])
        places, number = light or thing_place(scene, index), self.dialect.frame_number(ref)
        shown = motion_word(scene, index, [frame.index for frame in beside])
        motion = self.misread(ref.side, shown) if self.misread and shown != PLAIN else shown
        told = beside if len(self.looks) > 1 else ()
        return SeenFrame(ref.side, number, index, places, scene.picture_state(index), motion, shown, told)


def motion_word(scene: Scene, index: int, neighbours: Sequence[int]) -> str:
    """How a frame follows its neighbours; PLAIN where it has none."""
    words = [step_word(scene, *sorted((index, other))) for other in neighbours]
    flaws = [word for word in words if word in MOTION_FLAWS]
    return flaws[0] if flaws else ODDLY if ODDLY in words else MOVES if words else PLAIN


def step_word(scene: Scene, start: int, end: int) -> str:
    """How the clip goes on from one frame to another, against how it would without a fault of its motion."""
    word = scene.motion_words((start, end))[0]
    if word != GO:
        shown = not scene.view or _is_repeated(scene, start, end) or any(_is_off(scene, index) for index in (start, end))
        return MOVES if not shown else HARDLY if word == STAY else JUMPS
    due = scene.pace * ((end - start) / (FRAMES - 1))
    off = float(np.linalg.norm(scene.trace(end) - scene.trace(start) - due))
    return ODDLY if off > ODDLY_OFF else MOVES


def _is_repeated(scene: Scene, start: int, end: int) -> bool:
    """The picture of both frames is the same, which is seen however flat it is."""
    times, shifts, states = ({of(start), of(end)} for of in (scene.time_and_offset, scene.shift, scene.picture_state))
    return len(times) == len(shifts) == len(states) == 1


def _is_off(scene: Scene, index: int) -> bool:
    """The light of a view is elsewhere in frame `index` than without the fault of its motion; in a flat picture it hardly is."""
    shown, due = (np.array(view_light(each, index)) for each in (scene, replace(scene, motion_fault=None)))
    return bool(np.abs(shown - due).max() >= LIGHT_OFF)
