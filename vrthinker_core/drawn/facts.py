"""What a prompt asks for and what a scene shows, and the prompt in words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Whoever only reads the notes of a judge loads no numpy
    import numpy as np

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
SHAPES = ("ball", "cube", "cylinder", "cone", "ring")
GROUNDS = ("wood", "tiles", "grass", "sand", "marble")
PHOTO = "photo"  # What a photograph is called as a ground
DIRECTIONS = {"right": (1, 0), "left": (-1, 0), "away": (0, -1), "closer": (0, 1)}
"""Directions on the ground, (rightwards, towards the camera)."""
COUNT_WORDS = ("one", "two", "three", "four")
MAX_COUNT = len(COUNT_WORDS)  # Solids of one thing


@dataclass(frozen=True, slots=True)
class Thing:
    """Solids of one colour and shape that move as one."""

    colour: str
    shape: str
    count: int = 1  # 1 to MAX_COUNT

    @property
    def words(self) -> dict[str, str]:
        """Count, colour and shape in words."""
        count = COUNT_WORDS[self.count - 1]
        return {"count": count, "colour": self.colour, "shape": self.shape}

    def count_wrong(self, shown: Thing | None) -> int:
        """Return how many of count, colour and shape differ; a missing thing counts once."""
        return len(self.words.items() - shown.words.items()) if shown else 1


@dataclass(frozen=True, slots=True)
class SceneFacts:
    """The facts that a prompt asks for, or that a scene shows.

    Things have different colours and stand in the order of COLOURS, so that any single frame says
    which one is the first. Without a thing, a camera moves over a picture, and no direction is
    right or wrong.
    """

    things: tuple[Thing, ...]  # None, one or two
    direction: str
    ground: str

    def count_wrong(self, shown: SceneFacts) -> int:
        """Return how many facts are not as wanted here.

        Counts colour, shape and count of each thing, missing things, those too many, and the
        direction.
        """
        wrong = sum(map(Thing.count_wrong, self.things, self.match_things(shown)))
        too_many = max(0, len(shown.things) - len(self.things))
        return wrong + too_many + (self.direction != shown.direction)

    def match_things(self, shown: SceneFacts) -> tuple[Thing | None, ...]:
        """Return the shown thing that fits each wanted one best, None if missing."""
        padded = [*shown.things, *[None] * (len(self.things) - len(shown.things))]
        return min(
            permutations(padded, len(self.things)),
            key=lambda some: sum(map(Thing.count_wrong, self.things, some)),
        )


def in_order(*things: Thing) -> tuple[Thing, ...]:
    """Return the things in the order of COLOURS."""
    return tuple(sorted(things, key=lambda thing: list(COLOURS).index(thing.colour)))


PROMPTS = (
    "{things} {roll} {direction} over {ground}.",
    "{things} {move} {direction} across {ground}.",
    "{things} gliding {direction} over {ground}.",
    "On {ground}, {things} {slide} {direction}.",
    "a close shot of {ground} with {things} moving {direction}",
    "{ground} in the sun: {things} {drift} {direction}.",
    "Video of {things} going {direction} on {ground}.",
    "{things} {travel} {direction} on {ground}, seen from above.",
)
PLACE_PROMPTS = (
    "A camera moves over a real scene.",
    "A clip of a real scene.",
    "Video of a real place.",
    "A real place, filmed in one take.",
)
"""Of pairs without a thing."""
DIRECTION_WORDS = {
    "right": ("right", "to the right"),
    "left": ("left", "to the left"),
    "away": ("away", "away from the camera"),
    "closer": ("closer", "towards the camera"),
}


def write_prompt(rng: np.random.Generator, wanted: SceneFacts) -> str:
    """Return a prompt that asks for these facts, things in their order."""
    if not wanted.things:
        return str(rng.choice(PLACE_PROMPTS))
    rolls = all(thing.shape == "ball" for thing in wanted.things)
    wordings = PROMPTS if rolls else PROMPTS[1:]
    verbs = ("roll", "move", "slide", "drift", "travel")
    alone = len(wanted.things) == 1 and wanted.things[0].count == 1
    text = str(rng.choice(wordings)).format(
        things=" and ".join(map(name_thing, wanted.things)),
        direction=rng.choice(DIRECTION_WORDS[wanted.direction]),
        ground=name_ground(wanted.ground),
        **{verb: f"{verb}s" if alone else verb for verb in verbs},
    )
    return text[0].upper() + text[1:] if text.endswith(".") else text


def name_thing(thing: Thing) -> str:
    """Return a thing in words: "an orange ball", "three red cubes"."""
    if thing.count == 1:
        return f"{'an' if thing.colour[0] in 'aeiou' else 'a'} {thing.colour} {thing.shape}"
    return f"{COUNT_WORDS[thing.count - 1]} {thing.colour} {thing.shape}s"


def name_ground(ground: str) -> str:
    """Return a ground in words."""
    return f"a {ground}" if ground == PHOTO else ground
