"""Light on the ground and on the solids, and how light becomes display levels."""

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.solids import Floats, Solid, dot, unit
from vrthinker_core.drawn.textures import Pixels

# Unit vector towards the sun, [3]
SUN_DIRECTION: Floats = unit(np.array([[-0.45, 0.8, 0.4]], np.float32))[0]
AMBIENT, DIRECT = 0.34, 0.78  # Light on the ground from the sky, and from the sun
SHADOW_SUNLIGHT = 0.38  # Share of the sunlight that is left in a shadow on the ground


def to_display(light: Floats) -> Pixels:
    """Map light (1 is white) of any shape to display levels, 0..255."""
    return (np.clip(light, 0, 1) ** np.float32(1 / 1.55) * 255).astype(np.uint8)


def in_shadow(positions: Floats, solid: Solid) -> NDArray[np.bool_]:
    """Return which positions [n, 3] lie in the solid's shadow, [n]."""
    # Rays begin a little off the surface, so that it does not shade itself
    origins = positions + SUN_DIRECTION * np.float32(0.01)
    return np.isfinite(solid.intersect(origins, np.broadcast_to(SUN_DIRECTION, positions.shape))[0])


def shadow_corners(solid: Solid) -> Floats:
    """Return ground positions [8, 3] whose hull holds the solid's shadow."""
    corners = solid.corners
    return np.asarray(corners - corners[:, 1:2] * (SUN_DIRECTION / SUN_DIRECTION[1]))


def contact_corners(solid: Solid) -> Floats:
    """Return the corners [4, 3] of the ground that the base darkens."""
    signs = np.array([(-1, 0, -1), (-1, 0, 1), (1, 0, -1), (1, 0, 1)], np.float32)
    return solid.base + signs * np.float32(2.6 * solid.size)


def contact_shading(positions: Floats, solid: Solid) -> Floats:
    """Return the share of light left near the solid's base, [...].

    `positions` [..., 3] are on the ground.
    """
    x, z = (positions[..., axis] - solid.base[axis] for axis in (0, 2))
    near = np.exp((x * x + z * z) * np.float32(-0.9 / solid.size**2))
    return np.asarray(1 - np.float32(0.45) * near)


def shade_solid(
    solid: Solid, positions: Floats, rays: Floats, normals: Floats, others: tuple[Solid, ...]
) -> Floats:
    """Return the light [n, 3] from points [n, 3] of a solid.

    The camera looks along `rays`; `others` may shade the solid.
    """
    lit = np.clip(normals @ SUN_DIRECTION, 0, 1)
    for other in others:
        # Only solids that are near enough, and not away from the sun, may shade this one
        offset, sizes = solid.base - other.base, solid.size + other.size
        along, square = offset @ SUN_DIRECTION, offset @ offset
        reach, near = np.float32(1.75) * sizes, np.sqrt(square) < 2.5 * sizes
        beside = along < reach and square - along * along < reach * reach
        if other is not solid and near and beside:
            lit = np.where(in_shadow(positions, other), np.float32(0.3), lit)
    diffuse = 0.30 + 0.12 * np.abs(normals[:, 1]) + 0.95 * lit
    halfway = unit(SUN_DIRECTION - rays)
    specular = np.clip(dot(normals, halfway), 0, 1) ** 38 * 0.5 * (lit > 0)
    albedo = (np.array(solid.rgb, np.float32) / 255) ** 1.6
    return albedo * diffuse[:, None] + specular[:, None]
