"""The drawn world: scenes of 128 frames with their faults, and random pairs with true labels.

A bare `rng.random()` skips a number that earlier versions used, so that seeds keep their pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from operator import itemgetter

import numpy as np

from vrthinker_core.drawn.notes import (
    CLEAR,
    COLOURS,
    DIRECTIONS,
    FACT_KINDS,
    GROUNDS,
    PICTURES,
    SHAPES,
    SceneFacts,
)
from vrthinker_core.drawn.solids import FORMS, Camera, Floats, Solid
from vrthinker_core.types import Preference, Side, Verdict

FRAMES = 128  # Frames of a clip, as many as a `paired` judge can ask for
# Seeds of pairs to train with lie below; from here on pairs are for measuring alone
TRAINING_SEEDS = 2_000_000_000
OPENING_FRAMES = (16, 48, 80, 112)  # The frames that a `paired` judge is shown before it asks
PICTURE_FAULTS = (*PICTURES[1:], "flicker")  # Flicker: runs of three frames are dark or bright
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
# World units that the ground's coordinates 0..1 cover, sideways and towards the camera
WIDTH, DEPTH = 5.2, 6.4
_LINE = np.linspace(-0.9, 0.9, 7)  # Points spread evenly over a disc of radius 1
_DISC = np.array([(x, y) for x in _LINE for y in _LINE if x * x + y * y <= 1])
_camera = lru_cache(maxsize=64)(partial(Camera, size=1))  # Computes the axes of each once


@dataclass(frozen=True, slots=True)
class Background:
    """The texture of the ground, camera and light of all frames of a clip."""

    variant: int  # Which of the ground's textures
    rotation: float  # Of the texture, radians
    shift: tuple[float, float]  # Of the texture, in its own extents
    yaw: float  # Of the camera, degrees
    pitch: float
    brightness: float  # Of all light, about 1


@dataclass(frozen=True, slots=True)
class Fault:
    """Damage to the pictures or to the motion of the frames in a window."""

    kind: str  # One of PICTURE_FAULTS or MOTION_FAULTS
    window: range
    strength: float  # From 0 to 1 (obvious); a jump's share of the ground's width
    seed: int  # Of noise, flicker and jitter


@dataclass(frozen=True, slots=True)
class Scene:
    """A clip of a solid that moves on a ground."""

    facts: SceneFacts
    background: Background
    moving: Solid  # As it stands at the clip's start, but in the middle of the ground
    spin: float  # How far it rotates during the clip, radians
    # Its first position: ground coordinates, 0..1 rightwards and towards the camera
    start: tuple[float, float]
    travel: tuple[float, float]  # During the clip, in the ground's coordinates
    still: tuple[Solid, ...]  # Solids at the back that do not move
    picture_fault: Fault | None = None
    motion_fault: Fault | None = None

    def position(self, index: int) -> tuple[float, float]:
        """Return the solid's middle in frame `index`, in ground coordinates."""
        time, sideways = self._time_and_offset(index)
        x, y = self.start[0] + time * self.travel[0], self.start[1] + time * self.travel[1]
        return (x, y + sideways) if self.travel[0] else (x + sideways, y)

    def solids(self, index: int) -> tuple[Solid, ...]:
        """Return all solids of frame `index`; the last one moves."""
        x, y = self.position(index)
        x, z = (x - 0.5) * WIDTH, (y - 0.55) * DEPTH
        turned = self.moving.rotation + self.spin * self._time_and_offset(index)[0]
        return (*self.still, replace(self.moving, x=x, z=z, rotation=turned))

    def picture_state(self, index: int) -> str:
        """Return the state of frame `index`, one of `notes.PICTURES`."""
        fault = self.picture_fault
        if not fault or index not in fault.window:
            return CLEAR
        if fault.kind != "flicker":
            return fault.kind
        dark = np.random.default_rng((fault.seed, 0, index // 3)).random() < 0.5
        return "dark" if dark else "bright"

    def place(self, index: int) -> tuple[float, float] | None:
        """Return the solid's middle as an image point, None if it has left."""
        if self.visible_share(index) < 0.1:
            return None
        solid = self.solids(index)[-1]
        # Most of a cone is near the ground
        height = (0.32 if solid.shape == "cone" else 0.5) * FORMS[solid.shape][2] * solid.size
        x, y = self._project(np.array([(solid.x, height, solid.z)], np.float32))[0].tolist()
        return x, y

    def visible_share(self, index: int) -> float:
        """Estimate the share of the solid, as an ellipse, in the picture."""
        corners = self._project(self.solids(index)[-1].corners)
        low, high = corners.min(0), corners.max(0)
        # A solid covers less than the box of all its rotations
        points = (low + high) / 2 + _DISC * ((high - low) / 2 * np.float32(0.85))
        return float(((points >= 0) & (points <= 1)).all(-1).mean())

    def _project(self, positions: Floats) -> Floats:
        return _camera(self.background.yaw, self.background.pitch).project(positions)

    def _time_and_offset(self, index: int) -> tuple[float, float]:
        """Return (time, sideways offset) of frame `index`; the clip takes time 0..1."""
        time, fault = index / (FRAMES - 1), self.motion_fault
        if not fault or index not in fault.window:
            return time, 0.0
        if fault.kind == "frozen":
            return fault.window.start / (FRAMES - 1), 0.0
        if fault.kind == "jumpy":
            return time, fault.strength
        rng = np.random.default_rng((fault.seed, index))
        time += rng.uniform(-0.02, 0.02)
        return time, rng.choice([-1.0, 1.0]) * rng.uniform(0.11, 0.17)


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A prompt and the scenes of both videos."""

    seed: int
    prompt: str
    wanted: SceneFacts
    scenes: Mapping[Side, Scene]

    @property
    def wrong(self) -> list[int]:
        """The number of wrong facts in each video."""
        return [
            sum(getattr(self.wanted, kind) != getattr(scene.facts, kind) for kind in FACT_KINDS)
            for scene in self.scenes.values()
        ]

    @property
    def verdict(self) -> Verdict:
        """The true labels: the side with fewer wrong facts or faults wins."""
        scenes = self.scenes.values()
        return self.labels([(scene.picture_fault, scene.motion_fault) for scene in scenes])

    def labels(self, flaws: Iterable[tuple[object, object]]) -> Verdict:
        """Return the labels for flaws of (picture, motion) of each video, falsy for none.

        Overall, text alignment counts half as much again.
        """
        pictures, motions = (tuple(map(bool, both)) for both in zip(*flaws, strict=True))
        ta, vq, mq = (two - one for one, two in (self.wrong, pictures, motions))
        leads = {"TA": ta, "VQ": vq, "MQ": mq, "OA": 1.5 * np.sign(ta) + vq + mq}
        # A tie is 0, the first video 1, the second one 2
        return Verdict(**{name: Preference(int(np.sign(lead)) % 3) for name, lead in leads.items()})


def pair_of(seed: int, number: int, below: int = 1 << 64) -> DrawnPair:
    """Return pair `number` of a run with `seed`; its own seed lies below `below`."""
    state = np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)
    return draw_pair(int(state[0]) % below)


def draw_pair(seed: int) -> DrawnPair:
    """Return the drawn pair of a seed >= 0.

    In each dimension the first, the second or neither side wins with equal chance. If neither wins,
    both are flawed one time in four.
    """
    rng = np.random.default_rng((seed, 2))
    rng.random()
    wanted, wrong = draw_facts(rng), _draw_flawed_sides(rng)
    if not all(wrong):
        rng.random()
    shown = [_with_wrong_fact(rng, wanted) if flawed else wanted for flawed in wrong]
    flaws = zip(Side, shown, _draw_flawed_sides(rng), _draw_flawed_sides(rng), strict=True)
    scenes = {
        side: draw_scene(
            rng,
            facts,
            _draw_picture_fault(rng) if picture else None,
            _draw_motion_fault(rng) if motion else None,
        )
        for side, facts, picture, motion in flaws
    }
    return DrawnPair(seed, write_prompt(rng, wanted), wanted, scenes)


def draw_facts(rng: np.random.Generator) -> SceneFacts:
    """Return random facts of a pair."""
    rng.random()
    ground = str(rng.choice(GROUNDS))
    rng.random()
    colour, shape = str(rng.choice(list(COLOURS))), str(rng.choice(SHAPES))
    rng.random()
    return SceneFacts(colour, shape, str(rng.choice(list(DIRECTIONS))), ground)


def write_prompt(rng: np.random.Generator, wanted: SceneFacts) -> str:
    """Return a prompt that asks for these facts."""
    wording = str(rng.choice(PROMPTS if wanted.shape == "ball" else PROMPTS[1:]))
    direction = rng.choice((wanted.direction, DIRECTIONS[wanted.direction][2]))
    text = wording.format(solid=wanted.solid, direction=direction, ground=wanted.ground)
    return text[0].upper() + text[1:] if text.endswith(".") else text


def _with_wrong_fact(rng: np.random.Generator, wanted: SceneFacts) -> SceneFacts:
    """Return the facts with another colour, shape or direction."""
    kind = str(rng.choice(list(FACT_KINDS)))
    others = [word for word in FACT_KINDS[kind] if word != getattr(wanted, kind)]
    return replace(wanted, **{kind: str(rng.choice(others))})


def _draw_flawed_sides(rng: np.random.Generator) -> tuple[bool, bool]:
    """Return which sides are flawed in one dimension."""
    better = int(rng.integers(3))
    both = better == 0 and bool(rng.random() < 0.25)
    return both or better == 2, both or better == 1


def _draw_picture_fault(rng: np.random.Generator) -> Fault:
    kind = str(rng.choice(PICTURE_FAULTS))
    strength, seed = rng.random(), int(rng.integers(1 << 30))
    window = _draw_window(rng, kind)
    if len(window) < FRAMES and kind != "flicker":
        rng.random()
    return Fault(kind, window, strength, seed)


def _draw_motion_fault(rng: np.random.Generator) -> Fault:
    rng.random()
    kind, seed = str(rng.choice(MOTION_FAULTS)), int(rng.integers(1 << 30))
    rng.random()
    jump = rng.uniform(0.26, 0.34)
    rng.random()
    return Fault(kind, _draw_window(rng, kind), jump, seed)


def _draw_window(rng: np.random.Generator, kind: str) -> range:
    """Return a random window of frames for a fault.

    Half of the windows lie between two opening frames and hold the middle of them, so that only a
    judge that asks for frames can know of them. The others show in the opening frames; half of
    those are the whole clip, except for the kinds that would not show then.
    """
    if rng.random() < 0.5:
        middle = int(rng.choice((32, 64, 96)))
        return range(middle - int(rng.integers(9, 16)), middle + int(rng.integers(9, 16)))
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
    picture_fault: Fault | None = None,
    motion_fault: Fault | None = None,
) -> Scene:
    """Return a random scene with a mostly visible solid and these faults."""
    turned = facts.ground in ("grass", "marble")  # Planks, tiles and ripples lie across the view
    background = Background(
        variant=int(rng.integers(8)),
        rotation=rng.uniform(0, 2 * math.pi) if turned else 0.0,
        shift=(rng.random(), rng.random()),
        yaw=rng.uniform(-8, 8),
        pitch=rng.uniform(27, 36),
        brightness=rng.uniform(0.85, 1.1),
    )
    tries = [_place_solid(rng, facts, background)]
    while tries[-1][0] < 0.45 and len(tries) < 60:
        tries.append(_place_solid(rng, facts, background))
    _, scene = max(tries, key=itemgetter(0))
    fault, across = motion_fault, 1 if DIRECTIONS[facts.direction][0] else 0
    if fault and scene.start[across] >= 0.5:  # Towards the middle, so it stays in the picture
        fault = replace(fault, strength=-fault.strength)
    return replace(scene, picture_fault=picture_fault, motion_fault=fault)


def _place_solid(
    rng: np.random.Generator, facts: SceneFacts, background: Background
) -> tuple[float, Scene]:
    """Return (share of the solid visible in four of five frames, scene)."""
    right, closer, _ = DIRECTIONS[facts.direction]
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
    if rng.random() <= 0.25:  # A small solid at the back
        x = float(rng.choice([-1, 1])) * rng.uniform(1.6, 2.6)
        shape, rgb = str(rng.choice(SHAPES)), COLOURS[str(rng.choice(list(COLOURS)))]
        still = (Solid(shape, rgb, 0.32, x, -3.8, rng.uniform(-0.3, 0.3)),)
    scene = Scene(facts, background, solid, spin, start, (right * length, closer * length), still)
    return sorted(scene.visible_share(index) for index in (8, 36, 64, 92, 120))[1], scene
