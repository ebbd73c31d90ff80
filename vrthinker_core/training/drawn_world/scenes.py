"""The drawn world: a solid moves over a ground, and everything about it is known.

A scene holds all there is to know of a clip; each frame is a pure function of scene, index and size. A drawn pair is a prompt and
two scenes. Its labels are not stored: they follow from what the prompt asks for and what the scenes show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrthinker_core.training.drawn_world.faults import (
    FRAMES,
    MotionFault,
    PictureFault,
    draw_motion_fault,
    draw_picture_fault,
)
from vrthinker_core.training.drawn_world.renderer import Background, Renderer, draw_background
from vrthinker_core.training.drawn_world.solids import SHAPES, Solid
from vrthinker_core.training.drawn_world.textures import GROUNDS, Pixels
from vrthinker_core.types import Preference, Side, Verdict

COLOURS = {
    "red": (205, 40, 38),
    "green": (40, 140, 60),
    "blue": (44, 84, 205),
    "yellow": (235, 196, 40),
    "purple": (128, 56, 168),
    "orange": (236, 118, 28),
    "white": (236, 236, 232),
    "black": (30, 30, 34),
}
WAYS = {"right": (1, 0), "left": (-1, 0), "away": (0, -1), "closer": (0, 1)}
"""Directions on the ground, (rightwards, towards the camera)."""
PROMPTS = (
    "A {colour} {shape} moves {way} across the {ground}.",
    "A {colour} {shape} gliding {way} over {ground}.",
    "On {ground}, a {colour} {shape} slides {way}.",
    "a close shot of {ground} with a {colour} {shape} that travels {way}",
    "{ground} in the sun: a {colour} {shape} drifts {way}.",
    "Video of a {colour} {shape} going {way} on {ground}.",
)
"""Worded as the built-in judge learnt them."""


@dataclass(frozen=True, slots=True)
class SceneFacts:
    """What a prompt asks for, or what a scene shows."""

    colour: str
    shape: str
    way: str
    ground: str

    def wrong(self, shown: SceneFacts) -> int:
        """How many of colour, shape and way are not as wanted here, 0..3."""
        return sum((self.colour != shown.colour, self.shape != shown.shape, self.way != shown.way))


@dataclass(frozen=True, slots=True)
class Scene:
    """All there is to know of one clip."""

    facts: SceneFacts
    background: Background
    thing: Solid
    """What moves, standing in the middle."""
    spin: float
    """How far it turns during the clip, radians."""
    standing: tuple[Solid, ...]
    """What stands still at the back."""
    start: tuple[float, float]
    """Where the thing is at first: the ground's coordinates, 0..1 rightwards and towards the camera."""
    travel: tuple[float, float]
    """How far it goes during the clip."""
    picture: PictureFault | None = None
    motion: MotionFault | None = None

    def position(self, index: int) -> tuple[float, float]:
        """Where the thing is in frame `index`, in the ground's coordinates."""
        time, sideways = self._moment(index)
        x, y = (begin + time * way for begin, way in zip(self.start, self.travel, strict=True))
        return (x, y + sideways) if self.travel[0] else (x + sideways, y)

    def solids(self, index: int) -> tuple[Solid, ...]:
        """What stands where in frame `index`."""
        x, y = self.position(index)
        turn = self.thing.turn + self.spin * self._moment(index)[0]
        return (*self.standing, replace(self.thing, x=(x - 0.5) * 5.2, z=(y - 0.55) * 6.4, turn=turn))

    def _moment(self, index: int) -> tuple[float, float]:
        return self.motion.at(index) if self.motion else (index / (FRAMES - 1), 0.0)


class SceneRenderer:
    """A scene ready to be drawn at one size: the ground is drawn once, then any frame in any order."""

    def __init__(self, scene: Scene, size: int, fine: int = 1) -> None:
        """Set the stage, `size` pixels a side, with `fine` x `fine` samples where things end (1: quick, with jagged edges)."""
        self.scene = scene
        self._renderer = Renderer(scene.background, size, fine)

    def clean(self, index: int) -> Pixels:
        """Frame `index` (0..127) without damage to its picture: RGB [size, size, 3]."""
        return self._renderer.render(self.scene.solids(index))

    def frame(self, index: int) -> Pixels:
        """Frame `index` (0..127) of the clip: RGB [size, size, 3]."""
        picture = self.clean(index)
        return self.scene.picture.apply(picture, index) if self.scene.picture else picture


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A prompt and two scenes."""

    seed: int
    prompt: str
    wanted: SceneFacts
    first: Scene
    second: Scene

    @property
    def scenes(self) -> dict[Side, Scene]:
        """Both scenes by side."""
        return {Side.FIRST: self.first, Side.SECOND: self.second}

    @property
    def verdict(self) -> Verdict:
        """The true labels."""
        return labels(self.wanted, self.first, self.second)


def labels(wanted: SceneFacts, first: Scene, second: Scene) -> Verdict:
    """The labels of two scenes under a prompt: fewer wrong facts, an undamaged picture, an undamaged motion win."""
    return verdict_on(
        wrong=(wanted.wrong(first.facts), wanted.wrong(second.facts)),
        picture=(first.picture is not None, second.picture is not None),
        motion=(first.motion is not None, second.motion is not None),
    )


def verdict_on(wrong: tuple[int, int], picture: tuple[bool, bool], motion: tuple[bool, bool]) -> Verdict:
    """The labels that follow from each side's wrong facts and faults; overall, text alignment counts half as much again."""
    ta, vq, mq = (second - first for first, second in (wrong, picture, motion))
    overall = 1.5 * np.sign(ta) + vq + mq
    return Verdict(TA=_better(ta), MQ=_better(mq), VQ=_better(vq), OA=_better(overall))


def draw_pair(seed: int) -> DrawnPair:
    """The drawn pair of a seed >= 0.

    In each dimension the first, the second or neither side wins with equal chance; where neither does, both are flawed one time
    in four.
    """
    rng = np.random.default_rng(seed)
    wanted = SceneFacts(*(str(rng.choice(list(pool))) for pool in (COLOURS, SHAPES, WAYS, GROUNDS)))
    wrong, picture, motion = (_draw_flawed(rng) for _ in range(3))
    first, second = (
        draw_scene(
            rng,
            _mistaken(rng, wanted) if wrong[side] else wanted,
            draw_picture_fault(rng) if picture[side] else None,
            draw_motion_fault(rng) if motion[side] else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, draw_prompt(rng, wanted), wanted, first, second)


def draw_prompt(rng: np.random.Generator, wanted: SceneFacts) -> str:
    """A random wording of what is wanted."""
    return str(rng.choice(PROMPTS)).format(colour=wanted.colour, shape=wanted.shape, way=wanted.way, ground=wanted.ground)


def draw_scene(rng: np.random.Generator, facts: SceneFacts, picture: PictureFault | None, motion: MotionFault | None) -> Scene:
    """A random scene that shows these facts with these faults."""
    tint = np.clip(np.array(COLOURS[facts.colour]) + rng.integers(-14, 15, 3), 0, 255).tolist()
    thing = Solid(facts.shape, tuple(tint), rng.uniform(0.68, 0.98), 0.0, 0.0, rng.uniform(-0.35, 0.35))
    length = rng.uniform(0.68, 0.74)
    begin, beside = 0.5 - length / 2 + rng.uniform(-0.02, 0.02), rng.uniform(0.2, 0.8)
    right, closer = WAYS[facts.way]
    if right + closer < 0:
        begin = 1 - begin
    if motion and beside >= 0.5:
        # A jump goes towards the middle, so the thing stays in the picture.
        motion = replace(motion, leap=-motion.leap)
    return Scene(
        facts=facts,
        background=draw_background(rng, facts.ground),
        thing=thing,
        spin=rng.uniform(-1, 1) if facts.shape == "cube" else 0.0,
        standing=_draw_standing(rng),
        start=(begin, beside) if right else (beside, begin),
        travel=(right * length, closer * length),
        picture=picture,
        motion=motion,
    )


def _draw_standing(rng: np.random.Generator) -> tuple[Solid, ...]:
    """Two times in five a small thing at the back."""
    if rng.random() > 0.4:
        return ()
    shape, colour = str(rng.choice(SHAPES)), str(rng.choice(list(COLOURS)))
    x = rng.choice([-1.0, 1.0]) * rng.uniform(1.6, 2.6)
    return (Solid(shape, COLOURS[colour], 0.38, x, -3.6, rng.uniform(-0.3, 0.3)),)


def _draw_flawed(rng: np.random.Generator) -> tuple[bool, bool]:
    """Which sides are flawed in one dimension."""
    better = Preference(int(rng.integers(3)))
    if better is Preference.TIE:
        both = bool(rng.random() < 0.25)
        return both, both
    return better is Preference.SECOND, better is Preference.FIRST


def _mistaken(rng: np.random.Generator, facts: SceneFacts) -> SceneFacts:
    """The facts with another colour, shape or way."""
    name, pool = (("colour", COLOURS), ("shape", SHAPES), ("way", WAYS))[rng.integers(3)]
    others = [word for word in pool if word != getattr(facts, name)]
    return replace(facts, **{name: str(rng.choice(others))})


def _better(lead: float) -> Preference:
    """The side that leads, positive for the first."""
    return Preference.TIE if lead == 0 else Preference.FIRST if lead > 0 else Preference.SECOND
