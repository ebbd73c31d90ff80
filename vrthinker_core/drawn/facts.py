"""What a prompt asks for and what a scene shows, and the prompt in words."""

from __future__ import annotations

from dataclasses import dataclass
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
DIRECTIONS = {"right": (1, 0), "left": (-1, 0), "away": (0, -1), "closer": (0, 1)}
"""Directions on the ground, (rightwards, towards the camera)."""


@dataclass(frozen=True, slots=True)
class SceneFacts:
    """The facts that a prompt asks for, or that a scene shows: a solid moves on a ground."""

    colour: str
    shape: str
    direction: str
    ground: str

    @property
    def solid(self) -> str:
        """The solid in words: "an orange ball"."""
        return f"{'an' if self.colour[0] in 'aeiou' else 'a'} {self.colour} {self.shape}"

    def count_wrong(self, shown: SceneFacts) -> int:
        """Return how many of colour, shape and direction are not as wanted here."""
        return (
            (self.colour != shown.colour)
            + (self.shape != shown.shape)
            + (self.direction != shown.direction)
        )


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


def write_prompt(rng: np.random.Generator, wanted: SceneFacts) -> str:
    """Return a prompt that asks for these facts."""
    wordings = PROMPTS if wanted.shape == "ball" else PROMPTS[1:]
    text = str(rng.choice(wordings)).format(
        solid=wanted.solid,
        direction=rng.choice(DIRECTION_WORDS[wanted.direction]),
        ground=wanted.ground,
    )
    return text[0].upper() + text[1:] if text.endswith(".") else text
