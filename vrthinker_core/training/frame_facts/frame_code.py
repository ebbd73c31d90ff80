"""The frame code: what the tower tells the language model of one frame, along fixed orthonormal directions.

The vision tower is trained to emit it and the language model to read it. It is fixed, so both can be trained at the same time, the
language model without a single picture. A frame takes four tokens, and all four carry the same facts. Where no drawn thing is to be
seen, two places are told of a frame, where the light of its upper half is and that of its lower half: all motion is read from
places, because no model of this size learnt to compare two pictures by anything that is not written down.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from vrthinker_core.dialects.reading.frame_facts import COLOURS, GROUNDS, PICTURES, SHAPES

Floats = NDArray[np.floating[Any]]
Place = tuple[float, float]  # 0..1 rightwards and downwards
Places = tuple[Place, ...]

TOKENS = 4  # Of a picture: its quadrants, row by row
STATES = PICTURES
COUNTS = (1, 2, 3, 4)
BUMPS = 14  # Numbers that say where a thing is along one axis
BUMP_WIDTH = 0.085  # Standard deviation of a bump, as a share of the picture
CELLS = 8  # Per side of a picture in which its light is looked for
LIGHT_GAIN = 0.2  # Of the light: how steeply it moves with the brightness of one side, in display levels
SEED = 7  # Of the basis

_CENTRES = (np.arange(BUMPS) + 0.5) / BUMPS
_SIZES = {
    "colour": 8, "shape": 6, "state": 7, "ground": 6, "x": BUMPS, "y": BUMPS, "present": 1, "count": 4,
    "colour 2": 8, "shape 2": 6, "count 2": 4, "x 2": BUMPS, "y 2": BUMPS, "present 2": 1,
}  # fmt: skip
_STARTS = np.cumsum([0, *_SIZES.values()]).tolist()
PARTS = {name: slice(start, start + size) for (name, size), start in zip(_SIZES.items(), _STARTS, strict=False)}
"""The numbers of a code by what they say; those of the second thing end in 2."""
SIZE = _STARTS[-1]


@dataclass(frozen=True, slots=True)
class SeenThing:
    """A thing as one frame shows it."""

    colour: str
    shape: str
    count: int
    x: float  # The middle of its solids: 0..1 rightwards and downwards in the picture
    y: float


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """What one frame shows."""

    things: tuple[SeenThing | None, ...]  # At most two; None for one that is hidden or out of the picture
    light: Places = field(default=(), kw_only=True)  # Of the upper and of the lower half, in a scene without things
    state: str  # Of the picture: one of STATES
    ground: str


def basis(hidden: int) -> torch.Tensor:
    """The directions of the code's numbers: orthonormal rows [SIZE, hidden]. `hidden` >= SIZE."""
    square = torch.randn(hidden, hidden, generator=torch.Generator().manual_seed(SEED), dtype=torch.float64)
    rows: torch.Tensor = torch.linalg.qr(square)[0][:SIZE].float()
    return rows


def bumps(place: float | Floats, unsure: float = 0.0) -> Floats:
    """A place along one axis as BUMPS numbers (a place [n] as [n, BUMPS]).

    With the standard deviation of an `unsure` place, what they are on average: lower, over more numbers.
    """
    width = math.hypot(BUMP_WIDTH, unsure)
    numbers: Floats = BUMP_WIDTH / width * np.exp(-0.5 * ((np.asarray(place)[..., None] - _CENTRES) / width) ** 2)
    return numbers


def place_of(numbers: Floats) -> Floats:
    """The places [n] whose bumps are nearest to `numbers` [n, BUMPS]."""
    grid = np.linspace(0, 1, 201)
    nearest: Floats = grid[((numbers[:, None] - bumps(grid)[None]) ** 2).sum(-1).argmin(1)]
    return nearest


def read_light(code: Floats) -> list[Places]:
    """Where the light of both halves is that the codes [n, SIZE] tell of, frame by frame."""
    read = [place_of(code[:, PARTS[part]]).tolist() for part in ("x", "y", "x 2", "y 2")]
    return [((right, down), (right_2, down_2)) for right, down, right_2, down_2 in zip(*read, strict=True)]


def encode_facts(facts: FrameFacts) -> Floats:
    """The code of a frame, [SIZE]."""
    code = np.zeros(SIZE, np.float32)
    code[PARTS["state"].start + STATES.index(facts.state)] = 1
    code[PARTS["ground"].start + GROUNDS.index(facts.ground)] = 1
    for suffix, thing in zip(("", " 2"), facts.things, strict=False):
        if thing is not None:
            _encode_thing(code, suffix, thing)
    for suffix, place in zip(("", " 2"), facts.light, strict=False):
        code[PARTS["x" + suffix]], code[PARTS["y" + suffix]] = (bumps(along) for along in place)
    return code


def _encode_thing(code: Floats, suffix: str, thing: SeenThing) -> None:
    for name, pool, value in (("colour", COLOURS, thing.colour), ("shape", SHAPES, thing.shape), ("count", COUNTS, thing.count)):
        code[PARTS[name + suffix].start + pool.index(value)] = 1
    code[PARTS["x" + suffix]], code[PARTS["y" + suffix]] = bumps(thing.x), bumps(thing.y)
    code[PARTS["present" + suffix]] = 1


def light_of(picture: NDArray[np.uint8]) -> Places:
    """Where the light of the upper half of a picture RGB [h, w, 3] is and that of the lower half, each 0..1 in its own half.

    It is nearer to a side the brighter that is. It moves as the picture does, and a tower learns it soon: but for its last step it
    is a weighted sum of the brightness of cells.
    """
    cells = cv2.resize(picture, (CELLS, CELLS), interpolation=cv2.INTER_AREA).astype(np.float32).mean(-1)
    return tuple((_light_along(half.mean(0)), _light_along(half.mean(1))) for half in np.split(cells, 2))


def _light_along(brightness: Floats) -> float:
    """Where along one axis the light of cells [n] is, in display levels: 0.5 where both of its ends are as bright."""
    middles = (np.arange(len(brightness)) + 0.5) / len(brightness) - 0.5
    return float(0.5 + 0.5 * np.tanh(LIGHT_GAIN * (brightness - brightness.mean()) @ middles / len(brightness)))
