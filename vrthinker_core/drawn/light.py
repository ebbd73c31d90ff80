"""Light on the ground and on the solids, and how light becomes display levels."""

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.drawn.solids import Floats, Solid, dot, unit
from vrthinker_core.drawn.textures import Pixels

SUN_DIRECTION: Floats = unit(np.array([[-0.45, 0.8, 0.4]], np.float32))[
    0
]  # Unit vector towards the sun, [3]
AMBIENT, DIRECT = 0.34, 0.78  # Light on the ground from the sky, and from the sun
SHADOW_SUNLIGHT = 0.38  # Share of the sunlight that is left in a shadow on the ground
CONTACT_RADIUS = 2.6  # How far the darkening around a solid's base reaches, in sizes of the solid
SHADOW_BIAS = np.float32(
    0.01
)  # How far off a surface a shadow ray begins, so that a surface does not shade itself


def to_display(light: Floats) -> Pixels:
    """Light (1 is white) of any shape to display levels, 0..255."""
    return (np.clip(light, 0, 1) ** np.float32(1 / 1.55) * 255).astype(np.uint8)


def in_shadow(positions: Floats, solid: Solid) -> NDArray[np.bool_]:
    """Which of the positions [n, 3] lie in the solid's shadow, [n]."""
    distance, _ = solid.intersect(
        positions + SUN_DIRECTION * SHADOW_BIAS, np.broadcast_to(SUN_DIRECTION, positions.shape)
    )
    return np.isfinite(distance)


def shadow_corners(solid: Solid) -> Floats:
    """Positions on the ground, [8, 3], whose hull holds the solid's shadow."""
    corners = solid.corners
    shadow: Floats = corners - corners[:, 1:2] * (SUN_DIRECTION / SUN_DIRECTION[1])
    return shadow


def contact_corners(solid: Solid) -> Floats:
    """The corners, [4, 3], of the square on the ground within which the solid's base darkens it."""
    signs = np.array([(-1, 0, -1), (-1, 0, 1), (1, 0, -1), (1, 0, 1)], np.float32)
    return solid.base + signs * np.float32(CONTACT_RADIUS * solid.size)


def contact_shading(positions: Floats, solid: Solid) -> Floats:
    """Share of the light that is left at positions [..., 3] on the ground near the solid's base, [...]."""
    x, z = (positions[..., axis] - solid.base[axis] for axis in (0, 2))
    share: Floats = 1 - np.float32(0.45) * np.exp(
        (x * x + z * z) * np.float32(-0.9 / solid.size**2)
    )
    return share


def _may_shade(other: Solid, solid: Solid) -> bool:
    """Whether a solid is near enough to be seen in another one's shadow, and not away from the sun."""
    offset = solid.base - other.base
    reach = np.float32(1.75) * (solid.size + other.size)
    along = offset @ SUN_DIRECTION
    square = offset @ offset
    return bool(
        np.sqrt(square) < 2.5 * (solid.size + other.size)
        and along < reach
        and square - along * along < reach * reach
    )


def shade_solid(
    solid: Solid, positions: Floats, rays: Floats, normals: Floats, others: tuple[Solid, ...]
) -> Floats:
    """Light [n, 3] from positions [n, 3] on a solid towards a camera that looks along `rays`; `others` may shade it."""
    lit = np.clip(normals @ SUN_DIRECTION, 0, 1)
    for other in others:
        if other is not solid and _may_shade(other, solid):
            lit = np.where(in_shadow(positions, other), np.float32(0.3), lit)
    up = normals[:, 1]
    diffuse = 0.30 + 0.12 * np.abs(up) + 0.95 * lit
    halfway = unit(SUN_DIRECTION - rays)
    specular = np.clip(dot(normals, halfway), 0, 1) ** 38 * 0.5 * (lit > 0)
    albedo = (np.array(solid.rgb, np.float32) / 255) ** 1.6
    return albedo * diffuse[:, None] + specular[:, None]
