"""The drawn world: a solid moves over a ground, and everything about it is known.

A scene holds all there is to know of a clip; each frame is a pure function of scene, index and size. A drawn pair is a prompt and
two scenes. Its labels are not stored: they follow from what the prompt asks for and what the scenes show.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from vrthinker_core.training.drawn_world import faults
from vrthinker_core.training.drawn_world.faults import MotionFault, PictureFault
from vrthinker_core.training.drawn_world.rendering.renderer import Background, Renderer, draw_background
from vrthinker_core.training.drawn_world.rendering.solids import SHAPES, Solid
from vrthinker_core.training.drawn_world.rendering.textures import GROUNDS, Pixels
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
DIRECTIONS = {"right": (1, 0), "left": (-1, 0), "away": (0, -1), "closer": (0, 1)}
"""Directions on the ground, (rightwards, towards the camera)."""
PROMPTS = (
    "A {colour} {shape} moves {direction} across the {ground}.",
    "A {colour} {shape} gliding {direction} over {ground}.",
    "On {ground}, a {colour} {shape} slides {direction}.",
    "a close shot of {ground} with a {colour} {shape} that travels {direction}",
    "{ground} in the sun: a {colour} {shape} drifts {direction}.",
    "Video of a {colour} {shape} going {direction} on {ground}.",
)
"""Worded as the built-in judge learnt them."""


@dataclass(frozen=True, slots=True)
class SceneFacts:
    """What a prompt asks for, or what a scene shows."""

    colour: str
    shape: str
    direction: str
    ground: str

    def count_wrong(self, shown: SceneFacts) -> int:
        """How many of colour, shape and direction are not as wanted here, 0..3."""
        return sum((self.colour != shown.colour, self.shape != shown.shape, self.direction != shown.direction))


@dataclass(frozen=True, slots=True)
class Scene:
    """All there is to know of one clip."""

    facts: SceneFacts
    background: Background
    moving_solid: Solid
    """The solid that the prompt is about, standing in the middle of the ground; `position` says where it is in a frame."""
    spin: float  # How far the moving solid rotates during the clip, radians
    still_solids: tuple[Solid, ...]  # Solids at the back that do not move
    start: tuple[float, float]
    """Where the moving solid is at first: the ground's coordinates, 0..1 rightwards and towards the camera."""
    travel: tuple[float, float]  # How far it moves during the clip, in the same coordinates
    picture_fault: PictureFault | None = None
    motion_fault: MotionFault | None = None

    def position(self, index: int) -> tuple[float, float]:
        """Where the moving solid is in frame `index`, in the ground's coordinates."""
        time, sideways = self._time_and_offset(index)
        x, y = (begin + time * length for begin, length in zip(self.start, self.travel, strict=True))
        return (x, y + sideways) if self.travel[0] else (x + sideways, y)

    def solids(self, index: int) -> tuple[Solid, ...]:
        """All solids of frame `index`, where they stand then."""
        x, y = self.position(index)
        rotation = self.moving_solid.rotation + self.spin * self._time_and_offset(index)[0]
        return (*self.still_solids, replace(self.moving_solid, x=(x - 0.5) * 5.2, z=(y - 0.55) * 6.4, rotation=rotation))

    def _time_and_offset(self, index: int) -> tuple[float, float]:
        return self.motion_fault.time_and_offset(index) if self.motion_fault else (index / (faults.FRAMES - 1), 0.0)


class SceneRenderer:
    """A scene ready to be drawn at one size: the ground is drawn once, then any frame in any order."""

    def __init__(self, scene: Scene, size: int, supersample: int = 1) -> None:
        """Draw the ground, `size` pixels a side. Edges of solids get `supersample` x `supersample` samples a pixel."""
        self.scene = scene
        self._renderer = Renderer(scene.background, size, supersample)

    def frame(self, index: int) -> Pixels:
        """Frame `index` (0..127) of the clip: RGB [size, size, 3]."""
        pixels = self._renderer.render(self.scene.solids(index))
        return self.scene.picture_fault.apply(pixels, index) if self.scene.picture_fault else pixels


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
        """The true labels: fewer wrong facts, no picture fault, no motion fault win."""
        first, second = self.first, self.second
        wrong = self.wanted.count_wrong(first.facts), self.wanted.count_wrong(second.facts)
        picture = first.picture_fault is not None, second.picture_fault is not None
        return verdict_from_flaws(wrong, picture, (first.motion_fault is not None, second.motion_fault is not None))


def verdict_from_flaws(wrong: tuple[int, int], picture: tuple[bool, bool], motion: tuple[bool, bool]) -> Verdict:
    """The labels that follow from how many facts are wrong and what is faulty on each side.

    Overall, text alignment counts half as much again.
    """
    ta, vq, mq = (second - first for first, second in (wrong, picture, motion))
    overall = 1.5 * np.sign(ta) + vq + mq
    return Verdict(TA=_better(ta), MQ=_better(mq), VQ=_better(vq), OA=_better(overall))


def draw_pair(seed: int) -> DrawnPair:
    """The drawn pair of a seed >= 0.

    In each dimension the first, the second or neither side wins with equal chance; where neither does, both are flawed one time
    in four.
    """
    rng = np.random.default_rng(seed)
    wanted = SceneFacts(*(str(rng.choice(list(pool))) for pool in (COLOURS, SHAPES, DIRECTIONS, GROUNDS)))
    wrong, picture, motion = (_draw_flawed_sides(rng) for _ in range(3))
    first, second = (
        draw_scene(
            rng,
            _with_one_wrong(rng, wanted) if wrong[side] else wanted,
            faults.draw_picture_fault(rng) if picture[side] else None,
            faults.draw_motion_fault(rng) if motion[side] else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, str(rng.choice(PROMPTS)).format(**asdict(wanted)), wanted, first, second)


def draw_scene(
    rng: np.random.Generator, facts: SceneFacts, picture_fault: PictureFault | None, motion_fault: MotionFault | None
) -> Scene:
    """A random scene that shows these facts with these faults."""
    tint = np.clip(np.array(COLOURS[facts.colour]) + rng.integers(-14, 15, 3), 0, 255).tolist()
    moving_solid = Solid(facts.shape, tuple(tint), rng.uniform(0.68, 0.98), 0.0, 0.0, rng.uniform(-0.35, 0.35))
    length = rng.uniform(0.68, 0.74)
    along, across = 0.5 - length / 2 + rng.uniform(-0.02, 0.02), rng.uniform(0.2, 0.8)
    right, closer = DIRECTIONS[facts.direction]
    if right + closer < 0:
        along = 1 - along
    if motion_fault and across >= 0.5:
        motion_fault = replace(motion_fault, jump=-motion_fault.jump)  # Towards the middle, so the solid stays in the picture
    return Scene(
        facts=facts,
        background=draw_background(rng, facts.ground),
        moving_solid=moving_solid,
        spin=rng.uniform(-1, 1) if facts.shape == "cube" else 0.0,
        still_solids=_draw_still_solids(rng),
        start=(along, across) if right else (across, along),
        travel=(right * length, closer * length),
        picture_fault=picture_fault,
        motion_fault=motion_fault,
    )


def _draw_still_solids(rng: np.random.Generator) -> tuple[Solid, ...]:
    """Two times in five a small solid at the back."""
    if rng.random() > 0.4:
        return ()
    shape, colour = str(rng.choice(SHAPES)), str(rng.choice(list(COLOURS)))
    x = rng.choice([-1.0, 1.0]) * rng.uniform(1.6, 2.6)
    return (Solid(shape, COLOURS[colour], 0.38, x, -3.6, rng.uniform(-0.3, 0.3)),)


def _draw_flawed_sides(rng: np.random.Generator) -> tuple[bool, bool]:
    """Which sides are flawed in one dimension."""
    better = Preference(int(rng.integers(3)))
    if better is Preference.TIE:
        both = bool(rng.random() < 0.25)
        return both, both
    return better is Preference.SECOND, better is Preference.FIRST


def _with_one_wrong(rng: np.random.Generator, facts: SceneFacts) -> SceneFacts:
    """The facts with another colour, another shape or another direction."""
    name, pool = (("colour", COLOURS), ("shape", SHAPES), ("direction", DIRECTIONS))[rng.integers(3)]
    others = [word for word in pool if word != getattr(facts, name)]
    return replace(facts, **{name: str(rng.choice(others))})


def _better(lead: float) -> Preference:
    """The side that leads, positive for the first."""
    return Preference.TIE if lead == 0 else Preference.FIRST if lead > 0 else Preference.SECOND
