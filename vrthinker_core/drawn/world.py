"""The drawn world: random pairs of scenes, with their true labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from vrthinker_core.drawn.notes import (
    COLOURS,
    DIRECTIONS,
    FACT_KINDS,
    GROUNDS,
    PICTURES,
    SHAPES,
    SceneFacts,
)
from vrthinker_core.drawn.scene import FRAMES, Background, MotionFault, PictureFault, Scene
from vrthinker_core.drawn.solids import Solid
from vrthinker_core.types import Preference, Side, Verdict

# Seeds of pairs to train with lie below; from here on pairs are for measuring alone
TRAINING_SEEDS = 2_000_000_000
OPENING_FRAMES = (16, 48, 80, 112)  # The frames that a `paired` judge is shown before it asks
PICTURE_FAULTS = (*PICTURES[1:], "flicker")
MOTION_FAULTS = ("jittery", "frozen", "jumpy")
PROMPTS = (
    "{solid} rolls {direction} over {ground}.",  # Of balls alone
    "{solid} moves {direction} across {ground}.",
    "{solid} gliding {direction} over {ground}.",
    "On {ground}, {solid} slides {direction}.",
    "a close shot of {ground} with {solid} moving {direction}",
    "{ground} in the sun: {solid} drifts {direction}.",
    "Video of {solid} going {direction} on {ground}.",
    "{solid} travels {direction} on {ground}, seen from above.",
)
DIRECTION_WORDS = {
    "right": ("right", "to the right"),
    "left": ("left", "to the left"),
    "away": ("away", "away from the camera"),
    "closer": ("closer", "towards the camera"),
}


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

        def flaws(scene: Scene) -> tuple[int, bool, bool]:
            wrong = self.wanted.count_wrong(scene.facts)
            return wrong, scene.picture_fault is not None, scene.motion_fault is not None

        return verdict_from_flaws(flaws(self.first), flaws(self.second))


def verdict_from_flaws(*sides: Sequence[int]) -> Verdict:
    """Return the labels for two sides: (wrong facts, picture flawed, motion flawed).

    Overall, text alignment counts half as much again.
    """

    def better(lead: float) -> Preference:
        return Preference.TIE if lead == 0 else Preference.FIRST if lead > 0 else Preference.SECOND

    ta, vq, mq = (second - first for first, second in zip(*sides, strict=True))
    overall = better(1.5 * np.sign(ta) + vq + mq)
    return Verdict(TA=better(ta), MQ=better(mq), VQ=better(vq), OA=overall)


def draw_pair(seed: int) -> DrawnPair:
    """Return the drawn pair of a seed >= 0.

    In each dimension the first, the second or neither side wins with equal chance. If neither wins,
    both are flawed one time in four.
    """
    rng = np.random.default_rng((seed, 2))
    _skip(rng)
    wanted, wrong = draw_facts(rng), _draw_flawed_sides(rng)
    if not all(wrong):
        _skip(rng)
    shown = [_with_wrong_fact(rng, wanted) if flawed else wanted for flawed in wrong]
    picture, motion = _draw_flawed_sides(rng), _draw_flawed_sides(rng)
    first, second = (
        draw_scene(
            rng,
            shown[side],
            _draw_picture_fault(rng) if picture[side] else None,
            _draw_motion_fault(rng) if motion[side] else None,
        )
        for side in (0, 1)
    )
    return DrawnPair(seed, write_prompt(rng, wanted), wanted, first, second)


def _skip(rng: np.random.Generator) -> None:
    """Skip a random number that earlier versions used: seeds keep their pairs."""
    rng.random()


def draw_facts(rng: np.random.Generator) -> SceneFacts:
    """Return random facts of a pair."""
    _skip(rng)
    ground = str(rng.choice(GROUNDS))
    _skip(rng)
    colour, shape = str(rng.choice(list(COLOURS))), str(rng.choice(SHAPES))
    _skip(rng)
    return SceneFacts(colour, shape, str(rng.choice(list(DIRECTIONS))), ground)


def write_prompt(rng: np.random.Generator, wanted: SceneFacts) -> str:
    """Return a prompt that asks for these facts."""
    wordings = PROMPTS if wanted.shape == "ball" else PROMPTS[1:]
    text = str(rng.choice(wordings)).format(
        solid=wanted.solid,
        direction=rng.choice(DIRECTION_WORDS[wanted.direction]),
        ground=wanted.ground,
    )
    return text[0].upper() + text[1:] if text.endswith(".") else text


def _with_wrong_fact(rng: np.random.Generator, wanted: SceneFacts) -> SceneFacts:
    """Return the facts with another colour, shape or direction."""
    kind = str(rng.choice(FACT_KINDS))
    words: Iterable[str] = {"colour": COLOURS, "shape": SHAPES, "direction": DIRECTIONS}[kind]
    others = [word for word in words if word != getattr(wanted, kind)]
    return replace(wanted, **{kind: str(rng.choice(others))})


def _draw_flawed_sides(rng: np.random.Generator) -> tuple[bool, bool]:
    """Return which sides are flawed in one dimension."""
    better = Preference(int(rng.integers(3)))
    if better is Preference.TIE:
        both = bool(rng.random() < 0.25)
        return both, both
    return better is Preference.SECOND, better is Preference.FIRST


def _draw_picture_fault(rng: np.random.Generator) -> PictureFault:
    kind = str(rng.choice(PICTURE_FAULTS))
    strength, seed = rng.random(), int(rng.integers(1 << 30))
    window = _draw_window(rng, kind)
    if len(window) < FRAMES and kind != "flicker":
        _skip(rng)
    return PictureFault(kind, window, strength, seed)


def _draw_motion_fault(rng: np.random.Generator) -> MotionFault:
    _skip(rng)
    kind, seed = str(rng.choice(MOTION_FAULTS)), int(rng.integers(1 << 30))
    _skip(rng)
    jump = rng.uniform(0.26, 0.34)
    _skip(rng)
    return MotionFault(kind, _draw_window(rng, kind), jump, seed)


def _draw_window(rng: np.random.Generator, kind: str) -> range:
    """Return a random window of frames for a fault.

    Half of the windows lie strictly between two opening frames and hold the middle of them, so that
    only a judge that asks for frames can know of them. The other windows show in the opening
    frames. Half of those are the whole clip, except for the kinds that would not show then.
    """
    if rng.random() < 0.5:
        middle = int(rng.choice((32, 64, 96)))
        start = middle - int(rng.integers(9, 16))
        return range(start, middle + int(rng.integers(9, 16)))
    if kind == "frozen":  # Shows only if two opening frames lie in the window
        k = int(rng.integers(3))
        start = OPENING_FRAMES[k] - int(rng.integers(12))
        return range(start, OPENING_FRAMES[k + 1] + int(rng.integers(2, 15)))
    if kind != "jumpy" and rng.random() < 0.5:
        return range(FRAMES)
    shown = int(rng.choice(OPENING_FRAMES))
    start = max(0, shown - int(rng.integers(2, 40)))
    return range(start, min(FRAMES, shown + int(rng.integers(4, 40))))


def draw_scene(
    rng: np.random.Generator,
    facts: SceneFacts,
    picture_fault: PictureFault | None = None,
    motion_fault: MotionFault | None = None,
) -> Scene:
    """Return a random scene with a mostly visible solid and these faults."""
    background = _draw_background(rng, facts.ground)
    tries = [_place_solid(rng, facts, background)]
    while tries[-1][0] < 0.45 and len(tries) < 60:
        tries.append(_place_solid(rng, facts, background))
    _, scene = max(tries, key=itemgetter(0))
    fault, across = motion_fault, 1 if DIRECTIONS[facts.direction][0] else 0
    if fault and scene.start[across] >= 0.5:  # Towards the middle, so it stays in the picture
        fault = replace(fault, jump=-fault.jump)
    return replace(scene, picture_fault=picture_fault, motion_fault=fault)


def _draw_background(rng: np.random.Generator, ground: str) -> Background:
    """Return a random background; planks, tiles and ripples lie across the view."""
    return Background(
        ground=ground,
        variant=int(rng.integers(8)),
        rotation=rng.uniform(0, 2 * math.pi) if ground in ("grass", "marble") else 0.0,
        shift=(rng.random(), rng.random()),
        yaw=rng.uniform(-8, 8),
        pitch=rng.uniform(27, 36),
        brightness=rng.uniform(0.85, 1.1),
    )


def _place_solid(
    rng: np.random.Generator, facts: SceneFacts, background: Background
) -> tuple[float, Scene]:
    """Return (share of the solid visible in four of five frames, scene)."""
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
    still = _draw_still(rng) if rng.random() <= 0.25 else ()
    scene = Scene(facts, background, solid, spin, start, (right * length, closer * length), still)
    return sorted(scene.visible_share(index) for index in (8, 36, 64, 92, 120))[1], scene


def _draw_still(rng: np.random.Generator) -> tuple[Solid, ...]:
    """Return a small solid at the back, which does not move."""
    x = float(rng.choice([-1, 1])) * rng.uniform(1.6, 2.6)
    shape, rgb = str(rng.choice(SHAPES)), COLOURS[str(rng.choice(list(COLOURS)))]
    return (Solid(shape, rgb, 0.32, x, -3.8, rng.uniform(-0.3, 0.3)),)
