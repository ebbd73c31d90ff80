"""The drawn world: what scenes hold, how they move, and the labels that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vrthinker_core.drawn.facts import (
    COLOURS,
    DIRECTIONS,
    GROUNDS,
    SHAPES,
    SceneFacts,
    write_prompt,
)
from vrthinker_core.drawn.faults import (
    MotionFault,
    PictureFault,
    draw_motion_fault,
    draw_picture_fault,
    skip,
)
from vrthinker_core.drawn.moving_scene import Scene
from vrthinker_core.drawn.renderer import Background, draw_background
from vrthinker_core.drawn.solids import Solid
from vrthinker_core.types import Preference, Side, Verdict

# Seeds of pairs to train with lie below; from here on pairs are for measuring alone
TRAINING_SEEDS = 2_000_000_000


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
        """The true labels: the side with fewer wrong facts or faults wins."""
        scenes = self.first, self.second
        return verdict_from_flaws(
            [self.wanted.count_wrong(scene.facts) for scene in scenes],
            [scene.picture_fault is not None for scene in scenes],
            [scene.motion_fault is not None for scene in scenes],
        )


def verdict_from_flaws(
    wrong: Sequence[int], picture: Sequence[bool], motion: Sequence[bool]
) -> Verdict:
    """Return the labels for wrong facts and faults of each side.

    Overall, text alignment counts half as much again.
    """

    def better(lead: float) -> Preference:
        return Preference.TIE if lead == 0 else Preference.FIRST if lead > 0 else Preference.SECOND

    ta, vq, mq = (second - first for first, second in (wrong, picture, motion))
    overall = better(1.5 * np.sign(ta) + vq + mq)
    return Verdict(TA=better(ta), MQ=better(mq), VQ=better(vq), OA=overall)


def draw_pair(seed: int) -> DrawnPair:
    """Return the drawn pair of a seed >= 0.

    In each dimension the first, the second or neither side wins with equal chance. If neither wins,
    both are flawed one time in four.
    """
    rng = np.random.default_rng((seed, 2))
    skip(rng)
    wanted, wrong = draw_facts(rng), _draw_flawed_sides(rng)
    if not all(wrong):
        skip(rng)
    shown = [_with_wrong_fact(rng, wanted) if flawed else wanted for flawed in wrong]
    picture, motion = _draw_flawed_sides(rng), _draw_flawed_sides(rng)
    first, second = (
        draw_scene(
            rng,
            shown[side],
            draw_picture_fault(rng) if picture[side] else None,
            draw_motion_fault(rng) if motion[side] else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, write_prompt(rng, wanted), wanted, first, second)


def draw_facts(rng: np.random.Generator) -> SceneFacts:
    """Return random facts of a pair."""
    skip(rng)
    ground = str(rng.choice(GROUNDS))
    skip(rng)
    (colour,) = rng.choice(list(COLOURS), 1, replace=False)
    shape = str(rng.choice(SHAPES))
    skip(rng)
    return SceneFacts(str(colour), shape, str(rng.choice(list(DIRECTIONS))), ground)


def _with_wrong_fact(rng: np.random.Generator, wanted: SceneFacts) -> SceneFacts:
    """Return the facts with another colour, shape or direction."""
    kind = str(rng.choice(("colour", "shape", "direction")))
    if kind == "colour":
        return replace(wanted, colour=_other(rng, COLOURS, wanted.colour))
    if kind == "shape":
        return replace(wanted, shape=_other(rng, SHAPES, wanted.shape))
    return replace(wanted, direction=_other(rng, DIRECTIONS, wanted.direction))


def _other(rng: np.random.Generator, words: Iterable[str], word: str) -> str:
    return str(rng.choice([other for other in words if other != word]))


def _draw_flawed_sides(rng: np.random.Generator) -> tuple[bool, bool]:
    """Return which sides are flawed in one dimension."""
    better = Preference(int(rng.integers(3)))
    if better is Preference.TIE:
        both = bool(rng.random() < 0.25)
        return both, both
    return better is Preference.SECOND, better is Preference.FIRST


def draw_scene(
    rng: np.random.Generator,
    facts: SceneFacts,
    picture_fault: PictureFault | None = None,
    motion_fault: MotionFault | None = None,
) -> Scene:
    """Return a random scene with a mostly visible solid and these faults."""
    background = draw_background(rng, facts.ground)
    share, scene = _place_solid(rng, facts, background)
    for _ in range(59):
        if share >= 0.45:
            break
        other = _place_solid(rng, facts, background)
        share, scene = other if other[0] > share else (share, scene)
    fault, across = motion_fault, 1 if DIRECTIONS[facts.direction][0] else 0
    if fault and scene.start[across] >= 0.5:  # Towards the middle, so it stays in the picture
        fault = replace(fault, jump=-fault.jump)
    return replace(scene, picture_fault=picture_fault, motion_fault=fault)


def _place_solid(
    rng: np.random.Generator, facts: SceneFacts, background: Background
) -> tuple[float, Scene]:
    """Return (visible share, scene); the share is in the second worst of five frames."""
    right, closer = DIRECTIONS[facts.direction]
    size = rng.uniform(0.66, 0.95)
    length = rng.uniform(0.67, 0.74) - 0.06 * size if right else rng.uniform(0.62, 0.74)
    along = 0.5 - length / 2 + rng.uniform(-0.02, 0.02)
    along = 1 - along if right + closer < 0 else along
    across = rng.uniform(0.25, 0.75)
    start = (along, across) if right else (across, along)
    tint = np.clip(np.array(COLOURS[facts.colour]) + rng.integers(-14, 15, 3), 0, 255).tolist()
    rng.integers(2)  # Skipped, too
    solid = Solid(facts.shape, tuple(tint), size, 0.0, 0.0, rng.uniform(-0.35, 0.35))
    spin = rng.uniform(-1, 1) if facts.shape == "cube" else 0.0
    still: tuple[Solid, ...] = ()
    if rng.random() <= 0.25:  # A small solid at the back, which does not move
        x = float(rng.choice([-1, 1])) * rng.uniform(1.6, 2.6)
        shape, rgb = str(rng.choice(SHAPES)), COLOURS[str(rng.choice(list(COLOURS)))]
        still = (Solid(shape, rgb, 0.32, x, -3.8, rng.uniform(-0.3, 0.3)),)
    scene = Scene(facts, background, solid, spin, start, (right * length, closer * length), still)
    return sorted(scene.visible_share(index) for index in (8, 36, 64, 92, 120))[1], scene
