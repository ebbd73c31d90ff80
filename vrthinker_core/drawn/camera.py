"""The square pinhole camera that looks down on the ground, and its pixels."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vrthinker_core.drawn.solids import Floats, unit

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
