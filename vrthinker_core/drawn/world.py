"""Worlds and their pairs: what scenes hold, how they move, and the labels that follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from vrthinker_core.drawn.colour_grade import draw_colour_grade
from vrthinker_core.drawn.damage import REFERENCE_SIDE, STRETCHES, CodecNoise, draw_codec_noise
from vrthinker_core.drawn.facts import (
    COLOURS,
    DIRECTIONS,
    GROUNDS,
    MAX_COUNT,
    PHOTO,
    SHAPES,
    SceneFacts,
    Thing,
    in_order,
    write_prompt,
)
from vrthinker_core.drawn.faults import (
    FaultRanges,
    MotionFault,
    PictureFault,
    draw_motion_fault,
    draw_picture_fault,
)
from vrthinker_core.drawn.moving_scene import DEPTH, WIDTH, Formation, Scene
from vrthinker_core.drawn.photographs import FlatView, Mover, photo_count
from vrthinker_core.drawn.renderer import Background, draw_background
from vrthinker_core.drawn.solids import Solid
from vrthinker_core.drawn.textures import VARIANTS
from vrthinker_core.types import Preference, Side, Verdict

# Of solids, by the count of their thing
SIZES = ((0.66, 0.95), (0.5, 0.62), (0.42, 0.52), (0.38, 0.46))
FORMATIONS: tuple[tuple[tuple[float, float], ...], ...] = (
    ((0, 0),),
    ((-1.3, 0.3), (1.3, -0.3)),
    ((-1.5, 0.8), (1.5, 0.8), (0, -1.5)),
    ((-1.9, 1.2), (-0.6, -1.4), (0.7, 1.2), (2.0, -1.4)),
)
"""Positions of a thing's solids by their count, (rightwards, towards the camera) in their size."""


@dataclass(frozen=True, slots=True)
class World:
    """The ranges that pairs are drawn from.

    `FULL` has everything, `SIMPLE` one solid of each thing and faults that are easy to see.
    """

    photos: Path | None = None  # A folder of photographs; procedural clouds stand in for them
    no_thing: float = 0.2  # Share of pairs in which a camera moves over a picture
    two_things: float = 0.4  # Share of the other pairs
    counts: tuple[float, ...] = (0.5, 0.2, 0.15, 0.15)  # Shares of things of 1, 2, 3 and 4 solids
    slowest: float = 0.45  # How far things go in a clip at least, as a share of the ground
    most_wrong: int = 3  # Facts of one video
    photo_ground: float = 0.15  # Share of grounds that are a photograph
    same_place: float = 0.5  # Share of pairs without a thing with one place and path in both videos
    worn: float = 0.7  # Share of pairs whose frames went through a codec and the product's resizing
    h264: float = 0.08  # Share of those for which it is H.264
    faults: FaultRanges = field(default_factory=FaultRanges)


FULL = World()
SIMPLE = World(
    no_thing=0.0,
    two_things=0.0,
    counts=(1.0,),
    slowest=0.62,
    most_wrong=1,
    photo_ground=0.0,
    worn=0.0,
    faults=FaultRanges(
        faintest=0.0,
        grains=(REFERENCE_SIDE,),
        fades=0.0,
        jitter=(1.0, 1.0),
        jump=(0.26, 0.34),
        skips=0.0,
        whole=0.0,
        middles=(32, 64, 96),
        reach=(9, 16),
    ),
)


def draw_facts(rng: np.random.Generator, world: World) -> SceneFacts:
    """Return random facts of a pair with things."""
    ground = PHOTO if rng.random() < world.photo_ground else str(rng.choice(GROUNDS))
    count, counts = 2 if rng.random() < world.two_things else 1, world.counts
    things = [
        Thing(str(colour), str(rng.choice(SHAPES)), int(rng.choice(len(counts), p=counts)) + 1)
        for colour in rng.choice(list(COLOURS), count, replace=False)
    ]
    return SceneFacts(in_order(*things), str(rng.choice(list(DIRECTIONS))), ground)


def with_wrong(
    rng: np.random.Generator, wanted: SceneFacts, wrong: int, world: World
) -> SceneFacts:
    """Return the facts with `wrong` of them changed.

    A change is another colour, shape, count or direction, or leaves out one of two things.
    """
    while True:
        shown = wanted
        for _ in range(wrong):
            shown = _with_change(rng, shown, world)
        if wanted.count_wrong(shown) == wrong:
            return shown


def _with_change(rng: np.random.Generator, facts: SceneFacts, world: World) -> SceneFacts:
    kinds = ["colour", "shape", "direction"]
    kinds += ["count"] * (len(world.counts) > 1) + ["missing"] * (len(facts.things) > 1)
    kind = str(rng.choice(kinds))
    if kind == "direction":
        return replace(facts, direction=_other(rng, DIRECTIONS, facts.direction))
    place = int(rng.integers(len(facts.things)))
    thing, rest = facts.things[place], facts.things[:place] + facts.things[place + 1 :]
    if kind == "missing":
        return replace(facts, things=rest)
    if kind == "colour":
        used = {other.colour for other in facts.things}
        free = [colour for colour in COLOURS if colour not in used]
        changed = replace(thing, colour=str(rng.choice(free)))
    elif kind == "shape":
        changed = replace(thing, shape=_other(rng, SHAPES, thing.shape))
    else:
        counts = [count for count in range(1, MAX_COUNT + 1) if count != thing.count]
        changed = replace(thing, count=int(rng.choice(counts)))
    return replace(facts, things=in_order(*rest, changed))


def _other(rng: np.random.Generator, words: Iterable[str], word: str) -> str:
    return str(rng.choice([other for other in words if other != word]))


def draw_scene(
    rng: np.random.Generator,
    facts: SceneFacts,
    world: World,
    picture_fault: PictureFault | None = None,
    motion_fault: MotionFault | None = None,
) -> Scene:
    """Return a random scene with mostly visible things and these faults."""
    number = int(rng.integers(photo_count(world.photos))) if facts.ground == PHOTO else None
    background = draw_background(rng, facts.ground if number is None else "grass")
    if number is not None:
        background = replace(background, ground=PHOTO, variant=number, photos=world.photos)
    share, scene = _place_things(rng, facts, background, world)
    for _ in range(59):
        if share >= 0.45:
            break
        other = _place_things(rng, facts, background, world)
        share, scene = other if other[0] > share else (share, scene)
    fault, across = motion_fault, 1 if DIRECTIONS[facts.direction][0] else 0
    if fault and np.mean([group.start[across] for group in scene.groups]) >= 0.5:
        # Towards the middle, so the things stay in the picture
        fault = replace(fault, jump=-fault.jump)
    return replace(scene, picture_fault=picture_fault, motion_fault=fault)


def _place_things(
    rng: np.random.Generator, facts: SceneFacts, background: Background, world: World
) -> tuple[float, Scene]:
    """Return (visible share, scene).

    The share is of the least visible thing in the second worst of five frames.
    """
    right, closer = DIRECTIONS[facts.direction]
    smaller = 0.84 if len(facts.things) > 1 else 1
    sizes = [rng.uniform(*SIZES[thing.count - 1]) * smaller for thing in facts.things]
    halves = [  # Of the widths of the things
        size * (1 + max(x for x, _ in FORMATIONS[thing.count - 1]))
        for thing, size in zip(facts.things, sizes, strict=True)
    ]
    length = rng.uniform(world.slowest + (0.05 if right else 0), 0.74)
    length -= 0.12 * min(1, max(halves) / 2) if right else 0
    along = 0.5 - length / 2 + rng.uniform(-0.02, 0.02)
    along = 1 - along if right + closer < 0 else along
    across = rng.uniform(0.25, 0.75)
    start = (along, across) if right else (across, along)
    middles = [(0.0, 0.0)]
    if len(sizes) > 1:  # At different depths, so that one may hide part of the other
        depth, side = rng.uniform(0.8, 2.2), rng.uniform(0.1, 0.9) * sum(halves)
        x, z = float(rng.choice([-1, 1])) * side / 2, float(rng.choice([-1, 1])) * depth / 2
        middles = [(x, z), (-x, -z)]
    groups = []
    for thing, size, (x, z) in zip(facts.things, sizes, middles, strict=True):
        tint = np.clip(np.array(COLOURS[thing.colour]) + rng.integers(-14, 15, 3), 0, 255).tolist()
        mirror, rotation = float(rng.choice([-1, 1])) * size, rng.uniform(-0.35, 0.35)
        solids = tuple(
            Solid(thing.shape, tuple(tint), size, mirror * sideways, forwards * size, rotation)
            for sideways, forwards in FORMATIONS[thing.count - 1]
        )
        spin = rng.uniform(-1, 1) if thing.shape == "cube" else 0.0
        groups.append(Formation(solids, spin, (start[0] + x / WIDTH, start[1] + z / DEPTH)))
    bystanders: tuple[Solid, ...] = ()
    if rng.random() <= 0.25:  # A small solid at the back, which does not move
        x = float(rng.choice([-1, 1])) * rng.uniform(1.6, 2.6)
        shape, rgb = str(rng.choice(SHAPES)), COLOURS[str(rng.choice(list(COLOURS)))]
        bystanders = (Solid(shape, rgb, 0.32, x, -3.8, rng.uniform(-0.3, 0.3)),)
    travel = (right * length, closer * length)
    scene = Scene(facts, background, tuple(groups), bystanders, travel)
    return sorted(min(scene.visible_shares(index)) for index in (8, 36, 64, 92, 120))[1], scene


def draw_view(rng: np.random.Generator, world: World) -> FlatView:
    """Return a random camera path over a photograph or a ground.

    One in six is over a ground's texture. One camera in ten stands still. A quarter of the others
    hardly move, as in real clips: there a fault is nearly all the motion that can be seen.
    """
    ground, still = rng.random() < 1 / 6, rng.random() < 0.1
    speed = rng.uniform(0.05, 0.4) if rng.random() < 0.25 else 1.0
    right, down = (speed * length for length in _draw_travel(rng))
    grows = rng.random() < 0.5
    # Tiles from near by look like blocks
    grounds = [name for name in GROUNDS if name != "tiles"]
    return FlatView(
        picture=str(rng.choice(grounds)) if ground else PHOTO,
        number=int(rng.integers(VARIANTS if ground else photo_count(world.photos))),
        photos=world.photos,
        center=(rng.uniform(0.35, 0.65), rng.uniform(0.4, 0.6)),
        side=rng.uniform(0.35, 0.95),
        travel=(0.0, 0.0, 0.0)
        if still
        else (right, down, speed * rng.uniform(-0.3, 0.3) if grows else 0.0),
        mirrored=bool(rng.random() < 0.5),
        stretch=float(rng.choice(STRETCHES)),
        sway=float(rng.choice([0.0, rng.uniform(0, 0.012)])),
        mover=_draw_mover(rng, world) if still or rng.random() < 0.3 else None,
        colour_grade=draw_colour_grade(rng),
    )


def _draw_travel(rng: np.random.Generator) -> tuple[float, float]:
    angle, length = rng.uniform(0, 2 * math.pi), rng.uniform(0.15, 0.6)
    return length * math.cos(angle), length * math.sin(angle) / 2


def _draw_mover(rng: np.random.Generator, world: World) -> Mover:
    number, (x, y) = int(rng.integers(photo_count(world.photos))), rng.uniform(0.35, 0.65, 2)
    return Mover(number, rng.uniform(0.25, 0.5), (float(x), float(y)), _draw_travel(rng))


# Seeds of pairs to train with lie below; from here on pairs are for measuring alone
TRAINING_SEEDS = 2_000_000_000
FREEZES = 0.2  # How far a view moves in a clip, in its own sides, if a freeze is to be seen


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A prompt and two scenes."""

    seed: int
    prompt: str
    wanted: SceneFacts
    first: Scene
    second: Scene
    # Of both videos, if frames are drawn without a file in between
    codec_noise: CodecNoise | None = None

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


def draw_pair(seed: int, world: World = SIMPLE) -> DrawnPair:
    """Return the drawn pair of a seed >= 0 in a world.

    In each dimension the first, the second or neither side wins with equal chance. If neither wins,
    both are flawed one time in four, except for TA in pairs without a thing: their cameras move
    over pictures, sometimes over the same one on the same path.

    Raises `BadInput` for a folder without photographs.
    """
    rng = np.random.default_rng((seed, 2))
    views: list[FlatView] = []
    if rng.random() < world.no_thing:
        wanted = SceneFacts((), "", PHOTO)
        views = [draw_view(rng, world), draw_view(rng, world)]
        views = views[:1] * 2 if rng.random() < world.same_place else views
    else:
        wanted, wrong = draw_facts(rng, world), _draw_wrong_counts(rng, world.most_wrong)
        shown = [with_wrong(rng, wanted, count, world) for count in wrong]
    picture, motion = _draw_flawed_sides(rng), _draw_flawed_sides(rng)
    scenes = []
    for side in (0, 1):
        picture_fault = draw_picture_fault(rng, world.faults) if picture[side] else None
        motion_fault = None
        if motion[side]:
            whole = bool(rng.random() < (0.5 if views else world.faults.whole))
            freezes = not views or float(np.linalg.norm(views[side].pace)) >= FREEZES
            motion_fault = draw_motion_fault(rng, world.faults, whole=whole, freezes=freezes)
        if views:
            scene = Scene(wanted, None, view=views[side])
            scene = replace(scene, picture_fault=picture_fault, motion_fault=motion_fault)
        else:
            scene = draw_scene(rng, shown[side], world, picture_fault, motion_fault)
        scenes.append(scene)
    prompt = write_prompt(rng, wanted)
    codec_noise = draw_codec_noise(rng, world.h264) if rng.random() < world.worn else None
    return DrawnPair(seed, prompt, wanted, scenes[0], scenes[1], codec_noise)


def _draw_flawed_sides(rng: np.random.Generator) -> tuple[bool, bool]:
    """Return which sides are flawed in one dimension."""
    better = Preference(int(rng.integers(3)))
    if better is Preference.TIE:
        both = bool(rng.random() < 0.25)
        return both, both
    return better is Preference.SECOND, better is Preference.FIRST


def _draw_wrong_counts(rng: np.random.Generator, most: int) -> tuple[int, int]:
    """Return how many facts are wrong on each side, at most `most`.

    One time in four both sides are flawed, one of them more.
    """
    first, second = _draw_flawed_sides(rng)
    least = int(rng.integers(1, most)) if most > 1 and rng.random() < 0.25 else 0
    if first and second:
        return max(1, least), max(1, least)
    more = least + 1 if rng.random() < 0.8 else most
    return (more, least) if first else (least, more) if second else (0, 0)
