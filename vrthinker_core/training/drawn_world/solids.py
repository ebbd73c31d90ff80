"""Five solids that stand on the ground y = 0, and where a ray meets them. Lengths are world units, y points up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
"""Float32 throughout: half the work of numpy's own choice."""
Hit = tuple[Floats, Floats]
"""Distance along each ray, [n] (inf where it misses), and the outward normal there, [n, 3] (any vector where it misses)."""

NEAR = np.float32(1e-3)
"""Nothing closer than this is met, so a point on a surface does not meet itself."""
MISS = np.float32(np.inf)
RING_STEPS = 24
"""Steps after which a ray that still grazes the ring counts as past it."""


@dataclass(frozen=True, slots=True)
class Solid:
    """A thing on the ground: `size` is about half its height, (`x`, `z`) the middle of its foot, `turn` in radians."""

    shape: str
    rgb: tuple[int, int, int]
    size: float
    x: float
    z: float
    turn: float = 0.0

    @property
    def foot(self) -> Floats:
        """The middle of its foot, [3]."""
        return np.array([self.x, 0, self.z], np.float32)

    @property
    def corners(self) -> Floats:
        """Eight points, [8, 3], whose hull holds the whole solid whatever its turn."""
        wide, high = BOUNDS[self.shape]
        signs = np.array([(i, j, k) for i in (-1, 1) for j in (0, 1) for k in (-1, 1)], np.float32)
        box: Floats = self.foot + signs * np.array([wide, high, wide], np.float32) * np.float32(self.size)
        return box

    def hit(self, origin: Floats, rays: Floats) -> Hit:
        """Where `rays` [n, 3] of length 1 from `origin` ([3] or [n, 3]) first meet it."""
        c, s = np.cos(self.turn), np.sin(self.turn)
        inward = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]], np.float32)
        start = np.broadcast_to((origin - self.foot) @ inward, rays.shape)
        distance, normal = HITS[self.shape](start, rays @ inward, np.float32(self.size))
        return distance, normal @ inward.T


def dot(a: Floats, b: Floats) -> Floats:
    """Row by row, [n, 3] and [n, 3] to [n]."""
    product: Floats = np.einsum("ij,ij->i", a, b)
    return product


def unit(vectors: Floats) -> Floats:
    """Each row of [n, 3] at length 1."""
    scaled: Floats = vectors / (np.sqrt(dot(vectors, vectors))[:, None] + np.float32(1e-9))
    return scaled


def _not_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < 1e-9, np.float32(1e-9), values)


def _chord(start: Floats, rays: Floats, radius: np.float32) -> tuple[Floats, Floats]:
    """Of each ray's chord through a ball about the origin: distance of its middle, and half its length squared (<= 0: a miss)."""
    middle = -dot(start, rays)
    return middle, middle * middle - dot(start, start) + radius * radius


def _ball(start: Floats, rays: Floats, size: np.float32) -> Hit:
    start = start - np.array([0, size, 0], np.float32)
    middle, square = _chord(start, rays, size)
    t = middle - np.sqrt(np.maximum(square, 0))
    met = (square > 0) & (t > NEAR)
    return np.where(met, t, MISS), (start + t[:, None] * rays) / size


def _cube(start: Floats, rays: Floats, size: np.float32) -> Hit:
    half = 0.85 * size
    slope = 1 / _not_zero(rays)
    one = (np.array([-half, 0, -half], np.float32) - start) * slope
    other = (np.array([half, 2 * half, half], np.float32) - start) * slope
    enter_x, enter_y, enter_z = np.minimum(one, other).T
    leave_x, leave_y, leave_z = np.maximum(one, other).T
    t = np.maximum(np.maximum(enter_x, enter_y), enter_z)
    met = (t <= np.minimum(np.minimum(leave_x, leave_y), leave_z)) & (t > NEAR)
    faces = np.stack([t == enter_x, t == enter_y, t == enter_z], -1)
    return np.where(met, t, MISS), unit(np.where(faces, -np.sign(rays), np.float32(0)))


def _wall(start: Floats, rays: Floats, height: np.float32, foot: np.float32, lean: np.float32) -> Hit:
    """The side of a body round the y axis, whose radius is `foot` on the ground and shrinks by `lean` for each unit of height.

    The normal keeps one upward share all the way up, which rounds the light at the tip of a cone.
    """
    (ox, oy, oz), (dx, dy, dz) = start.T, rays.T
    here = foot - lean * oy
    a = dx * dx + dz * dz - lean * lean * dy * dy
    b = ox * dx + oz * dz + lean * dy * here
    square = b * b - a * (ox * ox + oz * oz - here * here)
    root, a = np.sqrt(np.maximum(square, 0)), _not_zero(a)
    nearest = np.full(len(rays), MISS, np.float32)
    for t in ((-b - root) / a, (-b + root) / a):
        y = oy + t * dy
        nearest = np.where((square > 0) & (t > NEAR) & (y > 0) & (y < height) & (t < nearest), t, nearest)
    t = np.where(np.isfinite(nearest), nearest, 0)
    normal = np.stack([ox + t * dx, np.full(len(t), lean * foot, np.float32), oz + t * dz], -1)
    return nearest, unit(normal)


def _cylinder(start: Floats, rays: Floats, size: np.float32) -> Hit:
    height, radius = 1.9 * size, 0.78 * size
    nearest, normal = _wall(start, rays, height, radius, np.float32(0))
    t = (height - start[:, 1]) / _not_zero(rays[:, 1])
    spot = start[:, ::2] + t[:, None] * rays[:, ::2]
    lid = (t > NEAR) & (t < nearest) & (np.einsum("ij,ij->i", spot, spot) < radius * radius)
    return np.where(lid, t, nearest), np.where(lid[:, None], np.array([0, 1, 0], np.float32), normal)


def _cone(start: Floats, rays: Floats, size: np.float32) -> Hit:
    height, radius = 2.2 * size, 0.95 * size
    return _wall(start, rays, height, radius, radius / height)


def _ring(start: Floats, rays: Floats, size: np.float32) -> Hit:
    """A standing torus in the plane z = 0, found by walking along each ray as far as the surface is at least away."""
    around, tube = 0.72 * size, 0.27 * size
    start = start - np.array([0, size, 0], np.float32)
    middle, square = _chord(start, rays, size)
    half = np.sqrt(np.maximum(square, 0))
    t, leave = np.maximum(middle - half, NEAR), middle + half
    met = np.zeros(len(rays), np.bool_)
    walking = np.nonzero((square > 0) & (leave > NEAR))[0]
    for _ in range(RING_STEPS):
        spots = start[walking] + t[walking, None] * rays[walking]
        gap = _to_ring(spots, around) - tube
        met[walking[gap < 0.002 * size]] = True
        t[walking] += np.maximum(gap, 0)
        walking = walking[(gap >= 0.002 * size) & (t[walking] < leave[walking])]
    spots = start + t[:, None] * rays
    core = unit(spots * np.array([1, 1, 0], np.float32)) * around
    return np.where(met, t, MISS), unit(spots - core)


def _to_ring(spot: Floats, around: np.float32) -> Floats:
    """Distance of each row of [n, 3] from the circle of radius `around` in the plane z = 0."""
    x, y, z = spot.T
    out = np.sqrt(x * x + y * y) - around
    away: Floats = np.sqrt(out * out + z * z)
    return away


HITS: dict[str, Callable[[Floats, Floats, np.float32], Hit]] = {
    "ball": _ball,
    "cube": _cube,
    "cylinder": _cylinder,
    "cone": _cone,
    "ring": _ring,
}
SHAPES = tuple(HITS)
"""What can be drawn."""
BOUNDS = {"ball": (1.0, 2.0), "cube": (1.21, 1.7), "cylinder": (0.78, 1.9), "cone": (0.95, 2.2), "ring": (1.0, 2.0)}
"""Half the width and the height of a box that holds a solid of size 1 at any turn."""
