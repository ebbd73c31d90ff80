"""A scene: what the 128 frames of a clip show, and their faults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.notes import CLEAR, SceneFacts
from vrthinker_core.drawn.solids import FORMS, Camera, Pixels, Solid, grid

FRAMES = 128  # Frames of a clip, as many as a `paired` judge can ask for
REFERENCE_SIDE = 112  # Pixels a side that the built-in judge sees: damage scales with the picture
# World units that the ground's coordinates 0..1 cover, sideways and towards the camera
WIDTH, DEPTH = 5.2, 6.4


@dataclass(frozen=True, slots=True)
class Background:
    """The ground, camera and light of all frames of a clip."""

    ground: str
    variant: int  # Which of the ground's textures
    rotation: float  # Of the texture, radians
    shift: tuple[float, float]  # Of the texture, in its own extents
    yaw: float  # Of the camera, degrees
    pitch: float
    brightness: float  # Of all light, about 1


@dataclass(frozen=True, slots=True)
class PictureFault:
    """Damage to the pictures of the frames in a window."""

    kind: str  # One of the damages, or "flicker": runs of three frames are dark or bright
    window: range
    strength: float  # From 0 to 1 (obvious)
    seed: int  # Of the noise and the flicker

    def state(self, index: int) -> str:
        """Return the state of frame `index`, one of `notes.PICTURES`."""
        if index not in self.window:
            return CLEAR
        if self.kind != "flicker":
            return self.kind
        dark = np.random.default_rng((self.seed, 0, index // 3)).random() < 0.5
        return "dark" if dark else "bright"

    def apply(self, picture: Pixels, index: int) -> Pixels:
        """Return `picture`, frame `index` as RGB [h, w, 3], with this fault."""
        if (state := self.state(index)) == CLEAR:
            return picture
        damaged: Pixels = np.clip(self._damage(state, picture, index), 0, 255).astype(np.uint8)
        return damaged

    def _damage(self, state: str, picture: Pixels, index: int) -> NDArray[Any]:
        strength, sides = self.strength, picture.shape[1::-1]
        match state:
            case "blurry":
                sigma = (1.6 + 1.6 * strength) * sides[0] / REFERENCE_SIDE
                return cv2.GaussianBlur(picture, (0, 0), sigma)
            case "noisy":
                rng = np.random.default_rng((self.seed, 1, index))
                shape = REFERENCE_SIDE, REFERENCE_SIDE, 3  # Finer noise fades if seen smaller
                grains = rng.standard_normal(shape, np.float32) * np.float32(22 + 22 * strength)
                return picture + cv2.resize(grains, sides, interpolation=cv2.INTER_NEAREST)
            case "blocky":
                blocks = 18 if strength < 0.5 else 14
                small = cv2.resize(picture, (blocks, blocks), interpolation=cv2.INTER_AREA)
                return cv2.resize(small, sides, interpolation=cv2.INTER_NEAREST)
            case "dark":
                return picture * np.float32(0.38 - 0.12 * strength)
            case "bright":
                return picture * np.float32(1.25 + 0.15 * strength) + 45
            case _:  # Banded
                levels = 4 if strength < 0.5 else 3
                bands: NDArray[Any] = np.floor(picture * np.float32(levels / 256))
                return bands * np.float32(255 / (levels - 1))


@dataclass(frozen=True, slots=True)
class MotionFault:
    """Damage to the motion in a window: "jittery", "frozen" or "jumpy"."""

    kind: str
    window: range
    jump: float  # Share of the ground's width
    seed: int  # Of the jitter

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """Return (time, sideways offset) of frame `index`; the clip takes time 0..1."""
        time = index / (FRAMES - 1)
        if index not in self.window:
            return time, 0.0
        if self.kind == "frozen":
            return self.window.start / (FRAMES - 1), 0.0
        if self.kind == "jumpy":
            return time, self.jump
        rng = np.random.default_rng((self.seed, index))
        time += rng.uniform(-0.02, 0.02)
        return time, rng.choice([-1.0, 1.0]) * rng.uniform(0.11, 0.17)


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
    picture_fault: PictureFault | None = None
    motion_fault: MotionFault | None = None

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
        return self.picture_fault.state(index) if self.picture_fault else CLEAR

    def place(self, index: int) -> tuple[float, float] | None:
        """Return the solid's middle in the picture, 0..1 rightwards and downwards.

        None if it has left the picture.
        """
        if self.visible_share(index) < 0.1:
            return None
        solid = self.solids(index)[-1]
        # Most of a cone is near the ground
        height = (0.32 if solid.shape == "cone" else 0.5) * FORMS[solid.shape][2] * solid.size
        middle = np.array([(solid.x, height, solid.z)], np.float32)
        x, y = _camera(self.background.yaw, self.background.pitch).project(middle)[0].tolist()
        return x, y

    def visible_share(self, index: int) -> float:
        """Estimate the share of the solid, as an ellipse, in the picture."""
        corners = _camera(self.background.yaw, self.background.pitch).project(
            self.solids(index)[-1].corners
        )
        low, high = corners.min(0), corners.max(0)
        # A solid covers less than the box of all its rotations
        middle, half = (low + high) / 2, (high - low) / 2 * np.float32(0.85)
        points = middle + _DISC * half
        return float(((points >= 0) & (points <= 1)).all(-1).mean())

    def _time_and_offset(self, index: int) -> tuple[float, float]:
        if self.motion_fault:
            return self.motion_fault.time_and_offset(index)
        return index / (FRAMES - 1), 0.0


_GRID = grid(np.linspace(-0.9, 0.9, 7))
_DISC = _GRID[(_GRID**2).sum(-1) <= 1]  # Points spread evenly over a disc of radius 1
_camera = lru_cache(maxsize=64)(partial(Camera, size=1))  # Computes the axes of each once
