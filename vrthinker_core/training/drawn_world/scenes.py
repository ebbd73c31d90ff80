"""The drawn world: things move over a ground, and everything about them is known.

A scene holds all there is to know of a clip; each frame is a pure function of scene, index and size. A drawn pair is a prompt and
two scenes. Its labels are not stored: they follow from what the prompt asks for and what the scenes show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrthinker_core.training.drawn_world import faults
from vrthinker_core.training.drawn_world.facts import COLOURS, DIRECTIONS, SceneFacts, Thing
from vrthinker_core.training.drawn_world.faults import MotionFault, PictureFault
from vrthinker_core.training.drawn_world.moving_scene import Formation, Scene
from vrthinker_core.training.drawn_world.prompts import write_first_prompt, write_prompt
from vrthinker_core.training.drawn_world.rendering.photographs import PHOTO, FlatView
from vrthinker_core.training.drawn_world.rendering.renderer import draw_background
from vrthinker_core.training.drawn_world.rendering.solids import SHAPES, Solid
from vrthinker_core.training.drawn_world.rendering.textures import GROUNDS
from vrthinker_core.training.drawn_world.rendering.wear import Wear, draw_wear
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer
from vrthinker_core.training.drawn_world.second_world import (
    FIRST_WORLD,
    SECOND_WORLD,
    WorldOptions,
    draw_facts,
    draw_second_scene,
    draw_view,
    with_wrong,
)
from vrthinker_core.training.drawn_world.varied_faults import draw_varied_motion_fault, draw_varied_picture_fault
from vrthinker_core.types import Preference, Side, Verdict

__all__ = [
    "COLOURS",
    "DIRECTIONS",
    "FIRST_WORLD",
    "SECOND_WORLD",
    "TRAINING_SEEDS",
    "DrawnPair",
    "Scene",
    "SceneFacts",
    "SceneRenderer",
    "Thing",
    "WorldOptions",
    "draw_pair",
    "draw_scene",
    "verdict_from_flaws",
]

TRAINING_SEEDS = 2_000_000_000  # Seeds of pairs to train with lie below; from here on pairs are for measuring alone
MOST_WRONG = 3  # Facts of one video
FREEZES = 0.2  # How far a view moves in a clip, in its own sides, if a freeze is to be seen
WHOLE_SHIFTS = 0.3  # Share of motion faults of scenes with things that move all of the picture


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A prompt and two scenes."""

    seed: int
    prompt: str
    wanted: SceneFacts
    first: Scene
    second: Scene
    wear: Wear | None = None  # Of both videos, where frames are drawn without a file in between

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


def draw_pair(seed: int, options: WorldOptions = FIRST_WORLD) -> DrawnPair:
    """The drawn pair of a seed >= 0 in the world of `options`. Raises BadInput for a folder without photographs.

    In each dimension the first, the second or neither side wins with equal chance; where neither does, both are flawed one time
    in four. (Not so for TA where there is no thing.)
    """
    if not options.second:
        return _draw_first_pair(seed)
    rng = np.random.default_rng((seed, 2))
    pair = _draw_place_pair(rng, seed, options) if rng.random() < options.no_thing else _draw_thing_pair(rng, seed, options)
    return replace(pair, wear=draw_wear(rng, options.h264)) if rng.random() < options.worn else pair


def draw_scene(
    rng: np.random.Generator, facts: SceneFacts, picture_fault: PictureFault | None, motion_fault: MotionFault | None
) -> Scene:
    """A random scene of the first world, which shows these facts of a single solid with these faults."""
    (thing,) = facts.things
    tint = np.clip(np.array(COLOURS[thing.colour]) + rng.integers(-14, 15, 3), 0, 255).tolist()
    solid = Solid(thing.shape, tuple(tint), rng.uniform(0.68, 0.98), 0.0, 0.0, rng.uniform(-0.35, 0.35))
    length = rng.uniform(0.68, 0.74)
    along, across = 0.5 - length / 2 + rng.uniform(-0.02, 0.02), rng.uniform(0.2, 0.8)
    right, closer = DIRECTIONS[facts.direction]
    if right + closer < 0:
        along = 1 - along
    if motion_fault and across >= 0.5:
        motion_fault = replace(motion_fault, jump=-motion_fault.jump)  # Towards the middle, so the solid stays in the picture
    background = draw_background(rng, facts.ground)
    group = Formation((solid,), rng.uniform(-1, 1) if thing.shape == "cube" else 0.0, (along, across) if right else (across, along))
    return Scene(
        facts,
        background,
        (group,),
        _draw_still_solids(rng),
        (right * length, closer * length),
        picture_fault=picture_fault,
        motion_fault=motion_fault,
    )


def _draw_first_pair(seed: int) -> DrawnPair:
    rng = np.random.default_rng(seed)
    colour, shape, direction, ground = (str(rng.choice(list(pool))) for pool in (COLOURS, SHAPES, DIRECTIONS, GROUNDS))
    wanted = SceneFacts.of_one(colour, shape, direction, ground)
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
    return DrawnPair(seed, write_first_prompt(rng, wanted.things[0], direction, ground), wanted, first, second)


def _draw_thing_pair(rng: np.random.Generator, seed: int, options: WorldOptions) -> DrawnPair:
    wanted, wrong = draw_facts(rng, options), _draw_wrong_counts(rng)
    shown = with_wrong(rng, wanted, wrong[0]), with_wrong(rng, wanted, wrong[1])
    picture, motion = _draw_flawed_sides(rng), _draw_flawed_sides(rng)
    first, second = (
        draw_second_scene(
            rng,
            shown[side],
            options,
            draw_varied_picture_fault(rng) if picture[side] else None,
            draw_varied_motion_fault(rng, whole=bool(rng.random() < WHOLE_SHIFTS)) if motion[side] else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, write_prompt(rng, wanted), wanted, first, second)


def _draw_place_pair(rng: np.random.Generator, seed: int, options: WorldOptions) -> DrawnPair:
    """A pair without a thing: cameras over pictures, the same picture and path in both or not."""
    views = [draw_view(rng, options), draw_view(rng, options)]
    if rng.random() < options.same_place:
        views[1] = views[0]
    picture, motion = _draw_flawed_sides(rng), _draw_flawed_sides(rng)
    wanted = SceneFacts((), "", PHOTO)
    first, second = (
        Scene(
            wanted,
            None,
            view=views[side],
            picture_fault=draw_varied_picture_fault(rng) if picture[side] else None,
            motion_fault=_draw_fault_of_view(rng, views[side]) if motion[side] else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, write_prompt(rng, wanted), wanted, first, second)


def _draw_fault_of_view(rng: np.random.Generator, view: FlatView) -> MotionFault:
    freezes = float(np.linalg.norm(view.pace)) >= FREEZES
    return draw_varied_motion_fault(rng, whole=bool(rng.random() < 0.5), freezes=freezes)


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


def _draw_wrong_counts(rng: np.random.Generator) -> tuple[int, int]:
    """How many facts are wrong on each side; one time in four both sides are flawed, but one more than the other."""
    first, second = _draw_flawed_sides(rng)
    least = int(rng.integers(1, MOST_WRONG)) if rng.random() < 0.25 else 0
    if first and second:
        return max(1, least), max(1, least)
    more = least + 1 if rng.random() < 0.8 else MOST_WRONG
    return (more, least) if first else (least, more) if second else (0, 0)


def _with_one_wrong(rng: np.random.Generator, facts: SceneFacts) -> SceneFacts:
    """The facts of a single solid with another colour, another shape or another direction."""
    (thing,) = facts.things
    name, pool = (("colour", COLOURS), ("shape", SHAPES), ("direction", DIRECTIONS))[rng.integers(3)]
    present = {"colour": thing.colour, "shape": thing.shape, "direction": facts.direction}
    present[name] = str(rng.choice([word for word in pool if word != present[name]]))
    return SceneFacts.of_one(**present, ground=facts.ground)


def _better(lead: float) -> Preference:
    """The side that leads, positive for the first."""
    return Preference.TIE if lead == 0 else Preference.FIRST if lead > 0 else Preference.SECOND
