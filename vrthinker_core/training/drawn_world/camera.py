"""The square pinhole camera that watches the ground from above, and the pixels it fills."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vrthinker_core.training.drawn_world.solids import Floats, unit

AIM = np.array([0, 0.3, 0], np.float32)
"""The point in the middle of every picture."""
DISTANCE = 9.5
"""From the camera to that point."""
HALF = np.float32(np.tan(np.radians(17)))
"""Half the picture's side at distance 1."""
Box = tuple[slice, slice]
"""Rows and columns of a picture."""


@dataclass(frozen=True)
class Camera:
    """A camera at `yaw` and `pitch` (degrees) about the aim, and its picture of `size` x `size` pixels.

    Picture coordinates run from 0 to 1, rightwards and downwards. A pitch above 20 keeps the horizon out of the picture.
    """

    yaw: float
    pitch: float
    size: int

    @cached_property
    def eye(self) -> Floats:
        """Where it stands, [3]."""
        yaw, pitch = np.radians(self.yaw), np.radians(self.pitch)
        away = np.array([np.sin(yaw) * np.cos(pitch), np.sin(pitch), np.cos(yaw) * np.cos(pitch)])
        return AIM + (DISTANCE * away).astype(np.float32)

    @cached_property
    def axes(self) -> Floats:
        """Rightwards, upwards and ahead: rows of length 1, [3, 3]."""
        ahead = unit((AIM - self.eye)[None])
        right = unit(np.cross(ahead, np.array([[0, 1, 0]], np.float32)))
        return np.concatenate([right, np.cross(right, ahead), ahead])

    @property
    def whole(self) -> Box:
        """All its pixels."""
        return slice(0, self.size), slice(0, self.size)

    def middles(self, box: Box) -> Floats:
        """Picture points [n, 2] (x, y) in the middle of a box's pixels, row by row."""
        rows, columns = (np.arange(side.start, side.stop, dtype=np.float32) + np.float32(0.5) for side in box)
        y, x = np.meshgrid(rows / self.size, columns / self.size, indexing="ij")
        return np.stack([x.ravel(), y.ravel()], -1)

    def samples(self, fine: int) -> Floats:
        """Steps [fine * fine, 2] from a pixel's middle to evenly spread points in it, in picture coordinates."""
        steps = ((np.arange(fine, dtype=np.float32) + np.float32(0.5)) / fine - np.float32(0.5)) / self.size
        y, x = np.meshgrid(steps, steps, indexing="ij")
        return np.stack([x.ravel(), y.ravel()], -1)

    def rays(self, points: Floats) -> Floats:
        """Directions [n, 3] of length 1 through picture points [n, 2]."""
        x, y = points.T
        return unit(np.stack([(2 * x - 1) * HALF, (1 - 2 * y) * HALF, np.ones_like(x)], -1) @ self.axes)

    def project(self, spots: Floats) -> Floats:
        """World spots [n, 3] in front of it to picture points [n, 2]."""
        across, up, depth = ((spots - self.eye) @ self.axes.T).T
        reach = 2 * depth * HALF
        points: Floats = np.stack([across / reach + 0.5, 0.5 - up / reach], -1)
        return points

    def box(self, spots: Floats, margin: float) -> Box:
        """The pixels that hold all world spots [n, 3], with `margin` more on every side, as far as they are in the picture."""
        points = self.project(spots) * self.size
        left, top = np.clip(np.floor(points.min(0) - margin), 0, self.size).astype(int).tolist()
        right, bottom = np.clip(np.ceil(points.max(0) + margin), 0, self.size).astype(int).tolist()
        return slice(top, bottom), slice(left, right)

    def ground(self, points: Floats) -> tuple[Floats, Floats]:
        """What picture points [n, 2] show of the ground: distance [n] and spot [n, 3]."""
        rays = self.rays(points)
        distance: Floats = -self.eye[1] / rays[:, 1]
        return distance, self.eye + distance[:, None] * rays
