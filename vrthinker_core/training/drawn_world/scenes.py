"""The drawn world: things move over a ground, and everything about them is known.

A scene holds all there is to know of a clip; each frame is a pure function of scene, index and size. A drawn pair is a prompt and
two scenes. Its labels are not stored: they follow from what the prompt asks for and what the scenes show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vrthinker_core.training.drawn_world.facts import COLOURS, DIRECTIONS, SceneFacts, Thing
from vrthinker_core.training.drawn_world.faults import (
    MotionFault,
    draw_motion_fault,
    draw_picture_fault,
)
from vrthinker_core.training.drawn_world.moving_scene import Scene
from vrthinker_core.training.drawn_world.prompts import write_prompt
from vrthinker_core.training.drawn_world.rendering.photographs import PHOTO, FlatView
from vrthinker_core.training.drawn_world.rendering.wear import Wear, draw_wear
from vrthinker_core.training.drawn_world.scene_renderer import SceneRenderer
from vrthinker_core.training.drawn_world.world import (
    FULL,
    SIMPLE,
    World,
    draw_facts,
    draw_scene,
    draw_view,
    with_wrong,
)
from vrthinker_core.types import Preference, Side, Verdict

__all__ = [
    "COLOURS",
    "DIRECTIONS",
    "FULL",
    "SIMPLE",
    "TRAINING_SEEDS",
    "DrawnPair",
    "Scene",
    "SceneFacts",
    "SceneRenderer",
    "Thing",
    "World",
    "draw_pair",
    "draw_scene",
    "verdict_from_flaws",
]

TRAINING_SEEDS = 2_000_000_000  # Seeds of pairs to train with lie below; from here on pairs are for measuring alone
FREEZES = 0.2  # How far a view moves in a clip, in its own sides, if a freeze is to be seen


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
        return verdict_from_flaws(
            wrong, picture, (first.motion_fault is not None, second.motion_fault is not None)
        )


def verdict_from_flaws(
    wrong: tuple[int, int], picture: tuple[bool, bool], motion: tuple[bool, bool]
) -> Verdict:
    """The labels that follow from how many facts are wrong and what is faulty on each side.

    Overall, text alignment counts half as much again.
    """
    ta, vq, mq = (second - first for first, second in (wrong, picture, motion))
    overall = 1.5 * np.sign(ta) + vq + mq
    return Verdict(TA=_better(ta), MQ=_better(mq), VQ=_better(vq), OA=_better(overall))


def draw_pair(seed: int, world: World = SIMPLE) -> DrawnPair:
    """The drawn pair of a seed >= 0 in a world. Raises BadInput for a folder without photographs.

    In each dimension the first, the second or neither side wins with equal chance; where neither does, both are flawed one time
    in four. (Not so for TA where there is no thing.)
    """
    rng = np.random.default_rng((seed, 2))
    pair = (
        _draw_place_pair(rng, seed, world)
        if rng.random() < world.no_thing
        else _draw_thing_pair(rng, seed, world)
    )
    return replace(pair, wear=draw_wear(rng, world.h264)) if rng.random() < world.worn else pair


def _draw_thing_pair(rng: np.random.Generator, seed: int, world: World) -> DrawnPair:
    wanted, wrong = draw_facts(rng, world), _draw_wrong_counts(rng, world.most_wrong)
    shown = with_wrong(rng, wanted, wrong[0], world), with_wrong(rng, wanted, wrong[1], world)
    picture, motion = _draw_flawed_sides(rng), _draw_flawed_sides(rng)
    first, second = (
        draw_scene(
            rng,
            shown[side],
            world,
            draw_picture_fault(rng, world.faults) if picture[side] else None,
            draw_motion_fault(rng, world.faults, whole=bool(rng.random() < world.faults.whole))
            if motion[side]
            else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, write_prompt(rng, wanted), wanted, first, second)


def _draw_place_pair(rng: np.random.Generator, seed: int, world: World) -> DrawnPair:
    """A pair without a thing: cameras over pictures, the same picture and path in both or not."""
    views = [draw_view(rng, world), draw_view(rng, world)]
    if rng.random() < world.same_place:
        views[1] = views[0]
    picture, motion = _draw_flawed_sides(rng), _draw_flawed_sides(rng)
    wanted = SceneFacts((), "", PHOTO)
    first, second = (
        Scene(
            wanted,
            None,
            view=views[side],
            picture_fault=draw_picture_fault(rng, world.faults) if picture[side] else None,
            motion_fault=_draw_fault_of_view(rng, views[side], world) if motion[side] else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, write_prompt(rng, wanted), wanted, first, second)


def _draw_fault_of_view(rng: np.random.Generator, view: FlatView, world: World) -> MotionFault:
    return draw_motion_fault(
        rng,
        world.faults,
        whole=bool(rng.random() < 0.5),
        freezes=float(np.linalg.norm(view.pace)) >= FREEZES,
    )


def _draw_flawed_sides(rng: np.random.Generator) -> tuple[bool, bool]:
    """Which sides are flawed in one dimension."""
    better = Preference(int(rng.integers(3)))
    if better is Preference.TIE:
        both = bool(rng.random() < 0.25)
        return both, both
    return better is Preference.SECOND, better is Preference.FIRST


def _draw_wrong_counts(rng: np.random.Generator, most: int) -> tuple[int, int]:
    """How many facts are wrong on each side, at most `most`. One time in four both sides are flawed, one of them more."""
    first, second = _draw_flawed_sides(rng)
    least = int(rng.integers(1, most)) if most > 1 and rng.random() < 0.25 else 0
    if first and second:
        return max(1, least), max(1, least)
    more = least + 1 if rng.random() < 0.8 else most
    return (more, least) if first else (least, more) if second else (0, 0)


def _better(lead: float) -> Preference:
    """The side that leads, positive for the first."""
    return Preference.TIE if lead == 0 else Preference.FIRST if lead > 0 else Preference.SECOND
