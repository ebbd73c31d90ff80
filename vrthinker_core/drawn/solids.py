"""A camera, and rays that meet five solids.

Lengths are world units. y points up, the ground is y = 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]  # Float32 throughout: half the work of numpy's default
Pixels = NDArray[np.uint8]
Hit = tuple[Floats, Floats]
"""(distance along each ray [n], inf if it misses; outward normal there [n, 3], any if it misses)"""
Box = tuple[slice, slice]  # Rows and columns of a picture

TARGET = np.array([0, 0.3, 0], np.float32)  # The position in the middle of every picture
# Half of the picture's side at distance 1: the field of view is 34 degrees
TAN_HALF_FOV = np.float32(np.tan(np.radians(17)))
NEAR = np.float32(1e-3)  # Closer surfaces are not hit, so a ray misses the one it starts from
MISS = np.float32(np.inf)
UP = np.array([0, 1, 0], np.float32)
# Of a box on the ground
_CORNERS = np.array([(i, j, k) for i in (-1, 1) for j in (0, 1) for k in (-1, 1)], np.float32)


def dot(a: Floats, b: Floats) -> Floats:
    """Return dot products of rows: [n, 3] and [n, 3] to [n]."""
    return np.asarray(np.einsum("ij,ij->i", a, b))


def unit(vectors: Floats) -> Floats:
    """Return each row of [n, 3] at length 1."""
    return vectors / (np.sqrt(dot(vectors, vectors))[:, None] + np.float32(1e-9))


def grid(count: int) -> Floats:
    """Return the middles of `count` x `count` cells of a unit square, [count ** 2, 2]."""
    line = (np.arange(count, dtype=np.float32) + np.float32(0.5)) / count
    return np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)


class Camera:
    """A camera that looks at the target.

    Its picture has `size` pixels a side. Image points (x, y) are 0..1, rightwards and downwards.
    """

    def __init__(self, yaw: float, pitch: float, size: int) -> None:
        """Turn it by degrees; a pitch above 20 keeps the horizon out."""
        self.size, yaw, pitch = size, np.radians(yaw), np.radians(pitch)
        level = np.cos(pitch)
        backward = np.array([np.sin(yaw) * level, np.sin(pitch), np.cos(yaw) * level])
        self.eye: Floats = TARGET + (9.5 * backward).astype(np.float32)  # [3]
        forward = unit((TARGET - self.eye)[None])
        right = unit(np.cross(forward, UP[None]))
        # Right, up and forward: rows of length 1, [3, 3]
        self.axes: Floats = np.concatenate([right, np.cross(right, forward), forward])

    def rays(self, points: Floats) -> Floats:
        """Return directions [n, 3] of length 1 through image points [n, 2]."""
        x, y = points.T
        right, up = (2 * x - 1) * TAN_HALF_FOV, (1 - 2 * y) * TAN_HALF_FOV
        return unit(np.stack([right, up, np.ones_like(x)], -1) @ self.axes)

    def project(self, positions: Floats) -> Floats:
        """Project world positions [n, 3] to image points [n, 2]."""
        across, up, depth = ((positions - self.eye) @ self.axes.T).T
        side = 2 * depth * TAN_HALF_FOV
        return np.stack([across / side + 0.5, 0.5 - up / side], -1)

    def box(self, positions: Floats, margin: float) -> Box:
        """Return the pixels within `margin` of world positions [n, 3]."""
        points = self.project(positions) * self.size
        ends = np.floor(points.min(0) - margin), np.ceil(points.max(0) + margin)
        (left, top), (right, bottom) = np.clip(ends, 0, self.size).astype(int).tolist()
        return slice(top, bottom), slice(left, right)

    def intersect_ground(self, points: Floats) -> tuple[Floats, Floats]:
        """Return distance [n] and ground position [n, 3] at image points."""
        rays = self.rays(points)
        distance: Floats = -self.eye[1] / rays[:, 1]
        return distance, self.eye + distance[:, None] * rays


@dataclass(frozen=True, slots=True)
class Solid:
    """A solid on the ground.

    `size` is about half its height, (`x`, `z`) the middle of its base, `rotation` in radians.
    """

    shape: str
    rgb: tuple[int, int, int]
    size: float
    x: float
    z: float
    rotation: float

    @property
    def base(self) -> Floats:
        """The middle of its base, [3]."""
        return np.array([self.x, 0, self.z], np.float32)

    @property
    def corners(self) -> Floats:
        """Eight points, [8, 3], whose hull holds the solid at any rotation."""
        _, wide, high = FORMS[self.shape]
        bounds = np.array((wide, high, wide), np.float32) * np.float32(self.size)
        return self.base + _CORNERS * bounds

    def intersect(self, origin: Floats, rays: Floats) -> Hit:
        """Return first hits of unit rays [n, 3] from [3] or [n, 3]."""
        distance = np.full(len(rays), MISS, np.float32)
        normal = np.zeros((len(rays), 3), np.float32)
        intersect, wide, high = FORMS[self.shape]
        # Only rays that come near the ball around the solid are followed
        radius = np.float32(1.02 * self.size * math.hypot(wide, high / 2))
        middle = self.base + UP * np.float32(high / 2 * self.size)
        offsets = np.broadcast_to(middle - origin, rays.shape)
        along = dot(rays, offsets)
        apart = dot(offsets, offsets) - along * along
        near = np.nonzero((apart < radius * radius) & (along > -radius))[0]
        if len(near):
            c, s = np.cos(self.rotation), np.sin(self.rotation)
            to_local = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]], np.float32)
            some, origins = rays[near], origin[near] if origin.ndim > 1 else origin
            starts = np.broadcast_to((origins - self.base) @ to_local, some.shape)
            hits = intersect(starts, some @ to_local, np.float32(self.size))
            distance[near], normal[near] = hits[0], hits[1] @ to_local.T
        return distance, normal


def _nonzero(values: Floats) -> Floats:
    return np.where(np.abs(values) < 1e-9, np.float32(1e-9), values)


def _chord(start: Floats, rays: Floats, radius: np.float32) -> tuple[Floats, Floats]:
    """Return (middle, half length squared or <= 0) of chords through a ball."""
    middle = -dot(start, rays)
    return middle, middle * middle - dot(start, start) + radius * radius


def _intersect_ball(start: Floats, rays: Floats, size: np.float32) -> Hit:
    start = start - UP * size
    middle, square = _chord(start, rays, size)
    t = middle - np.sqrt(np.maximum(square, 0))
    hit = (square > 0) & (t > NEAR)
    return np.where(hit, t, MISS), (start + t[:, None] * rays) / size


def _intersect_cube(start: Floats, rays: Floats, size: np.float32) -> Hit:
    half = 0.85 * size
    slope = 1 / _nonzero(rays)
    low = np.array([-half, 0, -half], np.float32)
    one, other = (low - start) * slope, (low + 2 * half - start) * slope
    enter, leave = np.minimum(one, other), np.maximum(one, other)
    t = enter.max(1)
    hit = (t <= leave.min(1)) & (t > NEAR)
    return np.where(hit, t, MISS), unit(
        np.where(enter == t[:, None], -np.sign(rays), np.float32(0))
    )


def _intersect_upright(start: Floats, rays: Floats, size: np.float32, *, shape: str) -> Hit:
    """Intersect a cylinder or cone round the y axis.

    The upward part of the normal is the same at any height of the side, which rounds the light at
    the tip of a cone.
    """
    _, wide, high = FORMS[shape]
    radius, height = wide * size, high * size
    top = radius if shape == "cylinder" else np.float32(0)
    taper = (radius - top) / height  # Narrower by so much per unit of height
    (ox, oy, oz), (dx, dy, dz) = start.T, rays.T
    radius_at_start = radius - taper * oy
    a = dx * dx + dz * dz - taper * taper * dy * dy
    b = ox * dx + oz * dz + taper * dy * radius_at_start
    square = b * b - a * (ox * ox + oz * oz - radius_at_start * radius_at_start)
    root, a = np.sqrt(np.maximum(square, 0)), _nonzero(a)
    nearest = np.full(len(rays), MISS, np.float32)
    for t in ((-b - root) / a, (-b + root) / a):
        y = oy + t * dy
        hit = (square > 0) & (t > NEAR) & (y > 0) & (y < height) & (t < nearest)
        nearest = np.where(hit, t, nearest)
    t = np.where(np.isfinite(nearest), nearest, 0)
    up = np.full(len(t), taper * radius, np.float32)
    normal = unit(np.stack([ox + t * dx, up, oz + t * dz], -1))
    t = (height - oy) / _nonzero(dy)
    x, z = ox + t * dx, oz + t * dz
    lid = (t > NEAR) & (t < nearest) & (x * x + z * z < top * top)
    return np.where(lid, t, nearest), np.where(lid[:, None], UP, normal)


def _intersect_ring(start: Floats, rays: Floats, size: np.float32) -> Hit:
    """Intersect a torus in the plane z = 0 by sphere tracing."""
    ring_radius, tube_radius = 0.72 * size, 0.27 * size
    start = start - UP * size
    middle, square = _chord(start, rays, size)
    half = np.sqrt(np.maximum(square, 0))
    t, leave = np.maximum(middle - half, NEAR), middle + half
    hit = np.zeros(len(rays), np.bool_)
    active = np.nonzero((square > 0) & (leave > NEAR))[0]
    for _ in range(24):  # Then a ray counts as a miss
        x, y, z = (start[active] + t[active, None] * rays[active]).T
        in_plane = np.sqrt(x * x + y * y) - ring_radius
        distance_left = np.sqrt(in_plane * in_plane + z * z) - tube_radius
        hit[active[distance_left < 0.002 * size]] = True
        t[active] += np.maximum(distance_left, 0)
        active = active[(distance_left >= 0.002 * size) & (t[active] < leave[active])]
    positions = start + t[:, None] * rays
    core = unit(positions * np.array([1, 1, 0], np.float32)) * ring_radius
    return np.where(hit, t, MISS), unit(positions - core)


# (how rays meet a solid of a size, half its width and its height at size 1 and any rotation)
FORMS: dict[str, tuple[Callable[[Floats, Floats, np.float32], Hit], float, float]] = {
    "ball": (_intersect_ball, 1.0, 2.0),
    "cube": (_intersect_cube, 1.21, 1.7),
    "cylinder": (partial(_intersect_upright, shape="cylinder"), 0.78, 1.9),
    "cone": (partial(_intersect_upright, shape="cone"), 0.95, 2.2),
    "ring": (_intersect_ring, 1.0, 2.0),
}
