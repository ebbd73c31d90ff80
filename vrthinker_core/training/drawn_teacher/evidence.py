"""What the frames that were seen so far show of both clips: of each frame its picture and how it follows its neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.training.drawn_teacher.phrases import (
    HARDLY,
    JUMPS,
    MOTION_FLAWS,
    MOVES,
    ODDLY,
    PLAIN,
    Places,
)
from vrthinker_core.training.drawn_world.faults import CLEAR, FRAMES
from vrthinker_core.training.drawn_world.moving_scene import GO, STAY, Scene
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer
from vrthinker_core.training.drawn_world.scenes import DrawnPair, verdict_from_flaws
from vrthinker_core.types import FrameRef, Side, Verdict

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
    number: str  # The dialect's
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
    dialect: Dialect
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
        return self.dialect.grid.index(ref.slot, FRAMES)

    def _note(self, ref: FrameRef) -> SeenFrame:
        index, scene = self.index(ref), self.pair.scenes[ref.side]
        noted = sorted(self.frames(ref.side), key=lambda frame: frame.index)
        before = [frame for frame in noted if frame.index < index][-1:]
        beside = (*before, *[frame for frame in noted if frame.index > index][:1])
        places, number = (
            view_light(scene, index) or _thing_place(scene, index),
            self.dialect.frame_number(ref),
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
