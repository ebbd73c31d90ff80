"""Light on the ground and on the solids, and how light becomes display levels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vrthinker_core.training.drawn_world.solids import Floats, Solid, dot, unit
from vrthinker_core.training.drawn_world.textures import Pixels

SUN: Floats = unit(np.array([[-0.45, 0.8, 0.4]], np.float32))[0]
"""Where the light comes from."""
SKY, DIRECT = 0.34, 0.78
"""Light on the ground from everywhere, and from the sun."""
SHADOW = 0.38
"""What a shadow on the ground leaves of the sun."""
CONTACT = 2.6
"""How far the dark around a foot reaches, in sizes of the solid."""
CLEARANCE = np.float32(0.01)
"""How far off a surface the way to the sun begins."""


def display(light: Floats) -> Pixels:
    """Light (1 is white) to display levels, any shape."""
    levels: Pixels = (np.clip(light, 0, 1) ** np.float32(1 / 1.55) * 255).astype(np.uint8)
    return levels


def hidden_from_sun(spots: Floats, solid: Solid) -> NDArray[np.bool_]:
    """Which of the spots [n, 3] the solid shades."""
    distance, _ = solid.hit(spots + SUN * CLEARANCE, np.broadcast_to(SUN, spots.shape))
    hidden: NDArray[np.bool_] = np.isfinite(distance)
    return hidden


def shadow_of(solid: Solid) -> Floats:
    """Spots on the ground, [8, 3], whose hull holds the solid's shadow."""
    corners = solid.corners
    shadow: Floats = corners - corners[:, 1:2] * (SUN / SUN[1])
    return shadow


def surround_of(solid: Solid) -> Floats:
    """The corners, [4, 3], of the square on the ground within which the solid's foot darkens it."""
    signs = np.array([(-1, 0, -1), (-1, 0, 1), (1, 0, -1), (1, 0, 1)], np.float32)
    return solid.foot + signs * np.float32(CONTACT * solid.size)


def contact(spots: Floats, solid: Solid) -> Floats:
    """What the nearness of a foot leaves of the light on the spots [..., 3]."""
    x, z = (spots[..., axis] - solid.foot[axis] for axis in (0, 2))
    left: Floats = 1 - np.float32(0.45) * np.exp((x * x + z * z) * np.float32(-0.9 / solid.size**2))
    return left


def on_solid(solid: Solid, spots: Floats, rays: Floats, normals: Floats, others: tuple[Solid, ...]) -> Floats:
    """Light [n, 3] from a solid's spots towards an eye that looks along `rays`; `others` may stand in the sun's way."""
    lit = np.clip(normals @ SUN, 0, 1)
    for other in others:
        if other is not solid and _close(solid, other):
            lit = np.where(hidden_from_sun(spots, other), np.float32(0.3), lit)
    up = normals[:, 1]
    soft = 0.30 + 0.12 * np.abs(up) + 0.95 * lit
    halfway = unit(SUN - rays)
    gloss = np.clip(dot(normals, halfway), 0, 1) ** 38 * 0.5 * (lit > 0)
    albedo = (np.array(solid.rgb, np.float32) / 255) ** 1.6
    shown: Floats = albedo * soft[:, None] + gloss[:, None]
    return shown


def _close(one: Solid, other: Solid) -> bool:
    gap = one.foot - other.foot
    return bool(np.sqrt(gap @ gap) < 2.5 * (one.size + other.size))
