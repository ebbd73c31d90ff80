"""Worlds and their pairs: what scenes hold, how they move, and the labels that follow from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from vrthinker_core.drawn.facts import (
    COLOURS,
    DIRECTIONS,
    MAX_COUNT,
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
from vrthinker_core.drawn.photographs import PHOTO, FlatView, Mover, photo_count
from vrthinker_core.drawn.renderer import Background, draw_background
from vrthinker_core.drawn.scene_renderer import SceneRenderer
from vrthinker_core.drawn.solids import SHAPES, Solid
from vrthinker_core.drawn.textures import GROUNDS, VARIANTS
from vrthinker_core.drawn.tone import draw_tone
from vrthinker_core.drawn.wear import REFERENCE_SIDE, STRETCHES, Wear, draw_wear
from vrthinker_core.types import Preference, Side, Verdict

SIZES = (
    (0.66, 0.95),
    (0.5, 0.62),
    (0.42, 0.52),
    (0.38, 0.46),
)  # Of solids, by the count of their thing
SMALLER = 0.84  # Solids of two things, against those of one
FORMATIONS: tuple[tuple[tuple[float, float], ...], ...] = (
    ((0, 0),),
    ((-1.3, 0.3), (1.3, -0.3)),
    ((-1.5, 0.8), (1.5, 0.8), (0, -1.5)),
    ((-1.9, 1.2), (-0.6, -1.4), (0.7, 1.2), (2.0, -1.4)),
)
"""Where the solids of a thing stand, by their count: (rightwards, towards the camera) in sizes of the solid."""
PLAIN_GROUNDS = tuple(
    ground for ground in GROUNDS if ground != "tiles"
)  # Tiles from near by look like blocks
LEAST_VISIBLE = 0.45  # Of every thing in most frames
CHECKED = (8, 36, 64, 92, 120)  # Frames in which that is looked at
MAX_TRIES = 60
STILL, SLOW = 0.1, 0.25  # Share of cameras that stand still, and of the others that hardly move
SLOWER = (0.05, 0.4)  # How fast those are, against the others


@dataclass(frozen=True, slots=True)
class World:
    """What pairs are drawn from. `FULL` has all there is, `SIMPLE` one solid of each thing and faults that are easy to see."""

    photos: Path | None = None  # A folder of photographs; procedural clouds stand in for them
    no_thing: float = 0.2  # Share of pairs in which a camera moves over a picture
    two_things: float = 0.4  # Share of the other pairs
    counts: tuple[float, ...] = (
        0.5,
        0.2,
        0.15,
        0.15,
    )  # Shares of things of one solid, two, three, four
    slowest: float = 0.45  # How far things go in a clip at least, as a share of the ground
    most_wrong: int = 3  # Facts of one video
    photo_ground: float = 0.15  # Share of grounds that are a photograph
    same_place: float = 0.5  # Share of pairs without a thing in which both videos show the same place on the same path
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
    """Random facts of a pair with things."""
    ground = PHOTO if rng.random() < world.photo_ground else str(rng.choice(GROUNDS))
    count = 2 if rng.random() < world.two_things else 1
    colours = rng.choice(list(COLOURS), count, replace=False)
    things = in_order(
        *(
            Thing(str(colour), str(rng.choice(SHAPES)), _draw_count(rng, world))
            for colour in colours
        )
    )
    return SceneFacts(things, str(rng.choice(list(DIRECTIONS))), ground)


def with_wrong(
    rng: np.random.Generator, wanted: SceneFacts, wrong: int, world: World
) -> SceneFacts:
    """The facts with `wrong` of them changed: another colour, shape, count or direction, or one of two things missing."""
    while True:
        shown = wanted
        for _ in range(wrong):
            shown = _with_change(rng, shown, world)
        if wanted.count_wrong(shown) == wrong:
            return shown


def draw_scene(
    rng: np.random.Generator,
    facts: SceneFacts,
    world: World,
    picture_fault: PictureFault | None = None,
    motion_fault: MotionFault | None = None,
) -> Scene:
    """A random scene with these things and these faults, in which each thing is mostly visible."""
    background = _draw_ground(rng, facts.ground, world)
    tries = (_place_things(rng, facts, background, world) for _ in range(MAX_TRIES))
    _, scene = max(_until_visible(tries), key=lambda tried: tried[0])
    fault = motion_fault
    across = 1 if DIRECTIONS[facts.direction][0] else 0
    if fault and np.mean([group.start[across] for group in scene.groups]) >= 0.5:
        fault = replace(
            fault, jump=-fault.jump
        )  # Towards the middle, so the things stay in the picture
    return replace(scene, picture_fault=picture_fault, motion_fault=fault)


def draw_view(rng: np.random.Generator, world: World) -> FlatView:
    """A random camera path over a photograph, or over a ground's texture one time in six.

    Some cameras hardly move, as in real clips: there a fault is nearly all the motion that is to be seen.
    """
    ground, still = rng.random() < 1 / 6, rng.random() < STILL
    speed = rng.uniform(*SLOWER) if rng.random() < SLOW else 1.0
    right, down = (speed * length for length in _draw_travel(rng))
    grows = rng.random() < 0.5
    return FlatView(
        picture=str(rng.choice(PLAIN_GROUNDS)) if ground else PHOTO,
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
        tone=draw_tone(rng),
    )


def _draw_travel(rng: np.random.Generator) -> tuple[float, float]:
    angle, length = rng.uniform(0, 2 * math.pi), rng.uniform(0.15, 0.6)
    return length * math.cos(angle), length * math.sin(angle) / 2


def _draw_mover(rng: np.random.Generator, world: World) -> Mover:
    number, middle = (
        int(rng.integers(photo_count(world.photos))),
        rng.uniform(0.35, 0.65, 2).tolist(),
    )
    return Mover(number, rng.uniform(0.25, 0.5), (middle[0], middle[1]), _draw_travel(rng))


def _until_visible(tries: Iterator[tuple[float, Scene]]) -> Iterator[tuple[float, Scene]]:
    """The tries, up to the first one that shows enough of every thing."""
    for tried in tries:
        yield tried
        if tried[0] >= LEAST_VISIBLE:
            return


def _place_things(
    rng: np.random.Generator, facts: SceneFacts, background: Background, world: World
) -> tuple[float, Scene]:
    """(the share of the least visible thing in the second worst of the checked frames, the scene)."""
    right, closer = DIRECTIONS[facts.direction]
    sizes = [
        rng.uniform(*SIZES[thing.count - 1]) * (SMALLER if len(facts.things) > 1 else 1)
        for thing in facts.things
    ]
    width = max(size * _half_width(thing) for thing, size in zip(facts.things, sizes, strict=True))
    length = (
        rng.uniform(world.slowest + 0.05, 0.74) - 0.12 * min(1, width / 2)
        if right
        else rng.uniform(world.slowest, 0.74)
    )
    along = 0.5 - length / 2 + rng.uniform(-0.02, 0.02)
    along = 1 - along if right + closer < 0 else along
    across = rng.uniform(0.25, 0.75)
    places = _draw_places(rng, facts, sizes)
    start = (along, across) if right else (across, along)
    groups = tuple(
        _draw_group(rng, thing, size, (start[0] + place[0] / WIDTH, start[1] + place[1] / DEPTH))
        for thing, size, place in zip(facts.things, sizes, places, strict=True)
    )
    scene = Scene(
        facts, background, groups, _draw_bystander(rng), (right * length, closer * length)
    )
    shares = sorted(min(scene.visible_shares(index)) for index in CHECKED)
    return shares[1], scene


def _draw_places(
    rng: np.random.Generator, facts: SceneFacts, sizes: list[float]
) -> list[tuple[float, float]]:
    """Where the middles of one or two things stand: two at different depths, so that one may hide part of the other."""
    if len(sizes) == 1:
        return [(0.0, 0.0)]
    reach = sum(size * _half_width(thing) for thing, size in zip(facts.things, sizes, strict=True))
    depth, side = rng.uniform(0.8, 2.2), rng.uniform(0.1, 0.9) * reach
    place = (float(rng.choice([-1, 1])) * side / 2, float(rng.choice([-1, 1])) * depth / 2)
    return [place, (-place[0], -place[1])]


def _half_width(thing: Thing) -> float:
    """Half of a thing's width, in sizes of its solids."""
    return 1 + max(right for right, _ in FORMATIONS[thing.count - 1])


def _draw_group(
    rng: np.random.Generator, thing: Thing, size: float, start: tuple[float, float]
) -> Formation:
    tint = np.clip(np.array(COLOURS[thing.colour]) + rng.integers(-14, 15, 3), 0, 255).tolist()
    mirror = float(rng.choice([-1, 1]))
    rotation = rng.uniform(-0.35, 0.35)
    solids = tuple(
        Solid(thing.shape, tuple(tint), size, mirror * right * size, closer * size, rotation)
        for right, closer in FORMATIONS[thing.count - 1]
    )
    return Formation(solids, rng.uniform(-1, 1) if thing.shape == "cube" else 0.0, start)


def _draw_bystander(rng: np.random.Generator) -> tuple[Solid, ...]:
    """One time in four a small solid at the back, which does not move."""
    if rng.random() > 0.25:
        return ()
    x = float(rng.choice([-1, 1])) * rng.uniform(1.6, 2.6)
    return (
        Solid(
            str(rng.choice(SHAPES)),
            COLOURS[str(rng.choice(list(COLOURS)))],
            0.32,
            x,
            -3.8,
            rng.uniform(-0.3, 0.3),
        ),
    )


def _draw_ground(rng: np.random.Generator, ground: str, world: World) -> Background:
    if ground != PHOTO:
        return draw_background(rng, ground)
    number = int(rng.integers(photo_count(world.photos)))
    return replace(draw_background(rng, "grass"), ground=PHOTO, variant=number, photos=world.photos)


def _draw_count(rng: np.random.Generator, world: World) -> int:
    return int(rng.choice(len(world.counts), p=world.counts)) + 1


def _with_change(rng: np.random.Generator, facts: SceneFacts, world: World) -> SceneFacts:
    """The facts with one change."""
    kinds = [
        "colour",
        "shape",
        "direction",
        *["count"] * (len(world.counts) > 1),
        *["missing"] * (len(facts.things) > 1),
    ]
    kind = str(rng.choice(kinds))
    if kind == "direction":
        return replace(facts, direction=_other(rng, DIRECTIONS, facts.direction))
    place = int(rng.integers(len(facts.things)))
    thing, rest = facts.things[place], facts.things[:place] + facts.things[place + 1 :]
    if kind == "missing":
        return replace(facts, things=rest)
    if kind == "colour":
        free = [
            colour for colour in COLOURS if colour not in {other.colour for other in facts.things}
        ]
        return replace(facts, things=in_order(*rest, replace(thing, colour=str(rng.choice(free)))))
    if kind == "shape":
        return replace(
            facts, things=in_order(*rest, replace(thing, shape=_other(rng, SHAPES, thing.shape)))
        )
    counts = [count for count in range(1, MAX_COUNT + 1) if count != thing.count]
    return replace(facts, things=in_order(*rest, replace(thing, count=int(rng.choice(counts)))))


def _other(rng: np.random.Generator, words: Iterable[str], word: str) -> str:
    return str(rng.choice([other for other in words if other != word]))


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
