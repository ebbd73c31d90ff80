"""Five solids that stand on the ground y = 0, and where rays meet them.

Lengths are world units, y points up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]  # Float32 throughout: half the work of numpy's default
Hit = tuple[Floats, Floats]
"""(distance along each ray [n], inf if it misses; outward normal there [n, 3], any if it misses)"""

NEAR = np.float32(1e-3)  # Closer surfaces are not hit, so a ray misses the one it starts from
MISS = np.float32(np.inf)
# Of a box on the ground
_CORNERS = np.array([(i, j, k) for i in (-1, 1) for j in (0, 1) for k in (-1, 1)], np.float32)


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
    rotation: float = 0.0

    @property
    def base(self) -> Floats:
        """The middle of its base, [3]."""
        return np.array([self.x, 0, self.z], np.float32)

    @property
    def corners(self) -> Floats:
        """Eight points, [8, 3], whose hull holds the solid at any rotation."""
        wide, high = BOUNDS[self.shape]
        bounds = np.array((wide, high, wide), np.float32) * np.float32(self.size)
        return self.base + _CORNERS * bounds

    def intersect(self, origin: Floats, rays: Floats) -> Hit:
        """Return the first hits of `rays` [n, 3] from `origin` ([3] or [n, 3]).

        Rays have length 1. Only rays that meet the ball around the solid, or nearly so, are looked
        at in full.
        """
        distance = np.full(len(rays), MISS, np.float32)
        normal = np.zeros((len(rays), 3), np.float32)
        wide, high = BOUNDS[self.shape]
        radius = np.float32(1.02 * self.size * math.hypot(wide, high / 2))
        offset = self.base + np.array([0, high / 2 * self.size, 0], np.float32) - origin
        square = dot(offset, offset) if offset.ndim > 1 else offset @ offset
        along = dot(rays, offset) if offset.ndim > 1 else rays @ offset
        near = np.nonzero((square - along * along < radius * radius) & (along > -radius))[0]
        if len(near):
            c, s = np.cos(self.rotation), np.sin(self.rotation)
            to_local = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]], np.float32)
            some, origins = rays[near], origin[near] if origin.ndim > 1 else origin
            start = np.broadcast_to((origins - self.base) @ to_local, some.shape)
            hits = INTERSECTIONS[self.shape](start, some @ to_local, np.float32(self.size))
            distance[near], normal[near] = hits[0], hits[1] @ to_local.T
        return distance, normal


def dot(a: Floats, b: Floats) -> Floats:
    """Return dot products of rows: [n, 3] and [n, 3] to [n]."""
    return np.asarray(np.einsum("ij,ij->i", a, b))


def unit(vectors: Floats) -> Floats:
    """Return each row of [n, 3] at length 1."""
    return vectors / (np.sqrt(dot(vectors, vectors))[:, None] + np.float32(1e-9))


def _nonzero(values: Floats) -> Floats:
    return np.where(np.abs(values) < 1e-9, np.float32(1e-9), values)


def _chord(start: Floats, rays: Floats, radius: np.float32) -> tuple[Floats, Floats]:
    """Return (middle, half length squared) of chords through a ball.

    The ball is about the origin; a square <= 0 is a miss.
    """
    middle = -dot(start, rays)
    return middle, middle * middle - dot(start, start) + radius * radius


def _intersect_ball(start: Floats, rays: Floats, size: np.float32) -> Hit:
    start = start - np.array([0, size, 0], np.float32)
    middle, square = _chord(start, rays, size)
    t = middle - np.sqrt(np.maximum(square, 0))
    hit = (square > 0) & (t > NEAR)
    return np.where(hit, t, MISS), (start + t[:, None] * rays) / size


def _intersect_cube(start: Floats, rays: Floats, size: np.float32) -> Hit:
    half = 0.85 * size
    slope = 1 / _nonzero(rays)
    one = (np.array([-half, 0, -half], np.float32) - start) * slope
    other = (np.array([half, 2 * half, half], np.float32) - start) * slope
    enter_x, enter_y, enter_z = np.minimum(one, other).T
    leave_x, leave_y, leave_z = np.maximum(one, other).T
    t = np.maximum(np.maximum(enter_x, enter_y), enter_z)
    hit = (t <= np.minimum(np.minimum(leave_x, leave_y), leave_z)) & (t > NEAR)
    faces = np.stack([t == enter_x, t == enter_y, t == enter_z], -1)
    return np.where(hit, t, MISS), unit(np.where(faces, -np.sign(rays), np.float32(0)))


def _intersect_side(
    start: Floats, rays: Floats, height: np.float32, radius: np.float32, taper: np.float32
) -> Hit:
    """Intersect the side of a cylinder or cone round the y axis.

    It is `radius` wide on the ground, narrower by `taper` per unit of height. The upward part of
    the normal is the same at any height, which rounds the light at the tip of a cone.
    """
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
    normal = np.stack([ox + t * dx, np.full(len(t), taper * radius, np.float32), oz + t * dz], -1)
    return nearest, unit(normal)


def _intersect_cylinder(start: Floats, rays: Floats, size: np.float32) -> Hit:
    height, radius = 1.9 * size, 0.78 * size
    nearest, normal = _intersect_side(start, rays, height, radius, np.float32(0))
    t = (height - start[:, 1]) / _nonzero(rays[:, 1])
    position = start[:, ::2] + t[:, None] * rays[:, ::2]
    lid = (t > NEAR) & (t < nearest) & (dot(position, position) < radius * radius)
    up = np.array([0, 1, 0], np.float32)
    return np.where(lid, t, nearest), np.where(lid[:, None], up, normal)


def _intersect_cone(start: Floats, rays: Floats, size: np.float32) -> Hit:
    height, radius = 2.2 * size, 0.95 * size
    return _intersect_side(start, rays, height, radius, radius / height)


def _intersect_ring(start: Floats, rays: Floats, size: np.float32) -> Hit:
    """Intersect a torus in the plane z = 0 by sphere tracing.

    Each step goes as far as the surface is away at least.
    """
    ring_radius, tube_radius = 0.72 * size, 0.27 * size
    start = start - np.array([0, size, 0], np.float32)
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


INTERSECTIONS: dict[str, Callable[[Floats, Floats, np.float32], Hit]] = {
    "ball": _intersect_ball,
    "cube": _intersect_cube,
    "cylinder": _intersect_cylinder,
    "cone": _intersect_cone,
    "ring": _intersect_ring,
}
BOUNDS = {
    "ball": (1.0, 2.0),
    "cube": (1.21, 1.7),
    "cylinder": (0.78, 1.9),
    "cone": (0.95, 2.2),
    "ring": (1.0, 2.0),
}
"""Half the width and the height of a box that holds a solid of size 1 at any rotation."""
