"""What a prompt asks for and what a scene shows, in words: things, the direction in which they move, the ground."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

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
MAX_COUNT = 4  # Solids of one thing


@dataclass(frozen=True, slots=True)
class Thing:
    """Solids of one colour and one shape that move as one: "three red balls"."""

    colour: str
    shape: str
    count: int = 1  # 1 to MAX_COUNT

    def count_wrong(self, shown: Thing) -> int:
        """How many of colour, shape and count are not as wanted here, 0..3."""
        return sum(
            (self.colour != shown.colour, self.shape != shown.shape, self.count != shown.count)
        )


@dataclass(frozen=True, slots=True)
class SceneFacts:
    """What a prompt asks for, or what a scene shows.

    Things have different colours and stand in the order of COLOURS, so that any single frame says which one is the first.
    Without a thing, a camera moves over a picture, and there is no direction to be right or wrong.
    """

    things: tuple[Thing, ...]  # None, one or two
    direction: str
    ground: str

    def __post_init__(self) -> None:
        places = [list(COLOURS).index(thing.colour) for thing in self.things]
        if places != sorted(set(places)):
            raise ValueError("Things have different colours, in the order of COLOURS.")

    def count_wrong(self, shown: SceneFacts) -> int:
        """How many facts are not as wanted here: colour, shape and count of each thing, a thing that is missing, the direction.

        Which thing stands for which is taken as it fits best.
        """
        fewer, more = sorted((self.things, shown.things), key=len)
        wrong = min(
            sum(a.count_wrong(b) for a, b in zip(fewer, some, strict=True))
            for some in permutations(more, len(fewer))
        )
        return wrong + len(more) - len(fewer) + (self.direction != shown.direction)


def in_order(*things: Thing) -> tuple[Thing, ...]:
    """The things in the order of COLOURS."""
    return tuple(sorted(things, key=lambda thing: list(COLOURS).index(thing.colour)))
