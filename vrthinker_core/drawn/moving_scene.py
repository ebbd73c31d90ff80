"""A scene: all facts of one clip, where its things are, how they move, what is damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.facts import SceneFacts
from vrthinker_core.drawn.faults import CLEAR, FRAMES, MotionFault, PictureFault
from vrthinker_core.drawn.photographs import FlatView
from vrthinker_core.drawn.solids import BOUNDS, Floats, Solid, bases_of, corners_of, dot, unit

if TYPE_CHECKING:
    from vrthinker_core.drawn.renderer import Background  # which draws with this module's cameras

TARGET = np.array([0, 0.3, 0], np.float32)  # The position in the middle of every picture
# Half of the picture's side at distance 1: the field of view is 34 degrees
TAN_HALF_FOV = np.float32(np.tan(np.radians(17)))
Box = tuple[slice, slice]  # Rows and columns of a picture


@dataclass(frozen=True)
class Camera:
    """A camera at `yaw` and `pitch` (degrees) about the target.

    Its picture has `size` x `size` pixels. Image points (x, y) run from 0 to 1, rightwards and
    downwards. A pitch above 20 keeps the horizon out of the picture.
    """

    yaw: float
    pitch: float
    size: int

    @cached_property
    def eye(self) -> Floats:
        """The position of the camera, [3]."""
        yaw, pitch = np.radians(self.yaw), np.radians(self.pitch)
        level = np.cos(pitch)
        backward = np.array([np.sin(yaw) * level, np.sin(pitch), np.cos(yaw) * level])
        return TARGET + (9.5 * backward).astype(np.float32)

    @cached_property
    def axes(self) -> Floats:
        """Right, up and forward: rows of length 1, [3, 3]."""
        forward = unit((TARGET - self.eye)[None])
        right = unit(np.cross(forward, np.array([[0, 1, 0]], np.float32)))
        return np.concatenate([right, np.cross(right, forward), forward])

    @property
    def full_box(self) -> Box:
        """All pixels."""
        return slice(0, self.size), slice(0, self.size)

    def pixel_centers(self, box: Box) -> Floats:
        """Return image points [n, 2] of a box's pixel middles, row by row."""
        rows, columns = (
            np.arange(side.start, side.stop, dtype=np.float32) + np.float32(0.5) for side in box
        )
        y, x = np.meshgrid(rows / self.size, columns / self.size, indexing="ij")
        return np.stack([x.ravel(), y.ravel()], -1)

    def subpixel_offsets(self, supersample: int) -> Floats:
        """Return evenly spread offsets [supersample ** 2, 2] from a pixel's middle."""
        half = np.float32(0.5)
        steps = ((np.arange(supersample, dtype=np.float32) + half) / supersample - half) / self.size
        y, x = np.meshgrid(steps, steps, indexing="ij")
        return np.stack([x.ravel(), y.ravel()], -1)

    def rays(self, points: Floats) -> Floats:
        """Return directions [n, 3] of length 1 through image points [n, 2]."""
        x, y = points.T
        right, up = (2 * x - 1) * TAN_HALF_FOV, (1 - 2 * y) * TAN_HALF_FOV
        return unit(np.stack([right, up, np.ones_like(x)], -1) @ self.axes)

    def project(self, positions: Floats) -> Floats:
        """Map world positions [n, 3] before the camera to image points [n, 2]."""
        across, up, depth = ((positions - self.eye) @ self.axes.T).T
        side = 2 * depth * TAN_HALF_FOV
        return np.stack([across / side + 0.5, 0.5 - up / side], -1)

    def box(self, positions: Floats, margin: float) -> Box:
        """Return the pixels that hold all world positions [n, 3].

        They have `margin` more on every side, as far as the picture goes.
        """
        points = self.project(positions) * self.size
        left, top = np.clip(np.floor(points.min(0) - margin), 0, self.size).astype(int).tolist()
        right, bottom = np.clip(np.ceil(points.max(0) + margin), 0, self.size).astype(int).tolist()
        return slice(top, bottom), slice(left, right)

    def intersect_ground(self, points: Floats) -> tuple[Floats, Floats]:
        """Return (distance [n], position [n, 3]) of the ground at image points [n, 2]."""
        rays = self.rays(points)
        distance: Floats = -self.eye[1] / rays[:, 1]
        return distance, self.eye + distance[:, None] * rays


# World units that the ground's coordinates 0..1 cover, sideways and towards the camera
WIDTH, DEPTH = 5.2, 6.4
GO, STAY, LEAP = "go", "stay", "leap"


@dataclass(frozen=True, slots=True)
class Formation:
    """The solids of one thing, which move as one."""

    solids: tuple[Solid, ...]  # Standing about the middle of the ground
    spin: float  # How far each rotates during the clip, radians
    # First position of the middle: ground coordinates, 0..1 rightwards and towards the camera
    start: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scene:
    """A clip of things on a ground, or of a camera."""

    facts: SceneFacts
    background: Background | None
    groups: tuple[Formation, ...] = ()  # One for each thing of the facts, in their order
    still_solids: tuple[Solid, ...] = ()  # Solids at the back that do not move
    travel: tuple[float, float] = (0.0, 0.0)  # Of the things, in the ground's coordinates
    view: FlatView | None = field(default=None, kw_only=True)  # In place of background and things
    picture_fault: PictureFault | None = field(default=None, kw_only=True)
    motion_fault: MotionFault | None = field(default=None, kw_only=True)

    def position(self, index: int, number: int = 0) -> tuple[float, float]:
        """Return the middle of thing `number` in frame `index`, in ground coordinates."""
        return self._position(self.groups[number], *self.time_and_offset(index))

    def solids(self, index: int) -> tuple[Solid, ...]:
        """Return all solids of frame `index`, as they stand there."""
        return (*self.still_solids, *(solid for group in self._groups(index) for solid in group))

    def time_and_offset(self, index: int) -> tuple[float, float]:
        """Return (time, sideways offset) of frame `index`; the clip takes time 0..1."""
        if self.motion_fault:
            return self.motion_fault.time_and_offset(index)
        return index / (FRAMES - 1), 0.0

    def shift(self, index: int) -> tuple[float, float]:
        """Return how far frame `index` is shifted, right and down, in pictures."""
        return self.motion_fault.shift(index) if self.motion_fault else (0.0, 0.0)

    def picture_state(self, index: int) -> str:
        """Return the state of frame `index`: "clear" or one of the damages."""
        return self.picture_fault.state(index) if self.picture_fault else CLEAR

    def thing_positions(self, index: int) -> tuple[tuple[float, float] | None, ...]:
        """Return the middles of all things, 0..1 rightwards and downwards.

        A hidden thing is None.
        """
        if self.background is None:
            return ()
        positions: list[tuple[float, float] | None] = []
        shares, (right, down) = self.visible_shares(index), self.shift(index)
        for group, share in zip(self._groups(index), shares, strict=True):
            # Most of a cone is near the ground
            middles = [
                (s.x, (0.32 if s.shape == "cone" else 0.5) * BOUNDS[s.shape][1] * s.size, s.z)
                for s in group
            ]
            x, y = self._camera().project(np.array(middles, np.float32)).mean(0).tolist()
            positions.append((x + right, y + down) if share >= 0.1 else None)
        return tuple(positions)

    def visible_shares(self, index: int) -> tuple[float, ...]:
        """Estimate the visible share of each thing.

        A thing may leave the picture or stand behind another one. Each solid counts as an ellipse,
        of which points spread evenly over a disc are looked at.
        """
        groups, camera = self._groups(index), self._camera()
        solids = [solid for group in groups for solid in group]
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        corners = camera.project(corners_of(solids).reshape(-1, 3)).reshape(len(solids), -1, 2)
        low, high = corners.min(1), corners.max(1)
        # [n, 2]; a solid covers less than the box of all its rotations
        middles, halves = (low + high) / 2, (high - low) / 2 * np.float32(0.85)
        offsets = bases_of(solids) - camera.eye
        distances = np.sqrt(dot(offsets, offsets))
        points = middles[:, None] + _DISC * halves[:, None]  # [n, points, 2]
        shifted = points + np.array(self.shift(index))
        seen = ((shifted >= 0) & (shifted <= 1)).all(-1)
        # [n, n]: the second solid is before the first
        behind = (owners[:, None] != owners) & (distances < distances[:, None])
        for hidden, before in zip(*np.nonzero(behind), strict=True):
            inside = ((points[hidden] - middles[before]) / halves[before]) ** 2
            seen[hidden] &= inside.sum(-1) > 1
        shares = seen.mean(1)
        return tuple(float(shares[owners == number].mean()) for number in range(len(groups)))

    def motion_words(self, indices: Sequence[int]) -> tuple[str, ...]:
        """Return a word for each step between these frames, which ascend.

        "go": at the speed of the clip; "stay": much too short; "leap": much too far, backwards or
        sideways.
        """
        words = []
        for before, after in pairwise(indices):
            moved = self.trace(after) - self.trace(before)
            expected = self.pace * ((after - before) / (FRAMES - 1))
            square = float(expected @ expected)
            along = float(moved @ expected) / square if square else 1.0
            across, off = np.linalg.norm(moved - along * expected), np.linalg.norm(moved - expected)
            # Lengths are the clip's own; a step is no leap if it ends almost in the right place
            if across > 0.055 or (not -0.4 <= along <= 1.45 and off > 0.02):
                words.append(LEAP)
            else:
                words.append(STAY if along < 0.5 else GO)
        return tuple(words)

    @property
    def pace(self) -> NDArray[np.float64]:
        """How far `trace` goes during a clip without a motion fault, [3]."""
        return np.array(self.view.pace if self.view else (*self.travel, 0.0), np.float64)

    def trace(self, index: int) -> NDArray[np.float64]:
        """Return the even motion, [3], of the things or the camera."""
        at = self.time_and_offset(index)
        place = self.view.trace(*at) if self.view else (*self.position(index), 0.0)
        return np.asarray(np.array(place, np.float64) + np.array((*self.shift(index), 0.0)))

    def _groups(self, index: int) -> list[list[Solid]]:
        """Return the solids of each thing as they stand in frame `index`."""
        time, sideways = self.time_and_offset(index)
        groups = []
        for group in self.groups:
            (x, y), turned = self._position(group, time, sideways), group.spin * time
            x, z = (x - 0.5) * WIDTH, (y - 0.55) * DEPTH
            groups.append(
                [
                    replace(solid, x=x + solid.x, z=z + solid.z, rotation=solid.rotation + turned)
                    for solid in group.solids
                ]
            )
        return groups

    def _position(self, group: Formation, time: float, sideways: float) -> tuple[float, float]:
        x, y = (at + time * length for at, length in zip(group.start, self.travel, strict=True))
        return (x, y + sideways) if self.travel[0] else (x + sideways, y)

    def _camera(self) -> Camera:
        assert self.background is not None
        return _camera_at(self.background.yaw, self.background.pitch)


@lru_cache(maxsize=64)
def _camera_at(yaw: float, pitch: float) -> Camera:
    """Return the camera of a scene, with its axes computed once."""
    return Camera(yaw, pitch, 1)


_LINE = np.linspace(-0.9, 0.9, 7)
_GRID = np.stack(np.meshgrid(_LINE, _LINE), -1).reshape(-1, 2)
_DISC = _GRID[(_GRID**2).sum(-1) <= 1]  # Points spread evenly over a disc of radius 1
